"""Where in a TOML file a key stands: `tomllib` forgets, and the reader of an error wants to know."""

import re

_TABLE = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def line_of(text: str, key: str) -> int | None:
    """The line of a key such as `link.lan.url`, counted from 1; that of its table if it has none."""
    wanted, best = key.split("."), 0
    table: list[str] = []
    at: int | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if found := _TABLE.match(line):
            table = _names(found[1])
            here = table
        elif found := _KEY.match(line):
            here = [*table, *_names(found[1])]
        else:
            continue
        if wanted[: len(here)] == here and len(here) > best:
            best, at = len(here), number
    return at


def _names(dotted: str) -> list[str]:
    return [name.strip().strip("\"'") for name in dotted.split(".")]
