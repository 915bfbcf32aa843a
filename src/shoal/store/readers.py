"""All queues and subscriptions of a store: which there are, who gets which destination, who is next."""

import heapq
import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from shoal._core import match_topics
from shoal.bus.store_protocol import QUEUES, TEMPORARY_QUEUES, is_queue_name, queue_name
from shoal.messages import store as notices
from shoal.selector import Selector
from shoal.store.core import COUNTING, Core
from shoal.store.reader import Options, Reader, Session, Shape, recall
from shoal.store.requests import RequestError
from shoal.store.rule import ForwardRule

log = logging.getLogger("shoal.store")

#: Bytes that are given out before requests are looked at again.
DISPATCH_BYTES = 4 << 20
#: Destinations whose readers are remembered.
ROUTES_MAX = 100_000
#: Queues and subscriptions of a store, at the most.
READERS_MAX = 100_000
#: How far a reader's place may be ahead of what the log knows before it is noted.
NOTE_EVERY_OFFSETS = 100_000
#: Readers that look on in one go without a consumer.
LOOK_ON_MAX = 100
#: What the log calls a rule: this, and its name.
FORWARD = "forward/"


def queue_key(name: str) -> str:
    """What the log calls a queue."""
    return f"queue/{name}"


def subscription_key(name: str, client_id: str | None, *, shared: bool, durable: bool) -> str:
    """What the log calls a subscription. A client id is part of it if it is the client's own."""
    if not durable:
        return f"volatile/{name}"
    return f"shared/{name}" if shared else f"sub/{len(client_id or '')}/{client_id}/{name}"


#: What a subscription reads: a pattern, and a selector if it has one.
Wanted = tuple[str, str | None]


class Readers:
    """The readers of one store. For one thread at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._readers: dict[str, Reader] = {}
        #: Readers that may have something to give out, in turn.
        self._due: deque[str] = deque()
        self._is_due: set[str] = set()
        #: Subscriptions that want a topic.
        self._routes: dict[str, list[Reader]] = {}
        #: What is forwarded to other stores, and which rules want a destination.
        self._rules: Sequence[ForwardRule] = ()
        self._forwarding: dict[str, list[Reader]] = {}
        self._noted: dict[str, int] = {}
        #: When readers are due, earliest first.
        self._wakes: list[tuple[int, str]] = []
        self._looked = 0
        #: Whether subscriptions came or went since somebody looked.
        self.has_changed = True
        #: How often a reader came, went or changed that refuses messages when it is full.
        self.limits = 0
        self._recover()

    def _recover(self) -> None:
        core = self._core
        sizes = {
            name: (came[0] - gone[0], came[1] - gone[1], base)
            for name, base, _, came, gone, _ in core.log.readers("")
        }
        for prefix in ("queue/", "sub/", "shared/", FORWARD):
            for key, value in core.log.items(prefix):
                shape, options, publishers, leases_after = recall(value)
                reader = self._make(key, shape, options, publishers, leases_after)
                # The clock may have been set back since.
                core.lease = max(core.lease, leases_after)
                messages, size, base = sizes.get(key, (0, 0, 0))
                self._noted[key] = base
                if shape.queue is not None or shape.forward:
                    reader.totals.messages, reader.totals.bytes = messages, size
                elif options.backlog_max_bytes is not None:
                    # The log counts what comes only for queues.
                    reader.measure(core)
                if reader.moves_expired:
                    self.touch(reader)
        self._count_anew()

    def _count_anew(self) -> None:
        """Count queues that got messages past the machine which the last run did not journal as come."""
        core = self._core
        for note, value in core.log.items(COUNTING):
            for name in json.loads(value):
                reader = self._readers.get(queue_key(name))
                if reader is None:
                    continue
                messages, size = reader.totals.messages, reader.totals.bytes
                reader.measure(core)
                if reader.totals.messages > messages:
                    came = reader.totals.messages - messages, max(reader.totals.bytes - size, 0)
                    core.turn.came(reader.key, *came)
            core.turn.put(note, None, with_rows=True)

    def _make(
        self,
        key: str,
        shape: Shape,
        options: Options,
        publishers: list[int],
        leases_after: int,
        *,
        is_new: bool = False,
    ) -> Reader:
        selector = Selector(shape.selector).core if shape.selector else None
        core = self._core
        reader = Reader(
            core.log,
            key,
            shape,
            options,
            queue=self.queue,
            publishers=publishers,
            selector=selector,
            leases_after=leases_after,
            idle_since_s=core.now.mono_s,
            window=core.queue_window,
            is_new=is_new,
        )
        self._readers[key] = reader
        self._routes.clear()
        self.has_changed = True
        self.limits += reader.is_limited
        return reader

    # Getters.

    def __iter__(self) -> Iterator[Reader]:
        return iter(self._readers.values())

    def get(self, key: str) -> Reader | None:
        """One of them."""
        return self._readers.get(key)

    def find(self, key: str, what: str) -> Reader:
        """One that must be there."""
        reader = self._readers.get(key)
        if reader is None:
            raise RequestError("EXISTS_NOT", f"there is no {what}")
        return reader

    def wanting(self, destination: str) -> list[Reader]:
        """Who gets messages of a destination."""
        name = queue_name(destination)
        if name is not None:
            reader = self._readers.get(queue_key(name))
            return [] if reader is None else [reader]
        found = self._routes.get(destination)
        if found is None:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            found = [
                reader
                for reader in self._readers.values()
                if reader.shape.queue is None
                and not reader.shape.forward
                and match_topics(list(reader.shape.patterns), [destination])
            ]
            self._routes[destination] = found
        return found

    def concerned(self, destination: str) -> list[Reader]:
        """Who gets persistent messages of a destination: rules, too."""
        if not self._rules:
            return self.wanting(destination)
        rules = self._forwarding.get(destination)
        if rules is None:
            if len(self._forwarding) >= ROUTES_MAX:
                self._forwarding.clear()
            found = [self._readers[FORWARD + rule.name] for rule in self._rules if rule.matches(destination)]
            rules = self._forwarding[destination] = found
        return [*self.wanting(destination), *rules] if rules else self.wanting(destination)

    def is_forwarded(self, destination: str) -> bool:
        """Whether a rule forwards messages of a destination."""
        return any(rule.matches(destination) for rule in self._rules)

    def forward(self, rules: Sequence[ForwardRule]) -> None:
        """There is a reader for each of these rules."""
        self._rules = rules

    @property
    def wanted(self) -> set[Wanted]:
        """What subscriptions read."""
        shapes = [reader.shape for reader in self._readers.values() if reader.shape.queue is None]
        return {(each, shape.selector) for shape in shapes if not shape.forward for each in shape.patterns}

    @property
    def pinning(self) -> Reader | None:
        """Whoever needs the oldest message."""
        return min(self._readers.values(), key=lambda reader: reader.backlog.pin, default=None)

    # Commands.

    def queue(self, name: str) -> Reader:
        """A queue, which comes into being if it is not there."""
        key = queue_key(name)
        reader = self._readers.get(key)
        if reader is not None:
            return reader
        if name.startswith(TEMPORARY_QUEUES):
            raise RequestError("EXISTS_NOT", f"the temporary queue {name!r} is gone with its connection")
        if not is_queue_name(name):
            raise RequestError("BAD_REQUEST", f"{name!r} is no name of a queue")
        for rule in self._rules:
            if name in rule.queues:
                raise RequestError(
                    "NOT_OWNED",
                    f"this store forwards the queue {name!r} to {rule.to} (rule {rule.name!r}): use it there",
                    destination=QUEUES + name,
                )
        # Messages of one that had this name and was deleted are not its own.
        shape = Shape(patterns=(QUEUES + name,), name=name)
        return self.add(key, shape, Options(), start=self._core.log.end)

    def add(self, key: str, shape: Shape, options: Options, *, start: int) -> Reader:
        """Make one, from an offset on."""
        if len(self._readers) >= READERS_MAX:
            raise RequestError("FULL", f"the store has {READERS_MAX} queues and subscriptions already")
        used, most = self._core.log.state_bytes
        if used * 2 > most:
            # The other half is for what those have behind them that are there.
            raise RequestError(
                "FULL", f"the store's state takes {used} bytes of {most}: remove subscriptions or queues"
            )
        for pattern in shape.patterns:
            # Raises what is wrong with it.
            match_topics([pattern], [])
        reader = self._make(key, shape, options, [], self._core.lease, is_new=True)
        reader.begin(self._core, start)
        if start:
            # The log knows it only once the turn is appended.
            reader.backlog.pass_to(start)
        self._noted[key] = start
        return reader

    def change(self, reader: Reader, options: Options) -> None:
        """Give it other options."""
        if options != reader.options:
            was_limited, former, reader.options = reader.is_limited, reader.options, options
            self.limits += was_limited != reader.is_limited
            if reader.shape.queue is None and former.backlog_max_bytes is None and options.backlog_max_bytes:
                # Of a subscription that has no limit the log does not count what waits.
                reader.measure(self._core)
            if reader.shape.durable:
                self._core.turn.put(reader.key, reader.describe())
            if reader.moves_expired:
                self.touch(reader)

    def leave_out(self, session: Session, publisher: int) -> None:
        """A session has a publisher of its own now, whose messages its no-local subscriptions leave out."""
        own = {key for key, _ in session.consumers.values()}
        for reader in self._readers.values():
            is_same = session.client_id is not None and reader.shape.client_id == session.client_id
            if reader.shape.no_local and (is_same or reader.key in own):
                self.leave_out_of(reader, publisher)

    def leave_out_of(self, reader: Reader, publisher: int) -> None:
        """A subscription leaves a publisher out, from here on."""
        if publisher not in reader.publishers:
            reader.publishers.append(publisher)
            reader.backlog.leave_out(publisher)
            if reader.shape.durable:
                self._core.turn.put(reader.key, reader.describe())

    def remove(self, reader: Reader) -> None:
        """It goes."""
        reader.end(self._core)
        self._readers.pop(reader.key, None)
        self._core.expected.pop(reader.key, None)
        self._routes.clear()
        self.has_changed = True
        self.limits += reader.is_limited
        self._noted.pop(reader.key, None)

    def touch(self, reader: Reader) -> None:
        """It may have something to give out."""
        if reader.key not in self._is_due:
            self._is_due.add(reader.key)
            self._due.append(reader.key)

    def arrived(self, destinations: set[str]) -> None:
        """Messages of these destinations are durable."""
        for destination in destinations:
            for reader in self.wanting(destination):
                if reader.consumers or reader.moves_expired:
                    self.touch(reader)

    def recorded(self) -> None:
        """Messages of topics came into the log that nobody sent here."""
        for reader in self._readers.values():
            if reader.consumers and reader.shape.queue is None:
                self.touch(reader)

    def _look_for_gaps(self) -> None:
        """Give out only the oldest messages while what is done comes in too many runs, so that gaps close.

        The log has room for a bounded number of runs, and an acknowledgement that it did not keep would let
        its message come again.
        """
        core = self._core
        if core.log.is_scattered == core.is_scattered:
            return
        core.is_scattered = not core.is_scattered
        if core.is_scattered:
            key, _, runs, *_ = max(core.log.readers(""), key=lambda found: found[2])
            reader = self._readers.get(key)
            name = key if reader is None else reader.name
            notices.SCATTERED(name=name, runs=runs).log(log)
            return
        for reader in self._readers.values():
            if reader.consumers:
                self.touch(reader)

    def dispatch(self) -> bool:
        """Give out; whether there is more to do at once."""
        self._look_for_gaps()
        budget = DISPATCH_BYTES
        for _ in range(len(self._due)):
            key = self._due.popleft()
            self._is_due.discard(key)
            reader = self._readers.get(key)
            if reader is None:
                continue
            used, more = reader.dispatch(self._core, budget)
            self._note_wake(reader)
            if more:
                self.touch(reader)
            budget -= used
            if budget <= 0:
                break
        return bool(self._due)

    def _note_wake(self, reader: Reader) -> None:
        at = reader.backlog.next_wake_us
        if at is not None and reader.wakes_at_us != at:
            reader.wakes_at_us = at
            heapq.heappush(self._wakes, (at, reader.key))

    def wake(self) -> None:
        """Time has passed: readers whose messages are ready now, or expired, are due."""
        while self._wakes and self._wakes[0][0] <= self._core.now.wall_us:
            _, key = heapq.heappop(self._wakes)
            reader = self._readers.get(key)
            if reader is not None:
                reader.wakes_at_us = None
                self.touch(reader)

    def next_wake_us(self) -> int | None:
        """The next time at which a reader is due."""
        return self._wakes[0][0] if self._wakes else None

    def look_on(self) -> None:
        """Let some of those that nobody consumes look on: what is not theirs they need not keep.

        They look for the first message of their own only, so that a thousand of them take no room.
        """
        keys = list(self._readers)
        for at in range(min(LOOK_ON_MAX, len(keys))):
            reader = self._readers[keys[(self._looked + at) % len(keys)]]
            is_idle = not reader.shape.forward and not any(reader.backlog.counts)
            if is_idle and reader.backlog.pin < self._core.log.durable_end:
                reader.backlog.scan(self._core.now.wall_us, 1, keep=False)
        self._looked += LOOK_ON_MAX

    def note_places(self) -> None:
        """Note how far readers are that found nothing for long, so that a start does not read it again."""
        for reader in self._readers.values():
            pin = reader.backlog.pin
            if reader.shape.durable and pin - self._noted.get(reader.key, 0) >= NOTE_EVERY_OFFSETS:
                self._noted[reader.key] = pin
                self._core.turn.done(reader.key, 0, 0, [(0, pin)])

    def hold(self) -> bool:
        """The store starts: keep what consumers of its last life were granted; whether there is some."""
        wall_us = self._core.now.wall_us
        # A subscription of one consumer has nobody else to keep it from.
        several = [each for each in self._readers.values() if each.shape.shared]
        held = [reader.grants.hold(wall_us) for reader in several]
        return any(held)

    def let_go(self) -> None:
        """Consumers of the store's last life had their time to come back: others may have what they had."""
        for reader in self._readers.values():
            if reader.grants.held:
                reader.let_go(self._core)
                self.touch(reader)

    def foresee(self) -> list[Reader]:
        """Grant messages of the turn under way to consumers that wait: whose there are some."""
        core = self._core
        coming, core.coming = core.coming, {}
        found = [(self._readers.get(key), rows) for key, rows in coming.items()]
        return [reader for reader, rows in found if reader is not None and reader.foresee(core, *rows)]

    def expire(self) -> None:
        """Remove those that nobody has used for as long as they were told."""
        now_s = self._core.now.mono_s
        for reader in list(self._readers.values()):
            after_s = reader.options.expires_after_s
            if after_s is None or reader.consumers or now_s - reader.idle_since_s < after_s:
                continue
            notices.READER_EXPIRED(name=reader.name, after_s=after_s).log(log)
            self.remove(reader)

    def status(self) -> list[dict[str, Any]]:
        """How each of them is."""
        return [
            {"key": reader.key, "name": reader.shape.name, "queue": reader.shape.queue}
            | {"client_id": reader.shape.client_id}
            | reader.status(self._core.log)
            for reader in self._readers.values()
        ]
