"""What must be true of a run with routers: no number passes a reader in silence, and none is lost in vain.

| checker | what it says |
|---|---|
| `every_number_accounted` | a subscription read every number it wanted, or was told that it is lost |
| `no_needless_loss` | no node was told of a loss while a node that held the message had a path to it |

A number is excused by one of these rules alone:

1. The subscription did not ask for it, or began after it was published, or did not keep everything.
2. The subscription was not *confirmed* yet: it is confirmed by the first message that it read, or once its
   node had a path to the publisher for `CONFIRMED_S`, or to all routers beside a publisher that began later.
3. The reader, or its subscription, ended: there is no program to tell.
4. The publisher ended, no flush of its confirmed the number, and no running node knows of it: none that read
   it or a later one, or was told of its loss.

What happened after a subscription was confirmed excuses nothing: not a cut, a crash of a router, or a pause.
To be asked when all faults are over and nodes had the time to tell each other.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from shoal.testing.domain_checkers import (
    DomainChecker,
    DomainCheckError,
    by_chain,
    lost_by,
    memory_bounded,
    nothing_silent,
    once_and_in_order,
    one_identity,
    only_what_was_asked,
    told_exactly,
)
from shoal.testing.domain_history import (
    DomainHistory,
    Happening,
    Life,
    Loss,
    MessageKey,
    Published,
    SubscriptionRecord,
)
from shoal.testing.domain_topology import Topology

#: A subscription reaches every node within this time, if the path holds.
CONFIRMED_S = 10.0
#: Time to notice a missing message, and to ask for it until it is given up.
REPLAY_S = 7.0
#: A node keeps a message at least for this time, and until this much of its chain followed.
HELD_S, HELD_BYTES = 30.0, 2 << 20


def check_routed(history: DomainHistory, *more: DomainChecker) -> None:
    """Check what holds for every run with routers, and what else is asked for; strictly, all there is."""
    for checker in (
        once_and_in_order,
        only_what_was_asked,
        one_identity,
        memory_bounded,
        nothing_silent,
        told_exactly,
        *(STRICT if history.strict else more),
    ):
        checker(history)


def every_number_accounted(history: DomainHistory) -> None:
    """A subscription read every number it wanted, first and last included, or was told of its loss."""
    known = _known(history)
    for reader in history.running():
        lost = lost_by(reader)
        for record in reader.subscriptions.values():
            if not record.keeps_all or record.ended_s is not None:
                continue
            read: dict[tuple[int, int], set[int]] = defaultdict(set)
            for reading in record.readings:
                read[reading.key[:2]].add(reading.key.number)
            for life in history.lives:
                if record.no_local and life is reader:
                    continue
                for chain, messages in by_chain(life).items():
                    numbers = read[life.publisher, chain]
                    wanted = _counted(history, life, reader, record, messages, numbers)
                    missing = [
                        message
                        for message in wanted
                        if message.key.number not in numbers
                        and message.key not in lost
                        and not _is_unknown(life, message, known)
                    ]
                    if missing:
                        what = _silent(life, reader, record, missing, numbers)
                        raise DomainCheckError(history, "every_number_accounted", what)


def _silent(
    life: Life, reader: Life, record: SubscriptionRecord, missing: list[Published], read: set[int]
) -> str:
    first, last = missing[0], missing[-1]
    where = "in the middle"
    if first.key.number > max(read, default=0):
        where = "at the tail" if read else "of a chain it read nothing of"
    elif last.key.number < min(read, default=0):
        where = "at the head"
    return (
        f"{reader}, subscription {record.number}, neither read nor lost {len(missing)} of {life} {where}: "
        f"{first.key} to {last.key}, published from {first.at_s:.3f} to {last.at_s:.3f} s"
    )


def _counted(
    history: DomainHistory,
    life: Life,
    reader: Life,
    record: SubscriptionRecord,
    messages: list[Published],
    read: set[int],
) -> list[Published]:
    """What a subscription wanted once it was confirmed (rules 1 and 2)."""
    # What happened at the same moment may have happened before.
    wanted = [message for message in messages if message.at_s > record.began_s and record.wants(message)]
    confirmed_s = record.began_s if life is reader else _confirmed(history.topology, life, reader, record)
    first = min((message.key.number for message in wanted if message.key.number in read), default=math.inf)
    return [message for message in wanted if message.at_s >= confirmed_s or message.key.number >= first]


def _confirmed(topology: Topology | None, life: Life, reader: Life, record: SubscriptionRecord) -> float:
    """From when on a publisher must know of a subscription."""
    if topology is None:
        return math.inf
    since_s = max(record.began_s, reader.began_s, life.began_s)
    beside = topology.routers_beside(life.name, life.began_s)
    earlier_s = life.began_s - CONFIRMED_S
    if (
        beside
        and earlier_s >= max(record.began_s, reader.began_s)
        and all(
            reader.name == router or topology.always_joined(reader.name, router, earlier_s, life.began_s)
            for router in beside
        )
    ):
        return life.began_s
    return topology.joined_for(life.name, reader.name, since_s, CONFIRMED_S)


Known = dict[tuple[int, int], int]


def _known(history: DomainHistory) -> Known:
    """The highest number of each chain that a running node read, or was told that it lost."""
    known: Known = defaultdict(int)
    for life in history.running():
        for record in life.subscriptions.values():
            for reading in record.readings:
                chain = reading.key[:2]
                known[chain] = max(known[chain], reading.key.number)
        for loss in life.losses:
            known[loss[:2]] = max(known[loss[:2]], loss.last)
    return known


def _is_unknown(life: Life, message: Published, known: Known) -> bool:
    """Rule 4: no running node knows of the message."""
    if life.end == "running" or known.get(message.key[:2], 0) >= message.key.number:
        return False
    return not any(message.at_s < flush.began_s and not flush.silent for flush in life.flushes)


def no_needless_loss(history: DomainHistory) -> None:
    """No node was told of a loss while a running node that held the message had a path to it.

    The publisher holds it, and every router whose own program read it, within `HELD_S` and `HELD_BYTES`. The
    path has to be there for `REPLAY_S`, so that the message could be asked for.
    """
    topology = history.topology
    if topology is None:
        return
    lives = {life.publisher: life for life in history.lives}
    for reader in history.lives:
        for happening, loss in _losses(reader):
            publisher = lives.get(loss.publisher)
            if publisher is None:
                continue
            for message in _wanted_of(publisher, reader, loss):
                for holder in _holders(history, publisher, message, happening.at_s):
                    since_s = happening.at_s - REPLAY_S
                    if holder is not reader and topology.always_joined(
                        reader.name, holder.name, since_s, happening.at_s
                    ):
                        what = (
                            f"{reader} was told at {happening.at_s:.3f} s that it lost {message.key}, "
                            f"published at {message.at_s:.3f} s, and {holder} held it"
                        )
                        raise DomainCheckError(history, "no_needless_loss", what)


def _losses(life: Life) -> Iterator[tuple[Happening, Loss]]:
    told = [happening for happening in life.happenings if happening.kind == "lost"]
    return zip(told, life.losses, strict=True)


def _wanted_of(publisher: Life, reader: Life, loss: Loss) -> list[Published]:
    records = reader.subscriptions.values()
    return [
        message
        for message in by_chain(publisher).get(loss.chain, [])
        if loss.first <= message.key.number <= loss.last
        and any(message.at_s > record.began_s and record.wants(message) for record in records)
    ]


def _holders(history: DomainHistory, publisher: Life, message: Published, at_s: float) -> Iterator[Life]:
    """Nodes that have a message at a time, as far as a run shows."""
    after = [
        later
        for later in by_chain(publisher)[message.key.chain]
        if later.key.number > message.key.number and later.at_s <= at_s
    ]
    if sum(len(later.body) for later in after) > HELD_BYTES:
        return
    if message.at_s > at_s - HELD_S and _works(publisher, at_s):
        yield publisher
    for life in history.lives:
        if life.router and _works(life, at_s):
            came_s = _came(life, message.key)
            if at_s - HELD_S < came_s <= at_s:
                yield life


def _works(life: Life, at_s: float) -> bool:
    return life.began_s <= at_s and (life.ended_s is None or life.ended_s > at_s)


def _came(life: Life, key: MessageKey) -> float:
    readings = (reading for record in life.subscriptions.values() for reading in record.readings)
    return next((reading.at_s for reading in readings if reading.key == key), math.inf)


#: What a strict history is asked for.
STRICT = (every_number_accounted, no_needless_loss)
