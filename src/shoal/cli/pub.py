"""`shoal pub`: publish from the command line."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.finding import find_store
from shoal.cli.message_options import JsonBody, Priority, Properties, Stdin, Ttl, bodies
from shoal.cli.message_text import property_from_text

#: Persistent messages that may be on their way to the store at once.
WINDOW = 1000

EPILOG = """
Examples:

  shoal pub prices/ACME 10.25

  shoal pub prices/ACME '{"bid": 10.25}' --json-body --property region=EU

  shoal pub clock tick --count 0 --interval 1      (for ever)

  tail -f app.log | shoal pub logs/app --stdin

  shoal pub orders/new '{"id": 7}' --json-body --persistent      (a store keeps it)

  shoal pub prices/ACME 10.25 --retain      (new subscribers get it first, until Ctrl-C)

  shoal pub prices/ACME 10.25 --retain --persistent      (a store keeps it and gives it to them)
"""


def pub(
    topic: Annotated[str, typer.Argument(help="Where to publish: levels separated by /.")],
    body: Annotated[str | None, typer.Argument(help="What to publish: text, unless --json-body.")] = None,
    count: Annotated[int, typer.Option(min=0, help="How many times; 0 is for ever.")] = 1,
    interval: Annotated[float, typer.Option(min=0.0, help="Seconds between two messages.")] = 0.0,
    property_: Properties = None,
    priority: Priority = 4,
    ttl: Ttl = None,
    persistent: Annotated[
        bool, typer.Option("--persistent", help="A store keeps it, and this waits until it does.")
    ] = False,
    retain: Annotated[
        bool,
        typer.Option(
            "--retain",
            help="Keep it as the topic's last value: until Ctrl-C, or with --persistent in a store.",
        ),
    ] = False,
    json_body: JsonBody = False,
    stdin: Stdin = False,
    wait: Annotated[
        float, typer.Option(min=0.0, help="Seconds to wait for the first subscriber before publishing.")
    ] = 1.0,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Publish a message, or many."""
    with plain_endings("pub"):
        properties = dict(map(property_from_text, property_ or ()))
        sent = bodies(body, json_body, count, stdin)
        with connect(url, domain, interface) as bus:
            if persistent:
                find_store(bus, None)
            heard = persistent or retain or bus.wait_for_subscribers(topic, 1, wait)
            published = _publish(bus, topic, sent, interval, properties, priority, ttl, persistent, retain)
            bus.flush()
            denied = [each for each in bus.events(timeout_s=0) if isinstance(each, shoal.LinkDenied)]
            if denied:
                raise shoal.JMSSecurityError(denied[0].why)
            if not heard and not bus.subscribers(topic):
                typer.echo(f"shoal pub: published {published}; no program subscribes to {topic}", err=True)
            if retain and not persistent:
                typer.echo(f"shoal pub: retaining the last value of {topic} until Ctrl-C", err=True)
                bus.run()


def _publish(
    bus: shoal.Bus,
    topic: str,
    sent: Iterator[Any],
    interval_s: float,
    properties: dict[str, Any],
    priority: int,
    ttl_s: float | None,
    persistent: bool,
    retain: bool,
) -> int:
    number = 0
    for number, body in enumerate(sent, 1):
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
            retain=retain,
        )
    return number
