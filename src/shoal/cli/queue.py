"""`shoal queue`: see what waits in queues, and put right what went wrong."""

import contextlib
import itertools
import json as json_module
import sys
from collections.abc import Iterator
from typing import Annotated, Any, cast

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.finding import ANSWER_S, find_store
from shoal.cli.message_options import JsonBody, Priority, Properties, Stdin, Ttl, bodies
from shoal.cli.message_text import for_people, for_programs, property_from_text
from shoal.store.config import parse_duration, parse_size

app = typer.Typer(
    help="See what waits in queues, send and receive.",
    pretty_exceptions_show_locals=False,
    add_completion=False,
)

Name = Annotated[str, typer.Argument(help="The queue's name.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]
Selecting = Annotated[str | None, typer.Option(help="Only messages that match, as in JMS.")]
Timeout = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        help="Seconds to wait for the store. Default: 1 to find it, 10 for its answer.",
        show_default=False,
    ),
]


#: What `list` prints of a queue; `--json` prints all.
COLUMNS = ("name", "messages", "bytes", "ready", "waiting", "in_flight", "consumers", "dead_letter")

#: Messages that a store moves or drops within one answer, and the time that takes at the most.
MOVE_MAX, MOVE_S = 1000, 60.0


@contextlib.contextmanager
def _at_store(
    command: str, url: str | None, domain: str | None, interface: str | None, timeout_s: float | None
) -> Iterator[shoal.Bus]:
    """A connection that has found the store; its errors are printed as one line."""
    with plain_endings(f"queue {command}"), connect(url, domain, interface, asks=True) as bus:
        find_store(bus, timeout_s, kept=False)
        yield bus


def ask(bus: shoal.Bus, timeout_s: float, op: str, **fields: Any) -> dict[str, Any]:
    """Ask the store something that has no call of its own."""
    body = {"op": op, **{name: value for name, value in fields.items() if value is not None}}
    return bus._connection.ask_store(body, f"shoal queue {op}", timeout_s, memory=True)


def _limit(timeout_s: float | None, default_s: float = ANSWER_S) -> float:
    return default_s if timeout_s is None else timeout_s


@app.command("list")
def list_queues(
    json: Json = False,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """List the queues: how many messages wait, how many are being worked on."""
    with _at_store("list", url, domain, interface, timeout) as bus:
        queues = ask(bus, _limit(timeout), "status")["status"]["queues"]
        if json:
            for queue in queues:
                typer.echo(json_module.dumps(queue, default=str))
            return
        if not queues:
            typer.echo("there are no queues")
            return
        rows = [[str(queue[name]) for name in COLUMNS] for queue in queues]
        titles = [name.replace("_", " ") for name in COLUMNS]
        widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]
        for row in [titles, *rows]:
            typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


@app.command("peek")
def peek(
    queue: Name,
    count: Annotated[int, typer.Option(min=1, help="How many messages at the most.")] = 10,
    selector: Selecting = None,
    json: Json = False,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print the first messages that wait, without taking them."""
    with _at_store("peek", url, domain, interface, timeout) as bus:
        for message in itertools.islice(
            bus.queue(queue).browse(selector=selector, timeout_s=_limit(timeout)), count
        ):
            typer.echo(for_programs(message) if json else for_people(message, sys.stdout.isatty()))


@app.command("purge")
def purge(
    queue: Name,
    selector: Selecting = None,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Drop what waits in a queue."""
    with _at_store("purge", url, domain, interface, timeout) as bus:
        count = bus.queue(queue).purge(selector=selector, timeout_s=_limit(timeout, MOVE_S))
        typer.echo(f"{count} messages dropped from {queue}")


@app.command("move")
def move(
    queue: Name,
    to: Annotated[str, typer.Argument(help="Where to.")],
    selector: Selecting = None,
    count: Annotated[int | None, typer.Option(min=1, help="How many messages at the most.")] = None,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Move messages into another queue, as they are: out of a dead-letter queue, for instance."""
    with _at_store("move", url, domain, interface, timeout) as bus:
        wanted = None if selector is None else str(shoal.Selector(selector))
        moved, left = 0, sys.maxsize if count is None else count
        while left > 0:
            fields = {"queue": queue, "to": to, "selector": wanted, "messages": min(left, MOVE_MAX)}
            some = int(ask(bus, _limit(timeout, MOVE_S), "move", **fields)["messages"])
            if not some:
                break
            moved, left = moved + some, left - some
        typer.echo(f"{moved} messages moved from {queue} to {to}")


@app.command("declare")
def declare(
    queue: Name,
    deliveries_max: Annotated[
        int | None, typer.Option(min=0, help="Deliveries before a message is dead-lettered; 0 is never.")
    ] = None,
    dead_letter: Annotated[str | None, typer.Option(help="The queue for messages that are given up.")] = None,
    dead_letter_expired: Annotated[
        bool | None, typer.Option(help="Dead-letter messages that expire, too.")
    ] = None,
    backoff: Annotated[
        str | None, typer.Option(help="Delay after the first delivery, doubled each time, such as 2s.")
    ] = None,
    backoff_max: Annotated[str | None, typer.Option(help="The longest delay, such as 1m.")] = None,
    backlog_max: Annotated[str | None, typer.Option(help="What may wait, such as 500MB.")] = None,
    on_full: Annotated[str | None, typer.Option(help="Beyond that: refuse or drop_oldest.")] = None,
    expires_after: Annotated[
        str | None, typer.Option(help="Remove the queue if it is unused for this time, such as 7d.")
    ] = None,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Make a queue, or change its options; an option that is not given stays as it is."""
    with _at_store("declare", url, domain, interface, timeout) as bus:

        def seconds(text: str | None, option: str) -> float | None:
            return None if text is None else parse_duration(text, option)

        bus.queue(queue).declare(
            deliveries_max=deliveries_max,
            dead_letter=dead_letter,
            dead_letter_expired=dead_letter_expired,
            backoff_s=seconds(backoff, "--backoff"),
            backoff_max_s=seconds(backoff_max, "--backoff-max"),
            backlog_max_bytes=None if backlog_max is None else parse_size(backlog_max, "--backlog-max"),
            on_full=cast(Any, on_full),
            expires_after_s=seconds(expires_after, "--expires-after"),
            timeout_s=_limit(timeout),
        )
        found = ask(bus, _limit(timeout), "status")["status"]["queues"]
        typer.echo(_policy(next(each for each in found if each["queue"] == queue)))


def _policy(found: dict[str, Any]) -> str:
    """What becomes of messages that fail, in a line."""
    if not found["deliveries_max"]:
        return f"{found['queue']}: messages are redelivered until they are acknowledged"
    return (
        f"{found['queue']}: a message that was delivered {found['deliveries_max']} times and not acknowledged"
        f" goes to {found['dead_letter']}"
    )


@app.command("release")
def release(
    name: Annotated[
        str, typer.Argument(help="The name under which a job of Spark's reads: its subscription.")
    ],
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Give back what a job of Spark's reserved and will not acknowledge any more."""
    with _at_store("release", url, domain, interface, timeout) as bus:
        given = ask(bus, _limit(timeout), "unreserve", name=name)
        typer.echo(f"{given['messages']} messages given back")


@app.command("send")
def send(
    queue: Name,
    body: Annotated[str | None, typer.Argument(help="What to send: text, unless --json-body.")] = None,
    count: Annotated[int, typer.Option(min=1, help="How many times.")] = 1,
    property_: Properties = None,
    priority: Priority = 4,
    ttl: Ttl = None,
    delay: Annotated[float | None, typer.Option(help="Seconds before it is delivered.")] = None,
    group: Annotated[str | None, typer.Option(help="Messages of one group are received in order.")] = None,
    json_body: JsonBody = False,
    stdin: Stdin = False,
    timeout: Timeout = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Send a message into a queue, or many, and wait until they are kept."""
    with plain_endings("queue send"):
        properties = dict(map(property_from_text, property_ or ()))
        sent = bodies(body, json_body, count, stdin)
        with connect(url, domain, interface) as bus:
            find_store(bus, timeout, kept=False)
            target = bus.queue(queue)
            for each in sent:
                target.send(
                    each,
                    properties=properties or None,
                    priority=priority,
                    ttl_s=ttl,
                    delivery_delay_s=delay,
                    group=group,
                    window=1000,
                    timeout_s=_limit(timeout),
                )
            bus.flush(_limit(timeout))


@app.command("receive")
def receive(
    queue: Name,
    count: Annotated[int | None, typer.Option(min=1, help="End after this many messages.")] = None,
    selector: Selecting = None,
    json: Json = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Fail if no message comes for this many seconds.")
    ] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Take messages from a queue and print them, until Ctrl-C. Each is acknowledged when it was printed."""
    # Without a store, this command holds the queue in memory: it may start before its first sender.
    with (
        plain_endings("queue receive"),
        connect(url, domain, interface) as bus,
        bus.queue(queue).consume(
            selector=selector, prefetch=100 if count is None else min(count, 100)
        ) as consumer,
    ):
        left = count
        while left is None or left > 0:
            message = consumer.receive(timeout)
            if message is None:
                typer.echo(f"shoal queue receive: no message in {queue} within {timeout:g} s", err=True)
                raise typer.Exit(1)
            typer.echo(for_programs(message) if json else for_people(message, sys.stdout.isatty()))
            left = None if left is None else left - 1
