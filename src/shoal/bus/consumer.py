"""What a program receives from a store: from a queue, or for a durable or shared subscription."""

import contextlib
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, NoReturn, Self, overload

from shoal import _core
from shoal._core import Message
from shoal.bus.arguments import check_choice, check_count, check_seconds
from shoal.bus.connection import closed_error
from shoal.bus.options import Ack
from shoal.bus.readers import IsDone, thread_here, threads_done
from shoal.bus.receiver import Answering, Receiver
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_consumer import Inbox, offset_of
from shoal.bus.store_session import Body, Done
from shoal.bus.store_waits import ask
from shoal.errors import ClosedError, LeaseError, ShoalError, StoreError
from shoal.signals import SIGNAL_S
from shoal.threads import start

#: About how many bytes are ahead of a reader: this number, or this for each message of `prefetch`.
PREFETCH_BYTES, PREFETCH_BYTES_EACH = 1 << 20, 2048
#: How long closing waits for the store.
CLOSE_S = 2.0
#: A message whose callback failed comes again after this.
FAILED_DELAY_S = 1.0


class ConsumerBase(ABC):
    """What consumers of threads and of asyncio have in common. Waits for nothing."""

    def __init__(
        self, owner: Answering, channel: StoreChannel, what: str, ack: Ack, prefetch: int | None
    ) -> None:
        check_choice("ack", ack, Ack)
        if prefetch is not None:
            check_count("prefetch", prefetch, 1)
        # The owner of a consumer has its connection.
        self._owner = owner
        self._receiver = Receiver(owner, self)
        self._channel, self._what, self._ack, self._prefetch = channel, what, ack, prefetch
        self._check_here = channel.birth.check_here
        self._inbox: Inbox = _NONE
        #: When the channel's thread was last asked to look.
        self._looks_at = 0.0

    @abstractmethod
    def ack(self, message: Message, *, timeout_s: float | None = None) -> Awaitable[None] | None:
        """Acknowledge a message, and wait until that is durable."""

    @property
    def pending(self) -> int:
        """Messages that have arrived and were not read yet."""
        self._check_here()
        return self._inbox.pending

    @property
    def dropped(self) -> int:
        """Messages that the store dropped, because more waited than it may keep (`backlog_max_bytes`)."""
        self._check_here()
        return self._inbox.dropped

    @property
    def closed(self) -> bool:
        """Whether nothing more will arrive."""
        self._check_here()
        return self._inbox.closed or self._inbox.error is not None

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring `bell` as `source` when there is something to receive, or never will be."""
        with self._channel.locked():
            self._inbox.on_change.append(lambda: bell.ring(source))
            self._inbox.is_eager = True
            if self._inbox.pending or self.closed:
                bell.ring(source)

    def release(self, message: Message, *, delay_s: float | None = None) -> None:
        """Give a message back: it is delivered again, to any consumer, marked as redelivered.

        One of a group comes before those of its group that no consumer has received yet.

        Args:
            delay_s: seconds until it is delivered again at the earliest; `None` is the queue's back-off.
        """
        check_seconds("delay_s", delay_s, none="the queue's back-off")
        with self._channel.locked():
            self._inbox.offset_of(message)
            self._inbox.keep_back(message)
            self._channel.release(self._inbox, message, delay_s)

    def _begin(self, body: Body, done: Done) -> None:
        self._inbox = self._channel.open_inbox(
            body,
            done,
            prefetch=self._prefetch,
            prefetch_bytes=max(PREFETCH_BYTES, (self._prefetch or 0) * PREFETCH_BYTES_EACH),
            auto=self._ack == "auto",
            receiver=self._receiver,
        )

    def _take(self, reader: object, count_max: int) -> list[Message]:
        """Messages that are here; under the channel's lock."""
        now = time.monotonic()
        messages = self._inbox.take(reader, count_max, now)
        self._took(bool(messages), now)
        return messages

    def _take_one(self, reader: object) -> Message | None:
        """The next message, if it is here; under the channel's lock."""
        now = time.monotonic()
        message = self._inbox.take_one(reader, now)
        self._took(message is not None, now)
        return message

    def _finish(self, reader: object) -> None:
        """A reader asks for more: it has finished what it took; under the channel's lock."""
        self._inbox.settle(reader, time.monotonic())

    def _took(self, something: bool, now: float) -> None:
        expired = self._inbox.poll_expired()
        if expired is not None:
            self._channel.say(expired)
        if self._inbox.has_word(now):
            self._channel.pump()
        due = self._inbox.poll_timeout()
        if due is not None and due > self._looks_at:
            # The channel's thread sleeps for longer than that.
            self._looks_at = due
            self._channel.look_in_time()
        if not something and self._inbox.is_over:
            raise self._inbox.error or closed_error(f"{self._what} is closed, and everything was received")

    def _acknowledge(self, message: Message, through: bool, done: Done) -> None:
        with self._channel.locked():
            inbox = self._inbox
            offsets = inbox.through(message) if through else [inbox.offset_of(message)]
            self._channel.request(inbox.acknowledge(offsets), done, lasting=False)

    def _check_held(self, messages: Sequence[Message]) -> None:
        """Refuse messages that were handed out, and are held no more: their lease is over."""
        with self._channel.locked():
            held = {offset_of(message) for message in messages if self._inbox.holds(message)}
            for message in messages:
                # One that came again under the next lease is held under that.
                if offset_of(message) not in held:
                    self._inbox.offset_of(message)

    def _acknowledge_all(self, messages: Sequence[Message], done: Done) -> None:
        """Acknowledge messages with one request; `LeaseError` if one of them is not held here any more."""
        with self._channel.locked():
            inbox = self._inbox
            held = [message for message in messages if inbox.holds(message)]
            lost = next((message for message in messages if not inbox.holds(message)), None)

            def answered(answer: Body | None, error: BaseException | None) -> None:
                if error is None and lost is not None:
                    error = LeaseError(
                        f"{lost!r} was given back before: it comes again, marked as redelivered"
                    )
                done(answer, error)

            if held:
                offsets = [inbox.offset_of(message) for message in held]
                self._channel.request(inbox.acknowledge(offsets), answered, lasting=False)
            else:
                answered({}, None)

    def _recover(self, done: Done) -> None:
        def paused(answer: Body | None, error: BaseException | None) -> None:
            if error is None:
                with self._channel.locked():
                    for request in self._inbox.recover():
                        self._channel.say(request)
            # A session that was lost meanwhile delivers everything again by itself.
            done({}, None if not isinstance(error, ClosedError) else error)

        with self._channel.locked():
            self._channel.request(self._inbox.pause(), paused, lasting=False)

    def _retire(self, done: Done) -> None:
        def paused(answer: Body | None, error: BaseException | None) -> None:
            with self._channel.locked():
                # Also if the session was lost: the next one does not begin it again.
                if (request := self._inbox.retire()) is not None and error is None:
                    self._channel.say(request)
            done({}, None)

        with self._channel.locked():
            self._channel.request(self._inbox.pause(), paused, lasting=False)

    def _decline(self, messages: list[Message]) -> None:
        """Give back messages that were received, and that no program has looked at: they do not count."""
        with self._channel.locked():
            if (request := self._inbox.decline(messages)) is not None:
                self._channel.say(request)

    def _set_aside(self, message: Message) -> None:
        """A message that was received is not with the program yet."""
        with self._channel.locked():
            self._inbox.set_aside(message)

    def _expiry_of(self, message: Message) -> float | None:
        """When a message is too old that was received just now, by `time.monotonic`; `None` is never."""
        return self._inbox.expiry_of(message)

    def _take_up(self, message: Message) -> bool:
        """The program gets a message that was set aside; false if it comes again, because its lease ended."""
        with self._channel.locked():
            return self._inbox.take_up(message, time.monotonic())

    def _report(self, message: Message, done: Done) -> None:
        """Report that the program gets a message: it counts as delivered, also if the program dies."""
        with self._channel.locked():
            self._channel.request(self._inbox.report(message), done, lasting=False)

    def _close(self, is_done: IsDone, done: Done) -> None:
        with self._channel.locked():
            if not self._inbox.closed:
                self._inbox.settle_all(is_done)
            self._channel.close_inbox(self._inbox, done)

    def _give_up(self, message: Message, done: Done) -> None:
        """A message cannot be handled here: it becomes a dead letter."""
        with self._channel.locked():
            inbox = self._inbox
            request = inbox.dead([inbox.offset_of(message)], FAILED_DELAY_S)
            self._channel.request(request, done, lasting=False)

    def _failed(self, message: Message) -> None:
        """The callback of a message raised: it comes again, unless it was acknowledged meanwhile."""
        with contextlib.suppress(ShoalError, ValueError):
            self.release(message, delay_s=FAILED_DELAY_S)

    def _describe(self, kind: str) -> str:
        if self._channel.birth.is_elsewhere:
            return f"<{kind} {self._what} of another process>"
        return f"<{kind} {self._what} {self.pending} pending{' closed' if self.closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a consumer cannot be pickled: consume in the process that reads")


class Consumer(ConsumerBase):
    """Messages from a queue: iterate over it, or call `receive`. May be shared between threads.

    With `ack="auto"` a thread has finished a message when it asks for the next one; the store knows it within
    0.1 s. Closing acknowledges the last one of the thread that closes, unless it leaves a `with` statement
    with an exception. What another thread has in hand comes again, also if that thread has ended. So does
    what is not acknowledged when the program ends, however it ends.
    """

    def __init__(
        self,
        owner: Answering,
        channel: StoreChannel,
        what: str,
        begin: Body,
        *,
        ack: Ack,
        prefetch: int | None,
        timeout_s: float | None,
    ) -> None:
        super().__init__(owner, channel, what, ack, prefetch)
        self._changed = threading.Condition(channel.lock)
        try:
            ask(lambda done: self._begin(begin, done), timeout_s, what, why=channel.trouble)
        except BaseException:
            # A caller that does not wait any more does not want it.
            channel.close_inbox(self._inbox, lambda answer, error: None)
            raise
        with self._changed:
            self._inbox.on_change.append(self._changed.notify_all)

    @overload
    def receive(self, timeout_s: None = None) -> Message: ...

    @overload
    def receive(self, timeout_s: float | None) -> Message | None: ...

    def receive(self, timeout_s: float | None = None) -> Message | None:
        """The next message, waited for if need be.

        Args:
            timeout_s: how long to wait; `None` waits for ever.

        Returns:
            The message, or `None` if none came in time.

        Raises:
            ClosedError: the consumer is closed.
            StoreError: the queue or subscription is gone.
        """
        # What is here already is for the process that asked for it.
        self._check_here()
        reader = thread_here()
        lot = self._inbox.lots.get(reader)
        if lot:
            with contextlib.suppress(IndexError):
                return lot.popleft()
        check_seconds("timeout_s", timeout_s, none="no end")
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            self._finish(reader)
            while True:
                message = self._take_one(reader)
                if message is not None:
                    return message
                left_s = None if deadline is None else deadline - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(SIGNAL_S if left_s is None else min(left_s, SIGNAL_S))

    def receive_nowait(self, count_max: int = 1000) -> list[Message]:
        """Messages that are here already, at most `count_max`; an empty list if there are none.

        Raises:
            ClosedError: the consumer is closed.
        """
        check_count("count_max", count_max)
        self._check_here()
        reader = thread_here()
        with self._changed:
            self._finish(reader)
            return self._take(reader, min(count_max, sys.maxsize))

    def ack(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message, and wait until that is durable: it is never delivered again.

        Raises:
            LeaseError: the connection to the store was lost since it was delivered; it comes again.
            ValueError: it was not received here, or was acknowledged before.
        """
        ask(lambda done: self._acknowledge(message, False, done), timeout_s, f"ack on {self._what}")

    def ack_through(self, message: Message, *, timeout_s: float | None = None) -> None:
        """Acknowledge a message and all that this consumer handed out before it. Raises what `ack` raises."""
        ask(lambda done: self._acknowledge(message, True, done), timeout_s, f"ack on {self._what}")

    def recover(self, *, timeout_s: float | None = None) -> None:
        """Have everything delivered again that is not acknowledged, in order, marked as redelivered."""
        ask(self._recover, timeout_s, f"recover on {self._what}")

    def retire(self) -> None:
        """Receive nothing more, and give back what was not received; what was can still be acknowledged."""
        with contextlib.suppress(StoreError, ClosedError):
            ask(self._retire, CLOSE_S, f"end of {self._what}")

    def close(self) -> None:
        """End it. What is not acknowledged goes back, and is delivered again. Closing again does nothing."""
        self._end(True)

    def _end(self, succeeded: bool) -> None:
        if self._channel.birth.is_elsewhere:
            return
        is_done = threads_done(succeeded)
        with contextlib.suppress(StoreError, ClosedError):
            ask(lambda done: self._close(is_done, done), CLOSE_S, f"close of {self._what}")

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                message = self.receive()
            except ClosedError:
                return
            if message is not None:
                yield message

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # What failed was not done.
        self._end(kind is None)

    def __repr__(self) -> str:
        return self._describe("Consumer")


class StoredSubscription(Consumer):
    """A durable or shared subscription: as `Consumer`, for messages of topics.

    Made by `Bus.subscribe` with `durable` or `shared`. Closing it keeps a durable one, which collects
    messages meanwhile; `Bus.unsubscribe` forgets it.
    """

    def __init__(self, *arguments: Any, pattern: str, name: str, **options: Any) -> None:
        super().__init__(*arguments, **options)
        #: What it subscribes to.
        self.pattern = pattern
        #: What it is called.
        self.name = name


class Listening:
    """The thread that calls back with what a consumer receives; it ends with the consumer."""

    def __init__(
        self,
        consumer: Consumer,
        callback: Callable[[Message], object],
        failed: Callable[[Message, BaseException], None],
    ) -> None:
        self._consumer, self._callback, self._failed = consumer, callback, failed
        self._stopped = False
        self.thread = threading.Thread(target=self._run, name=f"shoal-{consumer._what}", daemon=True)
        start(self.thread)

    def _run(self) -> None:
        while not self._stopped:
            try:
                message = self._consumer.receive(1.0)
            except (ClosedError, StoreError):
                return
            if message is None:
                continue
            try:
                self._callback(message)
            except BaseException as error:
                if _core.is_abandoned():
                    return
                self._consumer._failed(message)
                self._failed(message, error)

    def stop(self) -> None:
        """Call back no more; what is under way goes on."""
        self._stopped = True

    def close(self) -> None:
        """End the consumer, and the thread."""
        self._stopped = True
        self._consumer.close()


#: Before there is one.
_NONE = Inbox(0, {}, prefetch=1, prefetch_bytes=1, auto=False)
