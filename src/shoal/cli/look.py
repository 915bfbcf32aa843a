"""The look of every command's help: the same at every level, and the same whichever version `typer` has."""

import inspect
import re
from types import MethodType
from typing import Any

#: What a value is, where a command does not say it itself: `typer` prints the type, such as `<list[str]>`.
_TYPE = re.compile(r" <([^<>]*)>")
_NUMBERS = ("int", "float")
#: Options of many commands, by their names.
_VALUES = {
    "url": "URL",
    "domain": "NAME",
    "name": "NAME",
    "save": "NAME",
    "interface": "NAME",
    "listen": "ADDRESS:PORT",
    "flight": "ADDRESS:PORT",
    "peer": "ADDRESS",
    "record": "PATTERN",
    "pattern": "PATTERN",
    "selector": "SELECTOR",
    "data": "DIRECTORY",
    "command": "COMMAND",
    "columns": "NAMES",
}
#: What `typer` adds to an app that is none of its own here.
_COMPLETION = ("install_completion", "show_completion")
#: Between an example and what it does.
_COMMENT = re.compile(r"\s{3,}")


def dress(command: Any, *, root: bool = False) -> Any:
    """A command, and all below it, with this look.

    Commands, contexts and formatters are of whichever `click` comes with `typer`.
    """
    if not root:
        command.params = [param for param in command.params if param.name not in _COMPLETION]
    command.format_options = MethodType(_format_options, command)
    command.format_epilog = MethodType(_format_epilog, command)
    for below in getattr(command, "commands", {}).values():
        dress(below)
    return command


def _format_options(command: Any, ctx: Any, formatter: Any) -> None:
    rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is None:
            continue
        kind = _TYPE.search(record[0])
        name = record[0] if kind is None else record[0].replace(kind[0], "")
        if param.param_type_name == "option":
            rows["Options"].append(
                (name if kind is None else f"{name} {_value(param.name, kind[1])}", record[1])
            )
        else:
            rows["Arguments"].append((name, record[1]))
    for title, named in rows.items():
        if named:
            with formatter.section(title):
                formatter.write_dl(named)
    if hasattr(command, "format_commands"):
        command.format_commands(ctx, formatter)


def _value(name: str | None, kind: str) -> str:
    """What stands for a value."""
    if name in _VALUES:
        return _VALUES[name]
    kind = kind.removeprefix("list[").removesuffix("]").removesuffix(" range").lower()
    return "N" if kind in _NUMBERS else "PATH" if kind == "path" else "TEXT"


def _format_epilog(command: Any, ctx: Any, formatter: Any) -> None:
    """Text as paragraphs, and examples as they are typed: no line of them is wrapped."""
    for paragraph in inspect.cleandoc(command.epilog or "").split("\n\n"):
        if not paragraph.startswith(" "):
            formatter.write_paragraph()
            with formatter.indentation():
                formatter.write_text(paragraph)
            continue
        for line in paragraph.strip().splitlines():
            example, *comment = _COMMENT.split(line.strip(), maxsplit=1)
            if comment:
                formatter.write(f"    # {_bare(comment[0])}\n")
            formatter.write(f"    {example}\n")


def _bare(comment: str) -> str:
    """A comment without the parentheses around all of it."""
    return comment[1:-1] if comment.startswith("(") and comment.endswith(")") else comment
