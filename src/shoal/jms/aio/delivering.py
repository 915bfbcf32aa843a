"""The receiving half of a session in an event loop: tasks wait, and a task calls the listeners."""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

from shoal import _core
from shoal.bus.doorbell import Doorbell
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.aio.worker import Worker
from shoal.jms.arguments import left_of
from shoal.jms.consumer import MessageConsumer
from shoal.jms.delivering import Delivering
from shoal.jms.feeds import Entry
from shoal.jms.listener_thread import TURN_MAX, log_failure, next_due_s
from shoal.jms.message import Message

T = TypeVar("T")


class _Call:
    """A listener that runs, and whose it is; `None` once it has returned."""

    __slots__ = ("delivering",)

    def __init__(self, delivering: "LoopDelivering") -> None:
        self.delivering: LoopDelivering | None = delivering


#: The listener that runs here. Tasks that it starts have it, too, and so has the thread that works for it.
_calling: "contextvars.ContextVar[_Call | None]" = contextvars.ContextVar("shoal-jms-listener", default=None)


class LoopDelivering(Delivering):
    """As `Delivering`, for the tasks of one event loop; what asks a store is done by a worker."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.worker = Worker()
        #: Acknowledgements of what `receive` returned that the store has not answered yet.
        self._acknowledging = 0
        #: Commits, rollbacks and the like that were asked for and are not over.
        self._settling = 0
        self._task: asyncio.Task[None] | None = None
        self.doorbell = Doorbell(self._use_bell)

    def _use_bell(self, bell: _core.Bell) -> None:
        self._bell = bell

    @property
    def is_here(self) -> bool:
        """Whether a listener of this session is the caller."""
        call = _calling.get()
        return call is not None and call.delivering is self

    async def run_settling(self, work: Callable[[], T]) -> T:
        """Commit, roll back, recover or acknowledge in the worker; nothing is delivered before that is over.

        Also if whoever asked is cancelled: what is delivered meanwhile would be taken back, or forgotten.
        """
        self._settling += 1
        return await self.worker.run(work, ended=self._end_settling)

    def _end_settling(self) -> None:
        self._settling -= 1
        self.wake()

    def is_open(self, consumer: MessageConsumer) -> bool | None:
        """Whether messages of a consumer may be delivered now; `None` if never again."""
        is_open = super().is_open(consumer)
        return is_open and not self._settling

    # One message at a time.

    async def take_next(self, consumer: MessageConsumer, until: float | None) -> Entry | None:
        """The next message, which counts as delivered from now on; one that is cancelled takes none."""
        self.doorbell.check_loop()
        self.begin_receive(consumer)
        try:
            self._hear(consumer)
            # Before a message is taken: from there on nothing may be cancelled.
            await self.doorbell.take_turn()
            while self._acknowledging and self.is_open(consumer) is not None and left_of(until) != 0.0:
                await self.doorbell.wait(until)
            while (is_open := self.is_open(consumer)) is not None:
                entry = self.take_from(consumer, 0.0) if is_open else None
                if entry is not None or (until is not None and time.monotonic() >= until):
                    return entry
                await self.doorbell.wait(_earlier(until, next_due_s([consumer]) if is_open else None))
            return None
        finally:
            self.end_receive()

    def settle(self, consumer: MessageConsumer, entry: Entry, until: float | None) -> None:
        """Tell the store, as the mode asks, that `receive` returns a message; the next one waits for it.

        Nobody waits here: a task that is cancelled while it waits does not get what `receive` returns, and
        then the store must not believe that the message was dealt with.
        """
        if self._keeps or entry.is_settled:
            return
        is_lazy = self.mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE
        due = self.unacknowledged.save(consumer, entry) if is_lazy else [(consumer, entry)]
        for each, last in due:
            self._acknowledging += 1
            self.unacknowledged.begin_acknowledge(each, last, self._answered, through=is_lazy)

    def _answered(self) -> None:
        """The store has answered, on whatever thread."""
        # No task waits where the loop is closed.
        with contextlib.suppress(RuntimeError):
            self.doorbell.loop.call_soon_threadsafe(self._end_acknowledge)

    def _end_acknowledge(self) -> None:
        self._acknowledging -= 1
        self.wake()

    def _hear(self, consumer: MessageConsumer) -> None:
        if self._bell is not None:
            self.hear(consumer, self._bell)

    # Listeners, section 8.7.

    def _begin_calling(self, consumer: MessageConsumer) -> None:
        self.doorbell.check_loop()
        self._hear(consumer)
        if self._task is None:
            # It belongs to no listener, also if one set this one.
            empty = contextvars.Context()
            self._task = self.doorbell.loop.create_task(
                self._call_listeners(), name="shoal-jms-session", context=empty
            )

    async def _call_listeners(self) -> None:
        while not self.ended:
            listening = self.listening()
            served = [await self._serve_some(consumer) for consumer in listening]
            if not any(served):
                await self.doorbell.wait(_earlier(None, next_due_s(listening)))

    async def _serve_some(self, consumer: MessageConsumer) -> bool:
        """Call back with some messages of a consumer; false if there was none."""
        consumer._feed.mark_callback_thread()
        for turn in range(TURN_MAX):
            due = self.begin_call(consumer)
            if due is None:
                return turn > 0
            call = _Call(self)
            before = _calling.set(call)
            try:
                await self._call_one(consumer, *due)
            finally:
                call.delivering = None
                _calling.reset(before)
                self.end_call()
            await self.doorbell.take_turn()
        return True

    async def _call_one(
        self, consumer: MessageConsumer, entry: Entry, call: Callable[[Message], object]
    ) -> None:
        failed = False
        try:
            result = call(consumer._made(entry))
            if inspect.isawaitable(result):
                await result
        except Exception as error:
            failed = True
            log_failure(entry, error)
        if not self.is_to_settle(consumer, entry):
            return
        settle = functools.partial(self.settle_call, consumer, entry, failed)
        if consumer._feed.is_kept:
            await self.worker.run(settle)
        else:
            settle()

    async def ended_in_loop(self) -> None:
        """Wait for the task that calls listeners, once everything else has ended; and give all back."""
        task, self._task = self._task, None
        if task is not None and task is not asyncio.current_task():
            await asyncio.wait([task])
        self.worker.close()
        self.doorbell.close()


def _earlier(until: float | None, due_s: float | None) -> float | None:
    """A time of `time.monotonic`, or when a message is due if that is earlier."""
    due = None if due_s is None else time.monotonic() + due_s
    return min((at for at in (until, due) if at is not None), default=None)
