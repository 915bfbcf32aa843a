"""Queues and transactions for programs with an event loop: as `queues` and `transactions`, awaited."""

from collections.abc import AsyncIterator, Coroutine, Hashable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from shoal._core import Message
from shoal.bus.aio_consumer import Consumer
from shoal.bus.arguments import check_flag, check_seconds, selector_of
from shoal.bus.options import Ack, QueueOptions
from shoal.bus.persistent import deadline_of, left
from shoal.bus.queues import QueueBase, browsed, declaration
from shoal.bus.readers import task_here
from shoal.bus.receipt import Receipt
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_session import Body
from shoal.bus.store_waits import ask_in_loop
from shoal.bus.transactions import TransactionBase
from shoal.errors import NoStoreError, StoreUnavailableError
from shoal.selector import Selector

if TYPE_CHECKING:
    from shoal.bus.aio import Bus


class Queue(QueueBase):
    """A queue: send into it, receive from it. For the tasks of one event loop. As `shoal.Queue`."""

    def __init__(self, bus: "Bus", name: str, options: Body) -> None:
        super().__init__(name, options)
        self._bus = bus
        #: What the store was not told yet.
        self._untold = options

    async def send(
        self,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = True,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        group: str | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
    ) -> Receipt:
        """Send a message, and wait until it is kept. As `shoal.Queue.send`.

        A caller that is cancelled while it waits does not know whether it was kept.
        """
        check_flag("persistent", persistent)
        await self._tell(timeout_s)
        return await self._bus._publish_persistent(
            self._topic,
            body,
            what=f"sending into the queue {str(self._name)!r}",
            properties=properties,
            priority=priority,
            ttl_s=ttl_s,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            persistent=persistent,
            delivery_delay_s=delivery_delay_s,
            timestamp=timestamp,
            group=group,
            connection=connection,
            window=window,
            timeout_s=timeout_s,
        )

    async def consume(
        self,
        *,
        selector: str | Selector | None = None,
        prefetch: int | None = None,
        ack: Ack = "auto",
        timeout_s: float | None = None,
    ) -> Consumer:
        """Begin to receive, beside others. As `shoal.Queue.consume`."""
        begin = self._consuming(selector)
        deadline = deadline_of(timeout_s)
        await self._tell(timeout_s)
        channel = await self._bus._ready_channel(
            f"the queue {str(self._name)!r}", left(deadline), memory=True, destination=self._topic
        )
        consumer = Consumer(self._bus, channel, f"queue {str(self._name)!r}", ack=ack, prefetch=prefetch)
        return await consumer._open(begin, left(deadline))

    async def _consumer(self, timeout_s: float | None = None) -> Consumer:
        own = self._bus._receivers.get(self._name)
        if own is None or own.closed:
            opened = await self.consume(timeout_s=timeout_s)
            own = self._bus._receivers.get(self._name)
            if own is None or own.closed:
                own = self._bus._receivers[self._name] = opened
            else:
                # Another task was faster.
                await opened.close()
        return own

    @overload
    def receive(self, timeout_s: None = None) -> Coroutine[Any, Any, Message]: ...

    @overload
    def receive(self, timeout_s: float | None) -> Coroutine[Any, Any, Message | None]: ...

    def receive(self, timeout_s: float | None = None) -> Coroutine[Any, Any, Message | None]:
        """The next message, or `None` if none came in time; the task that calls has finished the last one."""
        check_seconds("timeout_s", timeout_s, none="no end")
        own = self._bus._receivers.get(self._name)
        reader = task_here() if own is None or own.closed else own._asking()
        return self._receive(reader, timeout_s)

    async def _receive(self, reader: Hashable, timeout_s: float | None) -> Message | None:
        deadline = deadline_of(timeout_s)
        try:
            consumer = await self._consumer(timeout_s)
        except NoStoreError:
            raise
        except StoreUnavailableError:
            if timeout_s is None:
                raise
            return None
        return await consumer._receive(reader, left(deadline))

    async def __aiter__(self) -> AsyncIterator[Message]:
        async for message in await self._consumer():
            yield message

    async def browse(
        self, *, selector: str | Selector | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[Message]:
        """The messages that wait in the queue, in order, without taking them."""
        body = self._browsing(selector, None)
        start: int | None = None
        while True:
            asked = body if start is None else body | {"start": start}
            messages, start = browsed(await self._ask(asked, timeout_s))
            for message in messages:
                yield message
            if start is None:
                return

    async def declare(self, *, timeout_s: float | None = None, **options: Unpack[QueueOptions]) -> None:
        """Change what the queue was told: see `shoal.Bus.queue`."""
        await self._ask(self._say("declare", **declaration(**options)), timeout_s)

    async def purge(self, *, selector: str | Selector | None = None, timeout_s: float | None = None) -> int:
        """Drop what waits in the queue: how many messages that were."""
        wanted = selector_of(selector)
        body = self._say("purge", selector=None if wanted is None else str(wanted))
        total = 0
        while count := int((await self._ask(body, timeout_s))["messages"]):
            total += count
        return total

    async def delete(self, *, if_empty: bool = False, timeout_s: float | None = None) -> int:
        """Forget the queue and what is in it: how many messages that were."""
        check_flag("if_empty", if_empty)
        return int((await self._ask(self._say("delete", if_empty=if_empty), timeout_s))["messages"])

    async def _tell(self, timeout_s: float | None) -> None:
        """Tell the store the options that it was given, once."""
        if self._untold:
            await self.declare(timeout_s=timeout_s, **self._untold)
            self._untold = {}

    async def _ask(self, body: Body, timeout_s: float | None) -> Body:
        return await self._bus._ask_store(
            body, f"the queue {str(self._name)!r}", timeout_s, memory=True, destination=self._topic
        )

    async def close(self) -> None:
        """End the bus's consumer, if it has one; the last message it gave is acknowledged."""
        await self._end(True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end(kind is None)

    async def _end(self, succeeded: bool) -> None:
        own = self._bus._receivers.pop(self._name, None)
        if own is not None:
            await own._end(succeeded)

    def __repr__(self) -> str:
        return f"<shoal.aio.Queue {str(self._name)!r}>"


class Transaction(TransactionBase):
    """Sends and acknowledgements that are done together, or not at all: as `shoal.Transaction`."""

    def __init__(self, bus: "Bus", channel: StoreChannel, id: str | None) -> None:
        super().__init__(bus._connection, channel, id)
        self._bus = bus

    @overload
    async def receive(self, queue: str, timeout_s: None = None) -> Message: ...

    @overload
    async def receive(self, queue: str, timeout_s: float | None) -> Message | None: ...

    async def receive(self, queue: str, timeout_s: float | None = None) -> Message | None:
        """Receive a message from a queue; the commit acknowledges it. As `shoal.Transaction.receive`."""
        self._check_open()
        message = await self._bus.queue(queue).receive(timeout_s)
        if message is not None:
            self.ack(message)
        return message

    async def commit(self, *, timeout_s: float | None = None) -> None:
        """Do everything, and wait until it is durable."""
        await ask_in_loop(self._commit, timeout_s, f"the commit {self.id}", why=self._channel.trouble)

    def rollback(self) -> None:
        """Do nothing of it; what it would have acknowledged is delivered again, marked as redelivered."""
        self._roll_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.state != "open":
            return
        if kind is None:
            await self.commit()
        else:
            self.rollback()

    def __repr__(self) -> str:
        return f"<shoal.aio.Transaction {self.id} {self.state}>"
