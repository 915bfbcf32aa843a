"""`shoal sub`: watch what is published."""

import sys
from typing import Annotated

import typer

import shoal
from shoal.bus.consumer import StoredSubscription
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.finding import find_store
from shoal.cli.message_text import for_people, for_programs

EPILOG = """
Examples:

  shoal sub 'prices/*'                 one level

  shoal sub '>'                        everything

  shoal sub 'prices/>' --selector "region = 'EU' AND JMSPriority > 4"

  shoal sub 'prices/>' --json | jq .body

  shoal sub orders --count 1 --timeout 10

  shoal sub 'orders/>' --durable desk-7      goes on where it stopped

  shoal sub 'prices/>' --retained      the last values first (see shoal pub --retain)
"""


def sub(
    pattern: Annotated[str, typer.Argument(help="Topics: * is one level, > all that follow.")],
    selector: Annotated[
        str | None, typer.Option(help="A condition on properties and headers, as in JMS.")
    ] = None,
    correlation: Annotated[
        str | None, typer.Option(help="A condition on correlation ids, such as '[#7;#13]'.")
    ] = None,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    durable: Annotated[
        str | None, typer.Option(metavar="NAME", help="A store keeps messages while this is away.")
    ] = None,
    client_id: Annotated[str, typer.Option(help="Whose durable subscription it is.")] = "shoal-sub",
    retained: Annotated[
        bool, typer.Option("--retained", help="Print the last value of each topic first.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Fail if no message comes for this many seconds.")
    ] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print messages as they come, until Ctrl-C."""
    with plain_endings("sub"):
        colour = sys.stdout.isatty()
        if durable is not None and correlation is not None:
            raise typer.BadParameter(
                "--correlation is for subscriptions that are not durable: use --selector"
            )
        if durable is not None and retained:
            raise typer.BadParameter("--retained is for subscriptions that are not durable")
        with (
            connect(
                url, domain, interface, patient=True, client_id=None if durable is None else client_id
            ) as bus,
            _subscribe(bus, pattern, selector, correlation, durable, retained) as subscription,
        ):
            left = count
            while left is None or left > 0:
                messages = _next(subscription, timeout, left)
                if not messages:
                    typer.echo(f"shoal sub: no message on {pattern} within {timeout:g} s", err=True)
                    raise typer.Exit(1)
                lines = (for_programs(each) if json else for_people(each, colour) for each in messages)
                sys.stdout.write("\n".join([*lines, ""]))
                sys.stdout.flush()
                if left is not None:
                    left -= len(messages)


def _subscribe(
    bus: shoal.Bus,
    pattern: str,
    selector: str | None,
    correlation: str | None,
    durable: str | None,
    retained: bool,
) -> shoal.Subscription | StoredSubscription:
    if durable is None:
        return bus.subscribe(pattern, selector=selector, correlation=correlation, retained=retained)
    find_store(bus, None)
    return bus.subscribe(pattern, selector=selector, durable=durable)


def _next(
    subscription: shoal.Subscription | StoredSubscription, timeout_s: float | None, count_max: int | None
) -> list[shoal.Message]:
    """What is here, or else the next message; nothing if none comes in time."""
    first = subscription.receive(timeout_s)
    if first is None:
        return []
    if count_max == 1:
        return [first]
    more = 1000 if count_max is None else min(count_max - 1, 1000)
    if isinstance(subscription, StoredSubscription):
        # What is printed is acknowledged with the next one that is taken.
        return [first]
    return [first, *subscription.receive_nowait(more)]
