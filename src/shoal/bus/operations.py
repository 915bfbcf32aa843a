"""Calls that wait, without waiting.

Each is a generator that looks at the connection and yields until when to wait (by `time.monotonic`; `None` is
without end) for the connection to ring before it looks again. `sync` runs them on a thread, `aio` in an event
loop. Closing a generator gives back what it took, so a cancelled wait leaves nothing behind.
"""

import time
from collections.abc import Generator, Iterable
from dataclasses import replace
from itertools import chain
from typing import TypeVar

from shoal.bus import events
from shoal.bus.connection import Connection
from shoal.bus.undelivered import UNSETTLED, Undelivered, lacks, listed, lost, unconfirmed, unreached
from shoal.config.target import Target
from shoal.errors import FlushError, LinkError, LinkRefusedError
from shoal.link.dialler import Dialler

T = TypeVar("T")
Operation = Generator[float | None, None, T]

#: How often a closing connection looks how far its members got.
_CLOSE_CHECK_S = 0.01
#: How long a sync waits for the other ends of new links to say who they are, and how often it looks.
_MEET_S, _MEET_CHECK_S = 1.0, 0.002
#: How long a new subscription of a store waits until its interest is known.
HEARD_S = 1.0
#: A member that acknowledges nothing new for this time is not waited for when a connection closes.
STALL_S = 1.0
#: A router that does not answer may be gone: this much later another path is used, if there is one.
_REROUTED_S = 2.5


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s


def _is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def wait_for_subscribers(
    connection: Connection, topic: str, count: int, timeout_s: float | None
) -> Operation[bool]:
    """Wait until this number of nodes subscribe to a topic; false if the time was over first."""
    deadline = _deadline(timeout_s)
    while True:
        if len(connection.node.subscribers(topic)) >= count:
            return True
        if _is_over(deadline):
            connection.hint_at_levels(topic)
            return False
        yield deadline


def heard(connection: Connection, pattern: str, store: int | None) -> Operation[None]:
    """Wait until it is known here that a store wants what its new subscription wants; not for long.

    The store answers on a way of its own, which may be shorter than that of its interest. `store` is its
    node; none if it is no member of this domain.
    """
    topic = pattern.replace("*", "x").replace(">", "x")
    deadline = time.monotonic() + HEARD_S
    while store is not None and not _is_over(deadline):
        node = connection.node
        others = set(node.subscribers(topic)) - {node.node}
        # Behind a router it is the router that wants it.
        if store in others or (others and store not in node.members):
            return
        yield deadline


def dial(
    connection: Connection, targets: Iterable[Target], cost: int | None = None
) -> Operation[list[Dialler]]:
    """Keep targets connected, and wait until each was tried once. Raises if all of them refuse."""
    keeper, targets = connection.keeper(), list(targets)
    connection.node.expect_links(len(targets))
    diallers = [keeper.connect(target, cost) for target in targets]
    yield from settle(connection, diallers)
    return diallers


def settle(connection: Connection, diallers: list[Dialler]) -> Operation[None]:
    """Wait until each was tried once. Raises if all of them are refused."""
    keeper = connection.keeper()
    while not all(dialler.settled for dialler in diallers):
        connection.check_open()
        yield None
    if diallers and all(dialler.state == "refused" for dialler in diallers):
        for dialler in diallers:
            keeper.forget(dialler)
        raise LinkRefusedError("; ".join(f"{one.url} refuses us: {one.why}" for one in diallers))


def begin(connection: Connection) -> Operation[None]:
    """Connect to where a connection leads at first, and wait until that was tried once."""
    diallers = yield from dial(connection, connection.targets(), connection.config.cost)
    is_required = connection.config.required
    if is_required and diallers and not any(one.state in ("up", "standby") for one in diallers):
        raise LinkError("; ".join(f"cannot reach {one.url}: {one.why}" for one in diallers))
    if connection.stand_in is not None and connection.stand_in.meeting is not None:
        meeting = connection.keeper().meet(connection.stand_in.meeting)
        deadline = _deadline(connection.config.connect_timeout_s)
        while not meeting.is_settled and not _is_over(deadline):
            connection.check_open()
            yield deadline
        dialler = meeting.dialler
        if dialler is not None and is_required and not meeting.is_settled:
            raise LinkError(f"cannot reach {dialler.url}: {dialler.why or 'no program answers'}")
        if dialler is not None and dialler.state == "refused":
            raise LinkRefusedError(
                f"multicast does not work here, and the place where programs of this machine meet is taken: "
                f"{dialler.url} refuses us: {dialler.why}; choose another port"
            )


def flush(connection: Connection, timeout_s: float | None, deadline: float | None) -> Operation[None]:
    """Wait until every member has everything published before; of the time asked for some may be over.

    The store has been waited for by then.
    """
    connection.check_open()
    if nowhere := connection.unreached():
        raise FlushError(unreached(nowhere) + connection.storing())
    number = connection.node.begin_flush()
    try:
        while (silent := connection.node.poll_flush(number)) is None:
            connection.check_open()
            if _is_over(deadline):
                lacking = connection.node.backlog()[1]
                behind = dict(connection.node.flush_behind(number))
                routers = [node for node in connection.node.flush_awaited(number) if node not in behind]
                named = {*(node for node, _ in lacking), *routers, *chain.from_iterable(behind.values())}
                raise FlushError(
                    f"not every member acknowledged everything within {timeout_s} s"
                    + _names(lacking)
                    + "".join(_lacking_behind(router, nodes) for router, nodes in behind.items())
                    + "".join(f"; {unconfirmed(node)}" for node in routers)
                    + (f"; {UNSETTLED}" if connection.node.flush_is_unsettled(number) else "")
                    + connection.storing(),
                    tuple(sorted(named)),
                )
            yield deadline
        losers = connection.node.flush_losers(number)
    finally:
        connection.node.end_flush(number)
    if silent or losers:
        parts = [f"these members did not acknowledge everything: {listed(silent)}"] if silent else []
        parts += [lost(losers)] if losers else []
        raise FlushError("; ".join(parts) + connection.storing(), tuple(silent), lost_by=tuple(losers))


def sync(connection: Connection, timeout_s: float | None) -> Operation[None]:
    """Wait until every router knows what was subscribed to before."""
    connection.check_open()
    deadline = _deadline(timeout_s)
    while not _has_met(connection) and not _is_over(deadline):
        connection.check_open()
        yield time.monotonic() + _MEET_CHECK_S
    number = connection.node.begin_sync()
    try:
        while (silent := connection.node.poll_flush(number)) is None:
            connection.check_open()
            if _is_over(deadline):
                raise FlushError(
                    f"not every node said within {timeout_s} s that it knows the subscription"
                    + "".join(f"; {node} did not" for node in connection.node.flush_awaited(number))
                    + (f"; {UNSETTLED}" if connection.node.flush_is_unsettled(number) else "")
                )
            yield deadline
    finally:
        connection.node.end_flush(number)
    if silent:
        raise FlushError(
            f"these nodes did not say that they know the subscription: {listed(silent)}", tuple(silent)
        )


def _has_met(connection: Connection) -> bool:
    """Whether the other end of a new link of a single program has said who it is: it is asked then."""
    node = connection.node
    is_old = time.monotonic() - connection.linked_at >= _MEET_S
    if is_old or connection.config.scheme in ("norm", "udp", "inproc") or not node.members:
        return True
    number = node.begin_sync()
    try:
        return bool(node.flush_awaited(number))
    finally:
        node.end_flush(number)


def next_event(connection: Connection, timeout_s: float | None) -> Operation[events.Event | None]:
    """The next event; `None` once the connection is closed, or after `timeout_s` without one."""
    deadline = _deadline(timeout_s)
    while True:
        more = connection.drain()
        event = connection.events.take()
        if event is not None:
            return event
        if not more or connection.closed or _is_over(deadline):
            return None
        yield deadline


def until_closed(connection: Connection, timeout_s: float | None) -> Operation[bool]:
    """Wait until the connection is closed; false if the time was over first."""
    deadline = _deadline(timeout_s)
    while not connection.closed:
        if _is_over(deadline):
            return False
        yield deadline
    return True


def deliver(connection: Connection, linger_s: float | None, stall_s: float) -> Operation[Undelivered]:
    """Take nothing more, wait for the members as `_deliver` does, and say what was not delivered."""
    nowhere = connection.unreached()
    undelivered = yield from _deliver(connection, linger_s, stall_s)
    return replace(undelivered, unreached=nowhere)


def _deliver(connection: Connection, linger_s: float | None, stall_s: float) -> Operation[Undelivered]:
    """Take nothing more, and wait until every member has everything, as long as that gets on.

    Ends when all is acknowledged, when no member acknowledged anything new for `stall_s`, or after
    `linger_s`. A router that has not answered is given longer: it may have failed, and another path be found.
    A router that failed before it answered is named: only that router knew what it had not forwarded.
    """
    node = connection.node
    node.stop()
    if linger_s == 0:
        return Undelivered(*_backlog(connection))
    deadline = _deadline(linger_s)
    # Of what was confirmed before, or never published, no member has to say anything.
    confirms = node.has_unconfirmed()
    try:
        number = node.begin_flush()
    except LinkError:
        # What cannot be sent any more is not waited for.
        return Undelivered(*_backlog(connection))
    # A member that is no router answers for itself, and no caller waits for one that failed.
    programs = set(node.members) - set(node.flush_awaited(number))
    gone: set[int] = set()
    losers: set[int] = set()
    try:
        least, moved = _size(node.backlog()), time.monotonic()
        while True:
            silent = node.poll_flush(number)
            if silent is not None:
                losers |= set(node.flush_losers(number))
            if silent == []:
                return Undelivered(unconfirmed=tuple(sorted(gone)), losers=tuple(sorted(losers)))
            if silent:
                # A silent member is asked once more: slow is not dead.
                node.end_flush(number)
                number = node.begin_flush()
                if confirms:
                    gone |= set(silent) - programs - set(node.members)
            now, left = time.monotonic(), _size(node.backlog())
            if left < least:
                least, moved = left, now
            awaited = set(node.flush_awaited(number)) if confirms else set()
            stalled = moved + stall_s + (_REROUTED_S if awaited else 0.0)
            if now >= stalled or _is_over(deadline):
                losers |= set(node.flush_losers(number))
                return Undelivered(
                    *_backlog(connection),
                    unconfirmed=tuple(sorted(awaited | gone)),
                    losers=tuple(sorted(losers)),
                    unsettled=confirms and node.flush_is_unsettled(number),
                )
            until = min(now + _CLOSE_CHECK_S, stalled)
            yield until if deadline is None else min(until, deadline)
    except LinkError:
        return Undelivered(*_backlog(connection))
    finally:
        node.end_flush(number)


def _size(backlog: tuple[int, list[tuple[int, int]]]) -> int:
    unsent, lacking = backlog
    return unsent + sum(lacks for _, lacks in lacking)


def _backlog(connection: Connection) -> tuple[int, tuple[tuple[int, int], ...]]:
    unsent, lacking = connection.node.backlog()
    return unsent, tuple(lacking)


def _names(lacking: list[tuple[int, int]]) -> str:
    return "".join(f"; {lacks(node, lacking_bytes)}" for node, lacking_bytes in lacking)


def _lacking_behind(router: int, nodes: list[int]) -> str:
    return f"; behind router {router}, {listed(nodes)} did not acknowledge everything"
