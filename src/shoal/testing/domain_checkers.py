"""What must be true of a run of a domain: the promises of the bus, each said by a function of its history.

A checker returns nothing, or raises `DomainCheckError` with the seed and how to repeat the run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import cast

from shoal.testing.domain_history import (
    DomainHistory,
    Flush,
    Life,
    Loss,
    MessageKey,
    Published,
    SubscriptionRecord,
)

DomainChecker = Callable[[DomainHistory], None]

#: A new node sends everything for this time, though no member is known to want it.
DISCOVERY_S = 2.0
#: A queue may exceed its bound by what came at once.
QUEUE_SLACK_BYTES = 300 << 10
#: A node that leaves says goodbye, once, within this time.
GOODBYE_S = 2.0


class DomainCheckError(AssertionError):
    """A run did what it must not."""

    def __init__(self, history: DomainHistory, checker: str, what: str) -> None:
        super().__init__(f"seed {history.seed}: {checker}: {what}\n  repeat with: {history.repeat}")
        self.seed = history.seed
        self.checker = checker


def check_domain(history: DomainHistory, *more: DomainChecker) -> None:
    """Check what holds for every run, and what else is asked for."""
    for checker in (
        once_and_in_order,
        only_what_was_asked,
        one_identity,
        flushes_hold,
        memory_bounded,
        *more,
    ):
        checker(history)


def _subscriptions(history: DomainHistory) -> Iterator[tuple[Life, SubscriptionRecord]]:
    for life in history.lives:
        for record in life.subscriptions.values():
            yield life, record


def once_and_in_order(history: DomainHistory) -> None:
    """Every subscription read the messages of a chain in the order of their numbers, each once."""
    for life, record in _subscriptions(history):
        last: dict[tuple[int, int], int] = {}
        for reading in record.readings:
            key = reading.key
            before = last.get(key[:2], 0)
            if key.number <= before:
                again = "again" if key.number == before else f"after number {before}"
                what = f"{life} read {key} {again}, at {reading.at_s:.6f} s, by subscription {record.number}"
                raise DomainCheckError(history, "once_and_in_order", what)
            last[key[:2]] = key.number


def only_what_was_asked(history: DomainHistory) -> None:
    """No node read what was not published, or what it did not subscribe to, or not at that time."""
    published = {
        message.key: message for life in history.lives for message in life.published if message.key.number
    }
    for life, record in _subscriptions(history):
        for reading in record.readings:
            message = published.get(reading.key)
            wrong = _why_unasked(life, record, message, reading.at_s)
            if (
                wrong is None
                and message is not None
                and message[2:3] + message[6:] != (reading.topic, reading.body)
            ):
                wrong = f"it says {reading.topic!r} and {reading.body[:24]!r}"
            if wrong is not None:
                what = f"{life}, subscription {record.number}, read {reading.key}, and {wrong}"
                raise DomainCheckError(history, "only_what_was_asked", what)


def _why_unasked(
    life: Life, record: SubscriptionRecord, message: Published | None, at_s: float
) -> str | None:
    if message is None:
        return "nobody published it"
    if not record.wants(message):
        return f"it is on {message.topic!r} with priority {message.priority}, not on {record.pattern!r}"
    if record.no_local and message.key.publisher == life.publisher:
        return "it is the node's own"
    if at_s < record.began_s or (record.ended_s is not None and at_s > record.ended_s):
        return f"the subscription was from {record.began_s} to {record.ended_s} s"
    return None


def one_identity(history: DomainHistory) -> None:
    """All readers of a message, here or elsewhere, read the same timestamp; no identity is given twice."""
    timestamps: dict[MessageKey, int] = {}
    for life, record in _subscriptions(history):
        for reading in record.readings:
            first = timestamps.setdefault(reading.key, reading.timestamp_us)
            if first != reading.timestamp_us:
                what = f"{reading.key} has the timestamp {first} and, to {life}, {reading.timestamp_us}"
                raise DomainCheckError(history, "one_identity", what)
    given: set[MessageKey] = set()
    for life in history.lives:
        for message in life.published:
            if message.key.number and message.key in given:
                raise DomainCheckError(history, "one_identity", f"{life} gave {message.key} twice")
            given.add(message.key)


def memory_bounded(history: DomainHistory) -> None:
    """No node held more than its bounds allow."""
    for life in history.running():
        state = life.state
        if state is None:
            continue
        lanes = 2 * state["lanes"] * (state["lane_bytes_max"] + state["message_bytes_max"])
        for what, peak, bound in (
            ("receive memory", state["receive_bytes_peak"], state["receive_bytes_max"]),
            ("a queue", state["queue_bytes_over_peak"], QUEUE_SLACK_BYTES + state["message_bytes_max"]),
            ("what waited to be sent", state["waiting_bytes_peak"], lanes),
            ("what came over TCP", state["held_bytes_peak"], 2 * state["assembly_bytes_max"]),
        ):
            if peak > bound:
                told = f"{life}: {what} took {peak} bytes, beyond {bound}"
                raise DomainCheckError(history, "memory_bounded", told)
        if state["unreadable"]:
            what = f"{life} was given {state['unreadable']} records that are no messages"
            raise DomainCheckError(history, "memory_bounded", what)


def told_exactly(history: DomainHistory) -> None:
    """No node heard that it lost what it read, or of the same loss twice."""
    for life in history.lives:
        told: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for loss in life.losses:
            for first, last in told[loss.publisher, loss.chain]:
                if loss.first <= last and first <= loss.last:
                    what = f"{life} was told twice that it lost {max(first, loss.first)}, {loss}"
                    raise DomainCheckError(history, "told_exactly", what)
            told[loss.publisher, loss.chain].append((loss.first, loss.last))
        lost = _Lost(life.losses)
        for record in life.subscriptions.values():
            if not record.keeps_all:
                continue
            for reading in record.readings:
                if reading.key in lost:
                    what = f"{life} read {reading.key} at {reading.at_s:.6f} s, and was told that it is lost"
                    raise DomainCheckError(history, "told_exactly", what)


def nothing_silent(history: DomainHistory) -> None:
    """Between the first and the last message that a node read of a chain, all others were read or lost."""
    chains: dict[tuple[int, int], list[Published]] = defaultdict(list)
    for life in history.lives:
        for message in life.published:
            if message.key.number:
                chains[message.key[:2]].append(message)
    for life, record in _subscriptions(history):
        if not record.keeps_all:
            continue
        read: dict[tuple[int, int], set[int]] = defaultdict(set)
        for reading in record.readings:
            read[reading.key[:2]].add(reading.key.number)
        lost = _Lost(life.losses)
        for chain, numbers in read.items():
            first, last = min(numbers), max(numbers)
            for message in chains[chain]:
                if (
                    first < message.key.number < last
                    and message.key.number not in numbers
                    and record.wants(message)
                    and message.at_s > record.began_s
                    and message.key not in lost
                ):
                    what = f"{life}, subscription {record.number}, neither read nor lost {message.key}"
                    raise DomainCheckError(history, "nothing_silent", what)


def flushes_hold(history: DomainHistory) -> None:
    """When a flush was over, every node that wanted a message and was not silent had read it.

    Or it had lost it, and this flush or one before it named a node that lost something: itself, or a router
    between them.
    """
    # Of the lives under one node id the last one counts.
    by_node = {(life.name, life.node): life for life in history.lives}
    for life in history.lives:
        for flush in life.flushes:
            before = [
                message for message in life.published if message.key.number and message.at_s < flush.began_s
            ]
            for reader in by_node.values():
                counts = reader is not life and reader.nodes & _members(life, flush)
                if not counts or reader.nodes & set(flush.silent) or not _there(reader, flush.ended_s):
                    continue
                # A queue without a reader holds back all that comes to its node.
                if not all(
                    record.always_read or not record.keeps_all for record in reader.subscriptions.values()
                ):
                    continue
                for record in reader.subscriptions.values():
                    _check_flush(history, life, reader, record, before, flush)


def _members(life: Life, flush: Flush) -> set[int]:
    """Ids of the members that a node knew when a flush began, and did not take for gone before it ended."""
    members = set()
    for happening in life.happenings:
        if happening.at_s > flush.ended_s:
            break
        if happening.kind == "joined" and happening.at_s < flush.began_s:
            members.add(happening.node)
        elif happening.kind == "gone":
            members.discard(happening.node)
    return members


def _joined(life: Life, reader: Life, at_s: float) -> float:
    """When a node met another one last, before then."""
    met = [
        happening.at_s
        for happening in life.happenings
        if happening.kind == "joined" and happening.node in reader.nodes and happening.at_s < at_s
    ]
    return max(met, default=0.0)


def _there(life: Life, at_s: float) -> bool:
    paused = any(began_s <= at_s <= ended_s for began_s, ended_s in life.pauses)
    return not paused and life.began_s < at_s and (life.ended_s is None or life.ended_s > at_s)


def _check_flush(
    history: DomainHistory,
    life: Life,
    reader: Life,
    record: SubscriptionRecord,
    before: list[Published],
    flush: Flush,
) -> None:
    ended_s = flush.ended_s
    if not record.keeps_all or (record.ended_s is not None and record.ended_s <= ended_s):
        return
    read = {reading.key for reading in record.readings if reading.at_s <= ended_s}
    if not any(key.publisher == life.publisher for key in read):
        return
    lost = _Lost(reader.losses)
    named = [one.began_s for one in life.flushes if one.ended_s <= ended_s and one.losers]
    joined_s = _joined(life, reader, flush.began_s)
    for message in before:
        wanted = (
            not reader.nodes.isdisjoint(message.wanted_by)
            and record.wants(message)
            and message.at_s > record.began_s
        )
        if not wanted or message.key in read:
            continue
        # No flush tells what a node lost while it was taken for gone.
        is_told = message.at_s <= joined_s or any(began_s >= message.at_s for began_s in named)
        if message.key not in lost or not is_told:
            what = f"{life} flushed by {ended_s:.6f} s, and {reader} had not read {message.key}"
            raise DomainCheckError(history, "flushes_hold", what)


class _Lost:
    """Ranges of messages that were told as lost."""

    def __init__(self, losses: list[Loss]) -> None:
        self._ranges: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for loss in losses:
            self._ranges[loss.publisher, loss.chain].append((loss.first, loss.last))
        for ranges in self._ranges.values():
            ranges.sort()

    def __contains__(self, key: MessageKey) -> bool:
        ranges = self._ranges.get(key[:2], [])
        upto = bisect_right(ranges, (key.number, 1 << 64))
        return any(last >= key.number for _, last in ranges[:upto])


def lost_by(life: Life) -> _Lost:
    """What a node was told that it lost; a message can be looked up."""
    return _Lost(life.losses)


def accounted(history: DomainHistory) -> None:
    """A subscriber that was there read every message of its topics, or was told that it lost it.

    It was there from the first message on that its publisher knew it wanted, if both met, or that it read
    while its publisher was new and sent everything. To be asked when all faults are over and nodes had the
    time to tell each other.
    """
    for reader, record in _subscriptions(history):
        if not record.keeps_all:
            continue
        read: dict[tuple[int, int], set[int]] = defaultdict(set)
        for reading in record.readings:
            read[reading.key[:2]].add(reading.key.number)
        lost = _Lost(reader.losses)
        for life in history.lives:
            if record.no_local and life is reader:
                continue
            for chain, messages in by_chain(life).items():
                numbers = read[life.publisher, chain]
                missing = _unaccounted(history, life, reader, record, messages, numbers, lost)
                if missing:
                    keys = (
                        f"{missing[0].key} to {missing[-1].key}" if len(missing) > 1 else f"{missing[0].key}"
                    )
                    what = (
                        f"{reader}, subscription {record.number}, neither read nor lost {len(missing)} of "
                        f"{life}: {keys}, published at {missing[0].at_s:.3f} s"
                    )
                    raise DomainCheckError(history, "accounted", what)


def by_chain(life: Life) -> dict[int, list[Published]]:
    """What a node published, chain by chain."""
    chains: dict[int, list[Published]] = defaultdict(list)
    for message in life.published:
        if message.key.number:
            chains[message.key.chain].append(message)
    return chains


def _unaccounted(
    history: DomainHistory,
    life: Life,
    reader: Life,
    record: SubscriptionRecord,
    messages: list[Published],
    read: set[int],
    lost: _Lost,
) -> list[Published]:
    # What happened at the same moment may have happened before.
    wanted = [message for message in messages if message.at_s > record.began_s and record.wants(message)]
    met_s = reader.began_s if life is reader else _counts_from(history, life, reader, record)
    there = [
        (message.key.number in read and message.at_s <= life.began_s + DISCOVERY_S)
        or (message.at_s > met_s and (life is reader or not reader.nodes.isdisjoint(message.wanted_by)))
        for message in wanted
    ]
    if not any(there):
        return []
    # Another subscription of the same node may have been known before this one.
    known_s = -math.inf if life is reader else _knows(life, reader, record)
    wanted = [
        message
        for message, is_there in list(zip(wanted, there, strict=True))[there.index(True) :]
        if is_there or message.at_s >= known_s
    ]
    if not _must_have_all(history, life, reader, record):
        # Whether the last messages got there is not known.
        last = max(read, default=0)
        wanted = [message for message in wanted if message.key.number <= last]
    return [message for message in wanted if message.key.number not in read and message.key not in lost]


def _knows(life: Life, reader: Life, record: SubscriptionRecord) -> float:
    """When a publisher heard of a subscription of another node."""
    heard = (
        happening.at_s
        for happening in life.happenings
        if happening.kind == "subscriptions"
        and happening.node in reader.nodes
        and happening.at_s >= record.began_s
        and record.pattern in cast("list[str]", happening.details["added"])
    )
    return next(heard, math.inf)


def _counts_from(history: DomainHistory, life: Life, reader: Life, record: SubscriptionRecord) -> float:
    """From when on a publisher counts on a reader, if the reader ever heard of it.

    A node that started over may have the id of the one before, and its publisher may take it for that one
    until it heard of what it wants.
    """
    if _met(reader, life) == math.inf:
        return math.inf
    met_s = _met(life, reader)
    had_its_id = any(
        not other.nodes.isdisjoint(reader.nodes) for other in history.lives if other is not reader
    )
    return max(met_s, _knows(life, reader, record)) if had_its_id else met_s


def _met(one: Life, other: Life) -> float:
    """When a node first heard of another one, as it is since it started."""
    met = (
        happening.at_s
        for happening in one.happenings
        if happening.kind == "joined" and happening.node in other.nodes and happening.at_s >= other.began_s
    )
    return next(met, math.inf)


def _must_have_all(history: DomainHistory, life: Life, reader: Life, record: SubscriptionRecord) -> bool:
    if record.ended_s is not None or reader.end != "running":
        return False
    if life.end == "running":
        return True
    # A goodbye says what the last numbers are. No node repairs it: all its copies may be lost, on the network
    # or at a host that stands still.
    farewell = [happening for happening in reader.happenings if happening.node in life.nodes]
    return (
        history.lossless
        and life.end == "left"
        and not _paused_at_the_end(reader, life)
        and any(happening.kind == "gone" and not happening.details["failed"] for happening in farewell)
    )


def _paused_at_the_end(reader: Life, life: Life) -> bool:
    """Whether a reader stood still while a node said goodbye."""
    end_s = life.ended_s or 0.0
    return any(began_s <= end_s + GOODBYE_S and ended_s >= end_s for began_s, ended_s in reader.pauses)


def no_stall(longest_s: float) -> DomainChecker:
    """No publisher waited longer than this for a message to be taken."""

    def check(history: DomainHistory) -> None:
        for life in history.lives:
            for message in life.published:
                if message.waited_s > longest_s:
                    what = f"{life} waited {message.waited_s:.3f} s to publish at {message.at_s:.3f} s"
                    raise DomainCheckError(history, "no_stall", what)

    return check


def nothing_lost(history: DomainHistory) -> None:
    """No node heard that it lost anything."""
    for life in history.lives:
        if life.losses:
            raise DomainCheckError(history, "nothing_lost", f"{life} lost {life.losses[0]}")
