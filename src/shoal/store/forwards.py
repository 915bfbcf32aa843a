"""What a store forwards: for each rule how far it is, what waits, and which store is the next one.

A rule is a reader of the log that has no consumers: its place, and what waits behind it, are part of the
log's state under `forward/NAME`. A forwarder (`store/forwarder.py`) reads the messages from the log, and says
here up to which offset the next store has them. Sans-IO, part of the store's machine.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from shoal.bus.store_protocol import QUEUES
from shoal.errors import StoreError
from shoal.store.core import Core
from shoal.store.reader import Options, Reader, Shape
from shoal.store.readers import FORWARD, Readers, queue_key
from shoal.store.rule import DEAD_LETTERS, ForwardRule

#: A rule reads persistent messages: the store may hear others, for its subscriptions.
SELECTOR = "JMSDeliveryMode = 'PERSISTENT'"

_NEXT = "forward-next/"


class Next(NamedTuple):
    """The store that a rule leads to: its id, and its incarnation."""

    store: str
    incarnation: str


class Forwards:
    """The rules of one store. For one thread at a time."""

    def __init__(self, core: Core, readers: Readers, rules: Sequence[ForwardRule]) -> None:
        self._core, self._readers = core, readers
        self.rules = {rule.name: rule for rule in rules}
        self._end_former()
        for rule in rules:
            self._begin(rule)
        readers.forward(rules)

    def _end_former(self) -> None:
        """Rules that the configuration has no more go, unless messages wait for them."""
        for reader in [each for each in self._readers if each.shape.forward]:
            name = reader.shape.name
            if name in self.rules:
                continue
            if waiting := self._waiting(reader):
                raise StoreError(
                    f"The rule {name!r} is not in the configuration any more, and {waiting} messages wait "
                    "for it. Put it back until they are forwarded, or drop them then: shoal store forward "
                    f"drop {name}"
                )
            self._readers.remove(reader)
            self._core.turn.put(_NEXT + name, None)

    def _begin(self, rule: ForwardRule) -> None:
        core, key = self._core, FORWARD + rule.name
        options = Options(backlog_max_bytes=rule.backlog_max_bytes, deliveries_max=0)
        reader = self._readers.get(key)
        if reader is not None and reader.shape.patterns != rule.patterns:
            if waiting := self._waiting(reader):
                raise StoreError(
                    f"The rule {rule.name!r} has other patterns than before, and {waiting} messages wait "
                    "for it. Put the former ones back until those are forwarded, or give the new patterns a "
                    "rule of their own."
                )
            self._readers.remove(reader)
            reader = None
        if reader is not None:
            self._readers.change(reader, options)
            return
        for queue in rule.queues:
            self._end_queue(queue, rule)
        shape = Shape(patterns=rule.patterns, selector=SELECTOR, shared=False, name=rule.name, forward=True)
        self._readers.add(key, shape, options, start=core.log.end)

    def _end_queue(self, name: str, rule: ForwardRule) -> None:
        """A queue is forwarded from now on: messages that are here already belong to consumers here."""
        reader = self._readers.get(queue_key(name))
        if reader is None:
            return
        if reader.totals.messages:
            raise StoreError(
                f"The rule {rule.name!r} forwards the queue {name!r}, which has {reader.totals.messages} "
                "messages here. Start the store without the rule, and consume, move or purge them."
            )
        self._readers.remove(reader)

    def _waiting(self, reader: Reader) -> int:
        return max(0, reader.totals.messages)

    def _reader(self, name: str) -> Reader:
        return self._readers.find(FORWARD + name, f"rule {name!r}")

    # Getters.

    def place(self, name: str) -> int:
        """The offset from which on messages are to be forwarded."""
        return self._reader(name).backlog.pin

    def next_of(self, name: str) -> Next | None:
        """The store that a rule led to; none before the first time."""
        value = self._core.log.get(_NEXT + name)
        return None if value is None else Next(*json.loads(value))

    @property
    def pin(self) -> int | None:
        """The lowest offset that is to be forwarded; none without rules."""
        return min((self.place(name) for name in self.rules), default=None)

    def status(self) -> list[dict[str, Any]]:
        """How each rule is, for people."""
        found = []
        for name, rule in self.rules.items():
            reader = self._reader(name)
            found.append(
                {
                    "name": name,
                    "patterns": list(rule.patterns),
                    "to": rule.to,
                    "release": rule.release,
                    "messages": max(0, reader.totals.messages),
                    "bytes": max(0, reader.totals.bytes),
                    "backlog_max_bytes": rule.backlog_max_bytes,
                    "cursor": reader.backlog.pin,
                }
            )
        return found

    # Commands.

    def forwarded(self, name: str, end: int, messages: int, size: int) -> None:
        """Messages below an offset are forwarded, or expired here: so many more than before."""
        core, reader = self._core, self._reader(name)
        if end <= reader.backlog.pin:
            return
        reader.backlog.pass_to(end)
        is_all = end >= core.log.end
        if is_all:
            # Nothing waits, whatever was counted.
            messages, size = reader.totals.messages, reader.totals.bytes
        reader.totals.messages -= messages
        reader.totals.bytes -= size
        if messages or size:
            core.turn.done(reader.key, max(0, messages), max(0, size), [(0, end)])

    def give_up(self, name: str, first: int, end: int, why: str) -> int:
        """The next store takes messages never: they go to the dead-letter queue here; how many."""
        core, reader, rule = self._core, self._reader(name), self.rules[name]
        found = core.log.rows(first, end, rule.patterns, rows_max=1 << 31)
        target = self._readers.queue(DEAD_LETTERS)
        properties = [("shoal_queue", name), ("shoal_reason", why[:500])]
        moved = core.turn.push_moved(
            core.log, [(row[0], 0) for row in found], QUEUES + DEAD_LETTERS, properties
        )
        size = sum(each for _, each in moved)
        target.totals.messages += len(moved)
        target.totals.bytes += size
        core.add_to(target.key, len(moved), size)
        core.turn.came(target.key, len(moved), size)
        core.touched.add(QUEUES + DEAD_LETTERS)
        core.turn.done(reader.key, len(moved), size, [(0, end)], with_rows=True)

        def after(refused: str | None) -> None:
            if refused is None:
                reader.backlog.pass_to(end)
                reader.totals.messages -= len(moved)
                reader.totals.bytes -= size
            else:
                target.totals.messages -= len(moved)
                target.totals.bytes -= size

        core.after_rows(after)
        return len(moved)

    def set_next(self, name: str, to: Next | None) -> None:
        """A rule leads to this store from now on; to any store, if it is none."""
        if to != self.next_of(name):
            self._core.turn.put(_NEXT + name, None if to is None else json.dumps(to).encode())

    def drop(self, name: str) -> int:
        """Forget what waits for a rule: how many messages."""
        waiting = self._waiting(self._reader(name))
        self.forwarded(name, self._core.log.end, 0, 0)
        return waiting
