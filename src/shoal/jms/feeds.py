"""Where a consumer's messages come from: a subscription of the bus, or a consumer of a store.

A feed gives the bus's messages one by one. What was delivered and not acknowledged the session keeps for a
subscription, and the store for its consumers.
"""

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from shoal import _core
from shoal._core import Message as BusMessage
from shoal.bus.consumer import Consumer
from shoal.bus.inside import core_of
from shoal.bus.store_session import Body, Done
from shoal.bus.store_waits import Pause, ask
from shoal.bus.subscription import Subscription
from shoal.errors import ClosedError, ShoalError

#: Bytes of messages with a delivery delay that a consumer of a topic holds back; then it takes nothing more.
HELD_BACK_BYTES_MAX = 64 << 20
#: How often one that waits for a store looks whether its consumer was closed.
RETIRED_CHECK_S = 0.1


class Entry(NamedTuple):
    """A message on its way to a program, and which delivery of it that is."""

    core: BusMessage
    delivery: int
    #: When it is too old, by `time.monotonic`; `None` is never.
    expires: float | None
    #: The store was told that it is acknowledged.
    is_settled: bool = False
    #: The report that the program gets it, if the store is to have that first.
    report: Pause | None = None

    @property
    def expired(self) -> bool:
        """Whether it is too old now."""
        return self.expires is not None and time.monotonic() >= self.expires

    @classmethod
    def fresh(cls, core: BusMessage) -> "Entry":
        """What a subscription gave just now."""
        left_s = core._left_s
        return cls(core, 1, None if left_s is None else time.monotonic() + left_s)


class Feed(ABC):
    """What all feeds do. For the thread that has the session, but for `close`, which any may call."""

    #: Whether a store knows what is acknowledged.
    is_kept = False

    #: Gives the next message that comes in time, where nothing else has to be looked at.
    quick: Callable[[float | None], BusMessage | None] | None = None

    def __init__(self) -> None:
        #: What is to be delivered before anything new: put back, or to be delivered again.
        self.first: deque[Entry] = deque()

    def take(self, timeout_s: float | None) -> Entry | None:
        """The next message, waited for; `None` if none came in time.

        Raises:
            ClosedError: the feed is closed.
        """
        while self.first:
            entry = self.first.popleft()
            if entry.expired:
                self.decline(entry)
            elif self._take_up(entry):
                return entry
        return self._take(timeout_s)

    def put_back(self, entry: Entry) -> None:
        """As if a message had not been taken: it is the next one."""
        self.first.appendleft(entry)

    def _take_up(self, entry: Entry) -> bool:
        """Take a message that was put back; false if it is to come again by itself."""
        return True

    @abstractmethod
    def _take(self, timeout_s: float | None) -> Entry | None:
        """The next message that comes from the bus."""

    @abstractmethod
    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when there is something to take, or never will be."""

    @property
    def next_due_s(self) -> float | None:
        """Seconds until a message is to be taken of which no bell tells; `None` if there is none."""
        return None

    def mark_callback_thread(self) -> None:  # noqa: B027 — only a subscription has to know
        """Say that this thread runs the listener."""

    def check_held(self, cores: list[BusMessage]) -> None:  # noqa: B027 — only a store has to know
        """Refuse messages that can no longer be acknowledged.

        Raises:
            LeaseError: they come again.
        """

    def acknowledge(self, core: BusMessage) -> None:  # noqa: B027 — only a store has to know
        """The program is through with a message."""

    def acknowledge_through(self, core: BusMessage) -> None:  # noqa: B027 — only a store has to know
        """The program is through with a message and all that were taken before it."""

    def begin_acknowledge(self, core: BusMessage, done: Done, *, through: bool) -> None:
        """As `acknowledge`, or `acknowledge_through`; `done` is called when the store knows."""
        done(None, None)

    def give_up(self, core: BusMessage) -> None:  # noqa: B027 — only a store has to know
        """The program cannot handle a message, and is not to get it again."""

    def decline(self, entry: Entry) -> None:  # noqa: B027 — only a store has to know
        """A message was taken, and nobody will see it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left, neither to take nor to acknowledge."""
        return False

    @abstractmethod
    def recover(self, entries: list[Entry]) -> None:
        """Deliver these again, before anything else."""

    @abstractmethod
    def close(self) -> None:
        """End it; whoever waits in `take` is told."""


class TopicFeed(Feed):
    """A subscription that nobody remembers but this process."""

    def __init__(self, subscription: Subscription, local: tuple[int, int] | None) -> None:
        super().__init__()
        # The extension's own: one call less for each message.
        self._core = core_of(subscription)
        self._core.hold_back(HELD_BACK_BYTES_MAX)
        #: Publisher and connection whose messages are left out.
        self._local = local
        if local is None:
            self.quick = self._core.receive

    def _take(self, timeout_s: float | None) -> Entry | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            core = self._core.receive(timeout_s)
            if core is None:
                return None
            if self._local is None or (core.publisher, core.connection) != self._local:
                return Entry.fresh(core)
            if until is not None:
                timeout_s = max(until - time.monotonic(), 0.0)

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when there is something to take, or never will be."""
        self._core.attach_bell(bell, source)

    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next message that is held back is due."""
        return self._core.next_due_s

    def mark_callback_thread(self) -> None:
        """Say that this thread runs the listener."""
        self._core.mark_callback_thread()

    def recover(self, entries: list[Entry]) -> None:
        """Deliver these again, before anything else."""
        self.first.extendleft(entry._replace(delivery=entry.delivery + 1) for entry in reversed(entries))

    def close(self) -> None:
        """End it. What has arrived is not delivered any more."""
        self._core.stop()
        self._core.close()


class StoreFeed(Feed):
    """A consumer of a queue, of a durable or of a shared subscription, which a store serves."""

    is_kept = True

    def __init__(self, consumer: Consumer) -> None:
        super().__init__()
        self._consumer = consumer
        self._is_retired = False

    def _take(self, timeout_s: float | None) -> Entry | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_s = RETIRED_CHECK_S if until is None else max(until - time.monotonic(), 0.0)
            core = self._consumer.receive(min(left_s, RETIRED_CHECK_S))
            if self._is_retired:
                if core is not None:
                    self._consumer._decline([core])
                raise ClosedError("the consumer is closed")
            if core is None:
                if left_s == 0.0:
                    return None
            else:
                return Entry(core, core.delivery_count, self._consumer._expiry_of(core))

    def put_back(self, entry: Entry) -> None:
        """As if a message had not been taken: it is the next one, and no program has it."""
        super().put_back(entry)
        if not entry.is_settled:
            self._consumer._set_aside(entry.core)

    def _take_up(self, entry: Entry) -> bool:
        return entry.is_settled or self._consumer._take_up(entry.core)

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when there is something to take, or never will be."""
        self._consumer.attach_bell(bell, source)

    def check_held(self, cores: list[BusMessage]) -> None:
        """Refuse messages whose lease is over, unless the program got them again."""
        self._consumer._check_held(cores)

    def acknowledge(self, core: BusMessage) -> None:
        """The program is through with a message; returns when the store knows."""
        self._acknowledge(core, through=False)

    def acknowledge_through(self, core: BusMessage) -> None:
        """The program is through with a message and all that were taken before it."""
        self._acknowledge(core, through=True)

    def _acknowledge(self, core: BusMessage, *, through: bool) -> None:
        ask(lambda done: self.begin_acknowledge(core, done, through=through), None, "an acknowledgement")

    def give_up(self, core: BusMessage) -> None:
        """Have the store make a message a dead letter; returns when it has."""
        ask(lambda done: self._consumer._give_up(core, done), None, "the end of a message")

    def begin_acknowledge(self, core: BusMessage, done: Done, *, through: bool) -> None:
        """As `acknowledge`, or `acknowledge_through`; `done` is called when the store knows."""
        try:
            self._consumer._acknowledge(core, through, done)
        except ShoalError as error:
            done(None, error)

    def begin_report(self, core: BusMessage, wake: Callable[[], None]) -> Pause:
        """Report that the program gets a message; `wake` is called when the store has the report."""
        report = Pause()

        def done(answer: Body | None, error: BaseException | None) -> None:
            report(answer, error)
            wake()

        try:
            self._consumer._report(core, done)
        except ShoalError as error:
            report(None, error)
        return report

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left, neither to take nor to acknowledge."""
        return self._consumer.closed

    def recover(self, entries: list[Entry]) -> None:
        """Have the store deliver again all that it delivered and that was not acknowledged."""
        # No program saw these, so they do not count as delivered.
        self._decline_first()
        self._consumer.recover()

    def retire(self) -> None:
        """Take nothing more, and give back what nobody saw; what was delivered can be acknowledged still."""
        self._is_retired = True
        self._decline_first()
        self._consumer.retire()

    def _decline_first(self) -> None:
        unseen = [entry.core for entry in self.first if not entry.is_settled]
        settled = [entry for entry in self.first if entry.is_settled]
        self.first.clear()
        self.first.extend(settled)
        self._consumer._decline(unseen)

    def decline(self, entry: Entry) -> None:
        """Give back what nobody will see."""
        if not entry.is_settled:
            self._consumer._decline([entry.core])

    def close(self) -> None:
        """End it; what was delivered and not acknowledged goes back."""
        self._decline_first()
        self._consumer.close()
