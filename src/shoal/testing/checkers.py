"""What must be true of a run, each thing said by a function of its history.

A checker returns nothing, or raises `CheckError` with the seed and how to repeat the run. Those that need
a number are made by a function that takes it. Messages are distinguished by their bodies, so the bodies of
one stream must differ; `numbered` makes such bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise

from shoal.testing.history import Delivery, Event, History, NodeRecord, ObjectKey, StreamKey

Checker = Callable[[History], None]


class CheckError(AssertionError):
    """A run did what it must not."""

    def __init__(self, history: History, checker: str, what: str) -> None:
        super().__init__(f"seed {history.seed}: {checker}: {what}\n  repeat with: {history.repeat}")
        self.seed = history.seed
        self.checker = checker


def numbered(count: int, *, size: int = 100, first: int = 0) -> list[bytes]:
    """Bodies that all differ: a number each, padded to `size` bytes."""
    return [f"{number:08d}".encode().ljust(size, b".") for number in range(first, first + count)]


def check_all(history: History, *more: Checker) -> None:
    """Check what holds for every run, and what else is asked for."""
    always = (no_duplicate, order_kept, no_gap, memory_bounded)
    of_objects = (objects_intact, objects_once, acked_objects_delivered, commands_sent)
    for checker in (*always, *of_objects, *more):
        checker(history)


def _streams_read(history: History) -> Iterator[tuple[int, NodeRecord, StreamKey, list[Delivery]]]:
    """Every stream that was read: the reader, its record, the stream, and what it got of it."""
    for node, record in history.nodes.items():
        by_stream: dict[StreamKey, list[Delivery]] = {}
        for delivery in record.deliveries:
            by_stream.setdefault(delivery.stream, []).append(delivery)
        for key, deliveries in by_stream.items():
            yield node, record, key, deliveries


def _positions(history: History, key: StreamKey) -> dict[bytes, int]:
    bodies = history.published.get(key, ())
    positions = {body: position for position, body in enumerate(bodies)}
    if len(positions) < len(bodies):
        raise ValueError(f"the bodies of {key} must all differ to be checked: publish numbered ones")
    return positions


def no_duplicate(history: History) -> None:
    """No receiver got a message twice."""
    for node, _, key, deliveries in _streams_read(history):
        seen: set[bytes] = set()
        for delivery in deliveries:
            if delivery.body in seen:
                what = f"node {node} received {delivery.body[:24]!r} of {key} twice, at {delivery.at_s:.6f} s"
                raise CheckError(history, "no_duplicate", what)
            seen.add(delivery.body)


def order_kept(history: History) -> None:
    """Every receiver got the messages of a stream in the order in which they were published."""
    for node, _, key, deliveries in _streams_read(history):
        positions = _positions(history, key)
        last = -1
        for delivery in deliveries:
            position = positions.get(delivery.body)
            if position is None:
                what = f"node {node} received {delivery.body[:24]!r}, which {key} never carried"
                raise CheckError(history, "order_kept", what)
            if position < last:
                what = f"node {node} received message {position} of {key} after message {last}"
                raise CheckError(history, "order_kept", what)
            last = position


def no_gap(history: History) -> None:
    """From the first message of a stream on, no receiver missed one without a report."""
    for node, record in history.nodes.items():
        if record.unreadable:
            what = f"node {node} was given {record.unreadable} pieces of a stream that hold no message"
            raise CheckError(history, "no_gap", what)
    for node, record, key, deliveries in _streams_read(history):
        positions = _positions(history, key)
        told = sum(event.kind == "gap" and event.stream_key == key for event in record.events)
        numbers = [positions[delivery.body] for delivery in deliveries if delivery.body in positions]
        for before, after in pairwise(numbers):
            if after > before + 1:
                told -= 1
                if told < 0:
                    what = f"node {node} missed messages {before + 1} to {after - 1} of {key}, untold"
                    raise CheckError(history, "no_gap", what)


def complete(*receivers: int, streams: Sequence[StreamKey] | None = None) -> Checker:
    """Make a checker: these receivers have every message of the streams (of all, if none are named)."""

    def check(history: History) -> None:
        for node in receivers:
            for key in history.published if streams is None else streams:
                if key.sender == node:
                    continue
                got = {entry.body for entry in history.nodes[node].deliveries if entry.stream == key}
                missing = [number for number, body in enumerate(history.published[key]) if body not in got]
                if missing:
                    many = f"{len(missing)} of {len(history.published[key])} messages"
                    what = f"node {node} lacks {many} of {key}, the first is {missing[0]}"
                    raise CheckError(history, "complete", what)

    return check


def converges(*receivers: int, calm_at_s: float, within_s: float) -> Checker:
    """Make a checker: once nothing is lost any more, these receivers soon have everything."""

    def check(history: History) -> None:
        complete(*receivers)(history)
        for node in receivers:
            last = max((entry.at_s for entry in history.nodes[node].deliveries), default=0.0)
            if last > calm_at_s + within_s:
                late = last - calm_at_s
                what = f"node {node} was complete {late:.3f} s after loss ended; the bound is {within_s} s"
                raise CheckError(history, "converges", what)

    return check


def nacks_bounded(*, per_repair: float, slack: int = 20) -> Checker:
    """Make a checker: all receivers together ask little more than the senders repair.

    Suppression works if the number of NACKs follows what is lost, not how many receivers lost it.
    """

    def check(history: History) -> None:
        nacks = sum(record.stats.get("nacks_sent", 0) for record in history.nodes.values())
        repairs = sum(record.stats.get("repairs_sent", 0) for record in history.nodes.values())
        if nacks > per_repair * repairs + slack:
            what = f"{nacks} NACKs for {repairs} repairs; the bound is {per_repair} for each, and {slack}"
            raise CheckError(history, "nacks_bounded", what)

    return check


def memory_bounded(history: History) -> None:
    """No node ever held more receive memory than it may."""
    for node, record in history.nodes.items():
        if record.receive_bytes_peak > record.receive_bytes_max:
            what = f"node {node} held {record.receive_bytes_peak} bytes, may hold {record.receive_bytes_max}"
            raise CheckError(history, "memory_bounded", what)


def never_idle(*, share: float = 0.95) -> Checker:
    """Make a checker: while data waits, a sender with a rate uses at least this share of it."""

    def check(history: History) -> None:
        for node, record in history.nodes.items():
            if record.rate_bytes_per_s is None or record.busy_s == 0.0:
                continue
            used = record.busy_bytes / (record.rate_bytes_per_s * record.busy_s)
            if used < share:
                what = (
                    f"node {node} used {used:.1%} of its rate in the {record.busy_s:.3f} s data waited; "
                    f"the bound is {share:.1%}"
                )
                raise CheckError(history, "never_idle", what)

    return check


# --- objects of known length, and commands ---


def _object_events(record: NodeRecord, *kinds: str) -> Iterator[tuple[ObjectKey, Event]]:
    """What a node was told about objects of others, if it is of one of these kinds."""
    for event in record.events:
        key = event.object_key
        if key is not None and event.kind in kinds:
            yield key, event


def objects_intact(history: History) -> None:
    """Every receiver of an object received what was sent, byte for byte, and its information before it.

    An object whose sender is gone, or let go of it, is delivered without information that did not come.
    """
    for node, record in history.nodes.items():
        informed: set[ObjectKey] = set()
        for key, event in _object_events(record, "object_opened", "info", "data_received"):
            sent = history.objects.get(key)
            if sent is None:
                # Streams have information too.
                if event.kind != "info":
                    raise CheckError(history, "objects_intact", f"node {node} received {key}, never sent")
                continue
            content = event.fields.get("content")
            if event.kind == "info":
                informed.add(key)
                if content != sent.info:
                    what = f"node {node} received other information than was sent with {key}"
                    raise CheckError(history, "objects_intact", what)
            elif event.kind == "data_received":
                if content != sent.content:
                    what = f"node {node} received other bytes than were sent as {key}"
                    raise CheckError(history, "objects_intact", what)
                if sent.info and key not in informed and not _had_no_source(history, record, key, event.at_s):
                    what = f"node {node} received {key} without its information"
                    raise CheckError(history, "objects_intact", what)


def _had_no_source(history: History, record: NodeRecord, key: ObjectKey, at_s: float) -> bool:
    """Whether the sender was gone for this node, or had let go of the object."""
    gone = any(
        event.kind == "sender_gone"
        and (event.fields["sender"], event.fields["instance"]) == (key.sender, key.instance)
        and event.at_s <= at_s
        for event in record.events
    )
    return gone or history.released.get(key, at_s + 1.0) <= at_s


def objects_once(history: History) -> None:
    """No receiver got an object twice, or heard twice that it was given up, or both."""
    for node, record in history.nodes.items():
        fates: dict[ObjectKey, str] = {}
        for key, event in _object_events(record, "data_received", "object_aborted"):
            if key in fates:
                what = f"node {node} was told {event.kind} of {key} after {fates[key]}, at {event.at_s:.6f} s"
                raise CheckError(history, "objects_once", what)
            fates[key] = event.kind


def acked_objects_delivered(history: History) -> None:
    """An object that a node acknowledged was delivered there, if the node did not start over meanwhile."""
    delivered = {
        node: {key for key, _ in _object_events(record, "data_received")}
        for node, record in history.nodes.items()
    }
    for sender, record in history.nodes.items():
        for event in record.events:
            if event.kind != "watermark_done":
                continue
            key = ObjectKey(sender, record.instance, int(str(event.fields["stream"])))
            acked = event.fields["acked"]
            sent = history.objects.get(key)
            # Streams have watermarks too.
            if sent is None or not isinstance(acked, Collection):
                continue
            for node in acked:
                if history.nodes[node].started_at_s <= sent.at_s and key not in delivered[node]:
                    what = f"node {node} acknowledged {key}, and did not receive it"
                    raise CheckError(history, "acked_objects_delivered", what)


def commands_sent(history: History) -> None:
    """No node heard a command that its sender did not give. Commands may be lost, and are repeated."""
    for node, record in history.nodes.items():
        for event in record.events:
            if event.kind != "command_received":
                continue
            sender, content = event.fields["sender"], event.fields["content"]
            if not isinstance(sender, int) or content not in history.commands.get(sender, ()):
                what = f"node {node} heard a command {content!r} that node {sender} never gave"
                raise CheckError(history, "commands_sent", what)


def objects_complete(*receivers: int, objects: Sequence[ObjectKey] | None = None) -> Checker:
    """Make a checker: these receivers have every object (of all, if none are named) that its sender keeps.

    Of an object that its sender let go of they have been told at least that it was given up.
    """

    def check(history: History) -> None:
        for node in receivers:
            record = history.nodes[node]
            delivered = {key for key, _ in _object_events(record, "data_received")}
            aborted = {key for key, _ in _object_events(record, "object_aborted")}
            for key in history.objects if objects is None else objects:
                settled = key in delivered or (key in aborted and key in history.released)
                if key.sender != node and not settled:
                    what = f"node {node} lacks {key}"
                    raise CheckError(history, "objects_complete", what)

    return check
