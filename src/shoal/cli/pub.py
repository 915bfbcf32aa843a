"""`shoal pub`: publish from the command line."""

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import body_from_text, property_from_text
from shoal.errors import ShoalError

#: Persistent messages that may be on their way to the store at once.
WINDOW = 1000

EPILOG = """
Examples:

  shoal pub prices/ACME 10.25

  shoal pub prices/ACME '{"bid": 10.25}' --json-body --property region=EU

  shoal pub clock tick --count 0 --interval 1      (for ever)

  tail -f app.log | shoal pub logs/app --stdin

  shoal pub orders/new '{"id": 7}' --json-body --persistent      (a store keeps it)
"""


def pub(
    topic: Annotated[str, typer.Argument(help="Where to publish: levels separated by /.")],
    body: Annotated[str | None, typer.Argument(help="What to publish: text, unless --json-body.")] = None,
    count: Annotated[int, typer.Option(min=0, help="How many times; 0 is for ever.")] = 1,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds between two messages.")] = 0.0,
    property_: Annotated[
        list[str] | None,
        typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated."),
    ] = None,
    priority: Annotated[int, typer.Option(min=0, max=9, help="0 is least urgent, 9 most.")] = 4,
    ttl: Annotated[float | None, typer.Option(help="Seconds after which nobody wants it any more.")] = None,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="A store keeps it, and this waits until it does.")
    ] = False,
    json_body: Annotated[bool, typer.Option("--json-body", help="The body is JSON.")] = False,
    stdin: Annotated[bool, typer.Option("--stdin", help="Publish each line of standard input.")] = False,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait for the first subscriber before publishing.")
    ] = 1.0,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Publish a message, or many."""
    if stdin and (body is not None or count != 1):
        raise typer.BadParameter("--stdin takes the bodies from standard input: give no body and no --count")
    with plain_endings("pub"):
        properties = dict(map(property_from_text, property_ or ()))
        bodies = _lines(json_body) if stdin else _repeated(body, json_body, count)
        with connect(url, domain, interface) as bus:
            heard = persistent or bus.wait_for_subscribers(topic, 1, wait)
            published = _publish(bus, topic, bodies, interval, properties, priority, ttl, persistent)
            bus.flush()
            if not heard and not bus.subscribers(topic):
                typer.echo(f"shoal pub: published {published}, and nobody subscribes to {topic}", err=True)


def _publish(
    bus: shoal.Bus,
    topic: str,
    bodies: Iterator[Any],
    interval_s: float,
    properties: dict[str, Any],
    priority: int,
    ttl_s: float | None,
    persistent: bool,
) -> int:
    number = 0
    for number, body in enumerate(bodies, 1):
        if number > 1 and interval_s:
            time.sleep(interval_s)
        bus.publish(
            topic,
            body,
            properties=properties or None,
            priority=priority,
            ttl_s=ttl_s,
            persistent=persistent,
            window=WINDOW if persistent else None,
        )
    return number


def _repeated(text: str | None, as_json: bool, count: int) -> Iterator[Any]:
    body = None if text is None else body_from_text(text, as_json)
    return itertools.repeat(body, count) if count else itertools.repeat(body)


def _lines(as_json: bool) -> Iterator[Any]:
    for number, line in enumerate(sys.stdin, 1):
        try:
            yield body_from_text(line.rstrip("\n"), as_json)
        except ValueError as error:
            raise ShoalError(f"line {number} of standard input: {error}") from None
