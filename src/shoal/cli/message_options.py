"""Options of commands that send messages."""

import itertools
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from shoal.cli.message_text import body_from_text
from shoal.errors import ShoalError

Properties = Annotated[
    list[str] | None,
    typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
]
Priority = Annotated[int, typer.Option(min=0, max=9, help="0 is least urgent, 9 most.")]
Ttl = Annotated[float | None, typer.Option(help="Seconds after which it is not delivered any more.")]
JsonBody = Annotated[bool, typer.Option("--json-body", help="The body is JSON.")]
Stdin = Annotated[bool, typer.Option("--stdin", help="Send each line of standard input.")]


def bodies(text: str | None, as_json: bool, count: int, stdin: bool) -> Iterator[Any]:
    """The bodies to send: one, `count` times (0 is for ever), or the lines of standard input."""
    if stdin:
        if text is not None or count != 1:
            raise typer.BadParameter(
                "--stdin takes the bodies from standard input: give no body and no --count"
            )
        return _lines(as_json)
    body = None if text is None else body_from_text(text, as_json)
    return itertools.repeat(body, count) if count else itertools.repeat(body)


def _lines(as_json: bool) -> Iterator[Any]:
    for number, line in enumerate(sys.stdin, 1):
        try:
            yield body_from_text(line.rstrip("\n"), as_json)
        except ValueError as error:
            raise ShoalError(f"line {number} of standard input: {error}") from None
