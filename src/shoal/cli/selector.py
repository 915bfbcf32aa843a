"""`shoal selector`: try a message selector out."""

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from shoal.errors import InvalidSelectorError
from shoal.selector import PropertyValue, Selector

app = typer.Typer()

INVALID = 2
NO_MATCH = 1


def _value(text: str) -> PropertyValue:
    """Read a value as a selector literal would be: quoted text, TRUE or FALSE, a number, or else text."""
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    if text.upper() in ("TRUE", "FALSE"):
        return text.upper() == "TRUE"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _assignments(texts: list[str], option: str) -> dict[str, PropertyValue]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r} is not of the form name=value", param_hint=option)
        values[name.strip()] = _value(value.strip())
    return values


@app.command(no_args_is_help=True)
def selector(
    text: Annotated[str, typer.Argument(metavar="SELECTOR", help="The selector, quoted for the shell.")],
    properties: Annotated[
        list[str] | None,
        typer.Option(
            "--property", "-p", metavar="NAME=VALUE", help="A property to evaluate with; repeatable."
        ),
    ] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME=VALUE", help="A JMS header field to evaluate with; repeatable."
        ),
    ] = None,
) -> None:
    """Check a selector, show its canonical form, and say whether it matches.

    Exits with 2 if the selector is invalid, and with 1 if properties or headers were given and it does not
    match them.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        parsed = Selector(text)
    except InvalidSelectorError as error:
        problem = Console(stderr=True, highlight=False, soft_wrap=True)
        source, marker = error.caret.splitlines()
        problem.print(f"[bold red]invalid selector[/] at position {error.position}", end="\n\n")
        problem.print(f"  {escape(source)}\n  [bold red]{marker}[/]", end="\n\n")
        problem.print(f"found     {escape(error.found)}\nexpected  {escape(error.expected)}")
        raise typer.Exit(INVALID) from None
    console.print(f"[bold green]valid[/]      {escape(str(parsed))}")
    console.print(f"mentions   {escape(', '.join(parsed.names) or 'nothing')}")
    if properties or headers:
        matches = parsed.matches(
            _assignments(properties or [], "--property"), _assignments(headers or [], "--header")
        )
        console.print("[bold green]matches[/]" if matches else "[bold yellow]does not match[/]")
        if not matches:
            raise typer.Exit(NO_MATCH)
