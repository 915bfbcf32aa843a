"""`shoal nodes`: who is in the domain, and what they are."""

import typer

from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import printable
from shoal.cli.network import Dot, Json, Svg, Wait, ask, draw, print_json, print_table

EPILOG = """
Examples:

  shoal nodes

  shoal nodes --url tcp://gateway:7474 --json

  shoal nodes --svg network.svg

  shoal nodes --dot | dot -Tpng -o network.png
"""


def nodes(
    wait: Wait = 2.0,
    dot: Dot = False,
    svg: Svg = None,
    json: Json = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print the nodes of the domain: daemons with what they say of themselves, others by their ids.

    The status is 1 if no node answers.
    """
    with plain_endings("nodes"), connect(url, domain, interface, asks=True) as bus:
        _, network = ask(bus, wait)
        places = [place for place in network.places.values() if place.kind != "lan"]
        if not draw(network, dot, svg):
            if json:
                print_json([{"node": place.key, "kind": place.kind, **place.status} for place in places])
            else:
                rows: list[tuple[str, ...]] = []
                for place in sorted(places, key=lambda place: (place.kind, place.name)):
                    status = place.status
                    links = [link for link in status.get("links", ()) if link.get("state") != "standby"]
                    up = [link for link in links if link.get("up")]
                    rows.append(
                        (
                            place.key,
                            printable(place.name) if status else "",
                            " ".join(map(str, status.get("roles", ()))),
                            f"{len(up)}/{len(links)}" if status else "",
                            str(status.get("members", "")),
                            str(status.get("host", "")),
                            str(status.get("trouble", "")),
                        )
                    )
                print_table(("NODE", "NAME", "ROLES", "LINKS UP", "MEMBERS", "HOST", "TROUBLE"), rows)
        if not places:
            typer.echo(f"shoal nodes: no node answered within {wait:g} s", err=True)
            raise typer.Exit(1)
