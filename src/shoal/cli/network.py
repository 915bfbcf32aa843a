"""What `shoal nodes` and `shoal links` share: they ask the domain, and draw what they hear."""

import contextlib
import json as json_text
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

import shoal
from shoal.daemon.network import Network, network_of
from shoal.daemon.picture import dot as dot_of
from shoal.daemon.picture import svg as svg_of
from shoal.errors import NoReplyError, RemoteError
from shoal.monitor.answers import TOPIC

Wait = Annotated[float, typer.Option(min=0.0, help="Seconds to wait for answers.")]
Dot = Annotated[bool, typer.Option("--dot", help="Print a picture in Graphviz's language.")]
Svg = Annotated[Path | None, typer.Option(help="Write a picture to an SVG file; - is standard output.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]


def ask(bus: shoal.Bus, wait_s: float) -> tuple[list[Mapping[str, Any]], Network]:
    """What daemons say of themselves, and the network that makes."""
    statuses: dict[int, Mapping[str, Any]] = {}
    deadline = time.monotonic() + wait_s
    # A node that is asked too early is not known yet: ask until the time is over.
    while not statuses and time.monotonic() < deadline:
        bus.wait_for_subscribers(TOPIC, timeout_s=max(0.0, deadline - time.monotonic()))
        with contextlib.suppress(NoReplyError, RemoteError):
            left_s = max(0.1, deadline - time.monotonic())
            for answer in bus.request_many(TOPIC, timeout_s=min(left_s, 1.0)):
                if isinstance(answer.body, dict) and isinstance(answer.body.get("node"), int):
                    statuses[answer.body["node"]] = answer.body
    told = sorted(statuses.values(), key=lambda status: str(status.get("name")))
    return told, network_of(told, sorted(bus.members), bus.node)


def draw(network: Network, dot: bool, svg: Path | None) -> bool:
    """Draw the picture that an option names; false if none does."""
    if dot:
        print(dot_of(network), end="")
    if svg is not None and str(svg) == "-":
        print(svg_of(network), end="")
    elif svg is not None:
        svg.write_text(svg_of(network), encoding="utf-8")
    return dot or svg is not None


def print_json(rows: list[dict[str, Any]]) -> None:
    """One object a line."""
    for row in rows:
        print(json_text.dumps(row), flush=True)


def print_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Columns as wide as they have to be."""
    widths = [max(len(row[column]) for row in [headings, *rows]) for column in range(len(headings))]
    for row in [headings, *rows]:
        print("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())
