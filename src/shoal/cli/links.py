"""`shoal links`: what joins the nodes of the domain."""

from collections.abc import Mapping
from typing import Any

import typer

from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.network import Dot, Json, Svg, Wait, ask, draw, print_json, print_table

EPILOG = """
Examples:

  shoal links

  shoal links --url tcp://gateway:7474 --json

  shoal links --svg network.svg
"""


def links(
    wait: Wait = 2.0,
    dot: Dot = False,
    svg: Svg = None,
    json: Json = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print the links of the domain's daemons. The status is 1 if no daemon answers."""
    with plain_endings("links"), connect(url, domain, interface, asks=True) as bus:
        statuses, network = ask(bus, wait)
        if not draw(network, dot, svg):
            listed = [(status, link) for status in statuses for link in status.get("links", ())]
            if json:
                print_json(
                    [{"daemon": status["name"], "node": status["node"], **link} for status, link in listed]
                )
            else:
                names = {status["node"]: str(status["name"]) for status in statuses}
                rows = [_row(str(status["name"]), link, names) for status, link in listed]
                print_table(
                    ("DAEMON", "LINK", "KIND", "STATE", "WITH", "ROUND TRIP", "SENT", "RECEIVED"), rows
                )
        if not statuses:
            typer.echo(f"shoal links: no daemon answered within {wait:g} s", err=True)
            raise typer.Exit(1)


def _row(daemon: str, link: Mapping[str, Any], names: Mapping[object, str]) -> tuple[str, ...]:
    """A line of the table; `names` are those of daemons by their nodes."""
    trip, peer = link.get("round_trip_s"), link.get("peer")
    return (
        daemon,
        str(link["name"]),
        str(link["kind"]),
        str(link["state"]),
        str(link.get("lan") or names.get(peer) or peer or link.get("url") or ""),
        "" if trip is None else f"{1000 * float(trip):.1f} ms",
        _bytes(link.get("bytes_sent")),
        _bytes(link.get("bytes_received")),
    )


def _bytes(count: Any) -> str:
    if count is None:
        return ""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
