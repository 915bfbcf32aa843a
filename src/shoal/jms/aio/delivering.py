"""The receiving half of a session in an event loop: tasks wait, and a task calls the listeners."""

import asyncio
import contextvars
import functools
import inspect
import time
from collections.abc import Callable
from typing import Any

from shoal import _core
from shoal.bus.arguments import check_seconds
from shoal.bus.doorbell import Doorbell
from shoal.jms.aio.worker import Worker
from shoal.jms.consumer import MessageConsumer
from shoal.jms.delivering import LAZY_MAX, TURN_MAX, AcknowledgeMode, Delivering, log_failure
from shoal.jms.feeds import Entry
from shoal.jms.message import Message


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
        self._task: asyncio.Task[None] | None = None
        self.doorbell = Doorbell(self._use_bell)

    def _use_bell(self, bell: _core.Bell) -> None:
        self._bell = bell

    @property
    def is_here(self) -> bool:
        """Whether a listener of this session is the caller."""
        call = _calling.get()
        return call is not None and call.delivering is self

    # One message at a time.

    async def take_next(self, consumer: MessageConsumer, timeout_s: float | None) -> Entry | None:
        """The next message, which counts as delivered from now on; one that is cancelled takes none."""
        check_seconds("timeout_s", timeout_s, none="no end")
        self.doorbell.check_loop()
        self.begin_receive(consumer)
        try:
            self._hear(consumer)
            # Before a message is taken: from there on nothing may be cancelled.
            await self.doorbell.take_turn()
            until = None if timeout_s is None else time.monotonic() + timeout_s
            while (is_open := self.is_open(consumer)) is not None:
                entry = self.take_from(consumer, 0.0) if is_open else None
                if entry is not None or (until is not None and time.monotonic() >= until):
                    return entry
                await self.doorbell.wait(until)
            return None
        finally:
            self.end_receive()

    async def delivered_next(self, consumer: MessageConsumer, entry: Entry) -> Message:
        """The message of an entry that `receive` returns, acknowledged as the mode asks."""
        is_lazy = self.mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE and len(self._lazy) + 1 < LAZY_MAX
        if not consumer._feed.is_kept or self._keeps or is_lazy:
            return self.delivered(consumer, entry)
        try:
            await self.worker.run(functools.partial(self.settle, consumer, entry))
        except asyncio.CancelledError:
            # The store hears that it is acknowledged, and so it is here that it must not be forgotten.
            self.put_back(consumer, entry._replace(is_settled=True))
            raise
        return consumer._made(entry)

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
            served = [await self._serve_some(consumer) for consumer in self.listening()]
            if not any(served):
                await self.doorbell.wait(None)

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
