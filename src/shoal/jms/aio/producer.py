"""Producers for programs with an event loop."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self

from shoal.bus.doorbell import in_own_thread
from shoal.errors import FullError, ResourceAllocationError
from shoal.jms.arguments import refuse_positions
from shoal.jms.completion import CompletionListener, Completions, Turn, calling, check_listener
from shoal.jms.context_producer import ContextProducerBase
from shoal.jms.destination import Destination, Queue
from shoal.jms.message import DeliveryMode, Message, checked_delivery_mode, checked_priority
from shoal.jms.producer import ProducerBase, checked_ttl

if TYPE_CHECKING:
    from shoal.jms import session as threads
    from shoal.jms.aio.delivering import LoopDelivering


class MessageProducer(ProducerBase):
    """Sends to one destination, or to one that each `send` names. For the tasks of one event loop."""

    __slots__ = ("_delivering",)

    def __init__(
        self,
        session: "threads.Session",
        destination: Destination | None,
        delivery_mode: DeliveryMode,
        delivering: "LoopDelivering",
    ) -> None:
        super().__init__(session, destination, delivery_mode)
        self._delivering = delivering

    async def send(
        self,
        message: Message,
        *others: Never,
        destination: Destination | None = None,
        delivery_mode: int | None = None,
        priority: int | None = None,
        time_to_live_s: float | None = None,
        completion_listener: CompletionListener | None = None,
    ) -> None:
        """Send a message: see `shoal.jms.MessageProducer.send`. Sends of one session stay in order.

        A completion listener is called in the event loop; its methods may be coroutine functions. A task
        that is cancelled while it waits for a store does not know whether it has the message.
        """
        if others:
            refuse_positions()
        check_listener(completion_listener)
        where = self._where(message, destination)
        if where._has_owner and not where.is_queue:
            check = self._session._connection._node.check_alive
            await self._delivering.worker.run(functools.partial(check, where))
        mode = self._delivery_mode if delivery_mode is None else checked_delivery_mode(delivery_mode)
        send = functools.partial(
            self._sender.send,
            message,
            where,
            mode,
            self._priority if priority is None else checked_priority(priority),
            self._time_to_live_s if time_to_live_s is None else checked_ttl(time_to_live_s),
            self._delivery_delay_s,
            self._disable_message_timestamp,
        )
        doorbell, worker = self._delivering.doorbell, self._delivering.worker
        doorbell.check_loop()
        needs_store = isinstance(where, Queue) or mode is DeliveryMode.PERSISTENT
        waits = needs_store or completion_listener is not None or self._sender.completions.has_unsent
        if not waits and not worker.is_busy:
            await doorbell.take_turn()
            if self._sent_at_once(send):
                return
        listener = None
        if completion_listener is not None:
            listener = _InLoop(completion_listener, doorbell.loop, self._sender.completions)
        await worker.run(functools.partial(send, listener))

    def _check_alive(self, topic: Destination) -> None:
        """Nothing here: `send` has a thread look."""

    def _sent_at_once(self, send: Callable[..., None]) -> bool:
        """Send unless members take nothing more at the moment."""
        try:
            send(None, timeout_s=0.0)
        except ResourceAllocationError as error:
            refusal = error.__cause__
            if not isinstance(refusal, FullError) or self._session._connection._node.fails_when_full:
                raise
            # What the listener itself should take cannot become less while it waits.
            if refusal.in_callback and self._delivering.is_here:
                raise
            return False
        return True

    async def close(self) -> None:
        """End it, once every send that is under way is completed. Closing again does nothing."""
        self._check_closeable()
        if not self._closed:
            await in_own_thread(self._sender.completions.wait_done)
            self._closed = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class JMSProducer(ContextProducerBase):
    """Sends messages and bodies: `await producer.set_priority(7).send(topic, "text")`."""

    __slots__ = ("_producer",)

    def __init__(self, producer: MessageProducer) -> None:
        super().__init__(producer)
        self._producer = producer

    async def send(self, destination: Destination, body: Any = None) -> Self:
        """Send a message, or a body in a message of the kind that fits it."""
        message = self._filled(body)
        await self._producer.send(message, destination=destination, completion_listener=self._async)
        return self


class _InLoop:
    """Calls a completion listener in its event loop; the thread that completes sends waits for it."""

    def __init__(
        self, listener: CompletionListener, loop: asyncio.AbstractEventLoop, completions: Completions
    ) -> None:
        self._listener, self._loop, self._completions = listener, loop, completions

    def on_completion(self, message: Message) -> None:
        """The message was sent."""
        self._call(self._listener.on_completion, message)

    def on_exception(self, message: Message, error: Exception) -> None:
        """The message could not be sent, or that is not known."""
        self._call(self._listener.on_exception, message, error)

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        asyncio.run_coroutine_threadsafe(self._called(function, *arguments), self._loop).result()

    async def _called(self, function: Callable[..., object], *arguments: object) -> None:
        turn = Turn(self._completions)
        calling.set(turn)
        try:
            result = function(*arguments)
            if inspect.isawaitable(result):
                await result
        finally:
            turn.completions = None
