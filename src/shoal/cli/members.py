"""`shoal members`: who is there."""

import json as json_text
import time
from typing import Annotated

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import printable

EPILOG = """
Examples:

  shoal members

  shoal members --domain desk --json

  shoal members --watch                (until Ctrl-C)
"""


def members(
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for members to answer.")] = 1.0,
    watch: Annotated[bool, typer.Option("--watch", help="Print who comes and goes, until Ctrl-C.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print the members of the domain, and what they subscribe to. The status is 1 if there are none."""
    with plain_endings("members"), connect(url, domain, interface, asks=True) as bus:
        patterns: dict[int, set[str]] = {}
        deadline = time.monotonic() + wait
        while (left_s := deadline - time.monotonic()) > 0:
            for event in bus.events(timeout_s=left_s):
                _note(patterns, event)
                if time.monotonic() >= deadline:
                    break
        for node in sorted(bus.members):
            _print(json, "member", node, sorted(patterns.get(node, ())))
        if watch:
            for event in bus.events():
                _watch(json, patterns, event)
        elif not bus.members:
            typer.echo(f"shoal members: no member answered within {wait:g} s", err=True)
            raise typer.Exit(1)


def _note(patterns: dict[int, set[str]], event: shoal.Event) -> None:
    match event:
        case shoal.MemberLeft(node, _):
            patterns.pop(node, None)
        case shoal.SubscriptionsChanged(node, added, removed):
            own = patterns.setdefault(node, set())
            own |= set(added)
            own -= set(removed)


def _watch(json: bool, patterns: dict[int, set[str]], event: shoal.Event) -> None:
    _note(patterns, event)
    match event:
        case shoal.MemberJoined(node):
            _print(json, "joined", node, [])
        case shoal.MemberLeft(node, failed):
            _print(json, "failed" if failed else "left", node, [])
        case shoal.SubscriptionsChanged(node, _, _):
            _print(json, "member", node, sorted(patterns[node]))


def _print(json: bool, what: str, node: int, patterns: list[str]) -> None:
    if json:
        print(json_text.dumps({"event": what, "node": node, "patterns": patterns}), flush=True)
    else:
        print(" ".join([f"{what:<6} {node:>10}", *map(printable, patterns)]), flush=True)
