"""Consumers of one client: where messages come from, how many it may have ahead, what it acknowledges.

A consumer takes messages only while its client has *credit* and its connection has room. What it does not
take waits where it can be bounded: messages of a topic in the bus's queue, of which the oldest are dropped;
messages of a queue or a durable subscription in the store.
"""

import asyncio
import contextlib
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Protocol

from shoal import Message
from shoal.bus.ahead import Outcome
from shoal.bus.aio_consumer import Consumer as StoreConsumer
from shoal.bus.aio_queues import Queue
from shoal.bus.aio_subscription import Subscription
from shoal.bus.store_waits import begin_in_loop
from shoal.errors import ClosedError, ShoalError, StoreError
from shoal.gateway.commands import AckMode

#: Credit of a client that names none, for messages that it acknowledges.
CREDIT = 1000
#: Messages that go out together before other clients have their turn.
TOGETHER_MAX = 256


class Outlet(Protocol):
    """The connection to a client, as consumers see it."""

    async def wait_room(self) -> None:
        """Return when it takes more."""

    def deliver(self, consumer: "Consumer", messages: Sequence[Message], ids: Sequence[str | None]) -> None:
        """Send messages; the client acknowledges them by these ids."""

    def when_sent(self, call: Callable[[], None]) -> None:
        """Call when what was delivered before has left."""

    def ended(self, consumer: "Consumer", error: ShoalError | None) -> None:
        """Nothing more will come: a queue was browsed to its end, or why not."""


class Source(ABC):
    """Where a consumer's messages come from. For the tasks of one event loop."""

    #: Whether a store keeps messages until they are acknowledged.
    is_kept = False

    @property
    def dropped(self) -> int:
        """Messages that were dropped since it began, because the client did not read."""
        return 0

    @abstractmethod
    async def take(self, count_max: int) -> Sequence[Message]:
        """The next messages, waited for; none at the end.

        Raises:
            StoreError: the queue or the subscription is gone.
        """

    def acknowledge(self, messages: Sequence[Message]) -> Outcome | None:
        """The client has finished messages: what becomes of that, if a store has to know."""
        return None

    def release(self, message: Message) -> None:  # noqa: B027 — only a store has to know
        """The client gives a message back."""

    def give_up(self, message: Message) -> Outcome | None:
        """The client cannot handle a message: it becomes a dead letter."""
        return None

    @abstractmethod
    async def close(self) -> None:
        """End it. What is not acknowledged goes back."""


class TopicSource(Source):
    """A subscription of the bus; messages of the client's own connection may be left out."""

    def __init__(self, subscription: Subscription, is_own: Callable[[Message], bool] | None = None) -> None:
        self._subscription, self._is_own = subscription, is_own

    @property
    def dropped(self) -> int:
        """Messages that were dropped since it began, because the client did not read."""
        return self._subscription.dropped

    async def take(self, count_max: int) -> Sequence[Message]:
        """The next messages."""
        while True:
            try:
                messages = [await self._subscription.receive()]
                if count_max > 1:
                    messages += self._subscription.receive_nowait(count_max - 1)
            except ClosedError:
                return ()
            if self._is_own is not None:
                messages = [message for message in messages if not self._is_own(message)]
            if messages:
                return messages

    async def close(self) -> None:
        """End it."""
        self._subscription.close()


class StoreSource(Source):
    """A consumer of a queue, or of a durable subscription."""

    is_kept = True

    def __init__(self, consumer: StoreConsumer) -> None:
        self._consumer = consumer

    @property
    def dropped(self) -> int:
        """Messages that the store dropped, because more waited than it may keep."""
        return self._consumer.dropped

    async def take(self, count_max: int) -> Sequence[Message]:
        """The next messages."""
        try:
            message = await self._consumer.receive()
        except ClosedError:
            return ()
        return [message, *(self._consumer.receive_nowait(count_max - 1) if count_max > 1 else ())]

    def acknowledge(self, messages: Sequence[Message]) -> Outcome:
        """Tell the store, with one request."""
        return begin_in_loop(lambda done: self._consumer._acknowledge_all(messages, done))

    def release(self, message: Message) -> None:
        """Have the store deliver it again."""
        # What the store gave to another consumer meanwhile is not the client's to give back.
        with contextlib.suppress(StoreError, ValueError):
            self._consumer.release(message)

    def give_up(self, message: Message) -> Outcome:
        """Have the store make it a dead letter."""
        return begin_in_loop(lambda done: self._consumer._give_up(message, done))

    async def close(self) -> None:
        """End it."""
        await self._consumer.close()


class BrowseSource(Source):
    """The messages of a queue as they are now; it takes none of them."""

    def __init__(self, queue: Queue, selector: str | None) -> None:
        self._messages = queue.browse(selector=selector)

    async def take(self, count_max: int) -> Sequence[Message]:
        """The next messages."""
        found: list[Message] = []
        async for message in self._messages:
            found.append(message)
            if len(found) >= count_max:
                break
        return found

    async def close(self) -> None:
        """End it."""
        with contextlib.suppress(RuntimeError):
            await self._messages.aclose()  # type: ignore[attr-defined]


class Consumer:
    """One subscription of a client. For the tasks of one event loop.

    Args:
        key: what the client calls it.
        number: which of the client's consumers it is; ids of its messages begin with it.
        destination: what the client calls the destination of its messages, if not as the bus does.
        credit: messages that the client may have and not acknowledge.
    """

    def __init__(
        self,
        key: str,
        number: int,
        source: Source,
        outlet: Outlet,
        *,
        mode: AckMode,
        credit: int | None,
        destination: str | None = None,
        durable: str | None = None,
    ) -> None:
        self.key, self.number, self.destination, self.durable = key, number, destination, durable
        self._source, self._outlet, self._mode = source, outlet, mode
        self._credit_max = credit or CREDIT
        #: What was delivered and not acknowledged, by its number, in order.
        self._unacknowledged: dict[int, Message] = {}
        self._next = 1
        self._has_credit = asyncio.Event()
        self._has_credit.set()
        self._dropped = 0
        #: Acknowledgements that go together, and what becomes of them.
        self._finished: list[Message] = []
        self._told: list[Outcome] = []
        self._task = asyncio.create_task(self._run(), name=f"shoal-gateway-{key}")

    # --- getters ---

    @property
    def browses(self) -> bool:
        """Whether it browses a queue."""
        return isinstance(self._source, BrowseSource)

    @property
    def in_hand(self) -> int:
        """Messages that the client has and did not acknowledge."""
        return len(self._unacknowledged)

    def take_dropped(self) -> int:
        """Messages that were dropped since the last call."""
        before, self._dropped = self._dropped, self._source.dropped
        return self._dropped - before

    # --- commands ---

    def settle(self, number: int) -> list[Message]:
        """Take out what the client acknowledges or gives back with a number: one message, or all up to it.

        Raises:
            KeyError: no message has this number.
        """
        settled = [number]
        if self._mode == "client" and number in self._unacknowledged:
            settled = list(itertools.takewhile(lambda at: at <= number, self._unacknowledged))
        messages = [self._unacknowledged.pop(at) for at in settled]
        self._note_credit()
        return messages

    def acknowledge(self, messages: list[Message]) -> Outcome | None:
        """The client has finished messages that were settled: what becomes of that, if a store has to know.

        Those of one turn of the event loop go with one request.
        """
        if not self._source.is_kept:
            return None
        loop = asyncio.get_running_loop()
        if not self._finished:
            loop.call_soon(self._tell)
        self._finished += messages
        outcome: Outcome = loop.create_future()
        self._told.append(outcome)
        return outcome

    def release(self, messages: list[Message]) -> None:
        """The client gives messages back; the last one first, so that they are in order again."""
        for message in reversed(messages):
            self._source.release(message)

    def give_up(self, messages: list[Message]) -> list[Outcome]:
        """The client cannot handle messages: they become dead letters."""
        outcomes = [self._source.give_up(message) for message in messages]
        return [outcome for outcome in outcomes if outcome is not None]

    async def close(self) -> None:
        """End it. What is not acknowledged goes back."""
        if self._finished:
            self._tell()
        if self._task is not asyncio.current_task():
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._source.close()

    # --- its task ---

    async def _run(self) -> None:
        error: ShoalError | None = None
        try:
            while True:
                await self._has_credit.wait()
                await self._outlet.wait_room()
                room = self._credit_max - len(self._unacknowledged)
                messages = await self._source.take(max(1, min(room, TOGETHER_MAX)))
                if not messages:
                    break
                self._deliver(messages)
                # Other clients have their turn.
                await asyncio.sleep(0)
        except ShoalError as failure:
            error = failure
        self._outlet.ended(self, error)

    def _deliver(self, messages: Sequence[Message]) -> None:
        if self._mode == "auto":
            self._outlet.deliver(self, messages, [None] * len(messages))
            if self._source.is_kept:
                self._deliver_kept(messages)
            return
        first, self._next = self._next, self._next + len(messages)
        ids = [f"{self.number}-{number}" for number in range(first, self._next)]
        self._unacknowledged.update(zip(range(first, self._next), messages, strict=True))
        self._note_credit()
        self._outlet.deliver(self, messages, ids)

    def _deliver_kept(self, messages: Sequence[Message]) -> None:
        """The gateway acknowledges these when their frames have left."""
        first, self._next = self._next, self._next + len(messages)
        self._unacknowledged.update(zip(range(first, self._next), messages, strict=True))
        self._note_credit()

        def left() -> None:
            for number in range(first, first + len(messages)):
                self._unacknowledged.pop(number, None)
            self._note_credit()
            outcome = self.acknowledge(list(messages))
            if outcome is not None:
                # What the store gives to another consumer was delivered twice, and is marked there.
                outcome.add_done_callback(lambda done: done.cancelled() or done.exception())

        self._outlet.when_sent(left)

    def _note_credit(self) -> None:
        if len(self._unacknowledged) < self._credit_max:
            self._has_credit.set()
        else:
            self._has_credit.clear()

    def _tell(self) -> None:
        """Tell the store what was finished in this turn."""
        messages, self._finished = self._finished, []
        waiting, self._told = self._told, []
        if not messages:
            return
        told = self._source.acknowledge(messages)
        assert told is not None
        told.add_done_callback(lambda done: _pass_on(done, waiting))


def _pass_on(done: Outcome, waiting: list[Outcome]) -> None:
    """Give one outcome to all that wait for it."""
    error = None if done.cancelled() else done.exception()
    for outcome in waiting:
        if outcome.done():
            continue
        if done.cancelled():
            outcome.cancel()
        elif error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(done.result())
