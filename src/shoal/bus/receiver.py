"""What a received message is acknowledged and answered through: `Message.ack`, `release` and `reply`.

A message keeps its receiver and not the connection, so that a message that a program keeps does not keep the
connection open.
"""

import weakref
from collections.abc import Awaitable, Generator, Mapping
from typing import Any, Protocol

from shoal._core import Message
from shoal.bus.connection import closed_error


class Answering(Protocol):
    """A connection that answers requests."""

    def reply(
        self, request: Message, body: Any, *, properties: Mapping[str, Any] | None, more: bool
    ) -> Awaitable[None] | None:
        """Answer a request."""


class Acknowledging(Protocol):
    """A consumer of a store."""

    def ack(self, message: Message, *, timeout_s: float | None) -> Awaitable[None] | None:
        """Acknowledge a message."""

    def release(self, message: Message, *, delay_s: float | None) -> None:
        """Give a message back."""


class _Done:
    """What can be awaited and is over."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class Receiver:
    """Through what messages were received: a connection, and the consumer of a store if there is one.

    Of a connection of threads the calls wait and return what is over; of one of asyncio they are awaited.
    """

    __slots__ = ("_bus", "_consumer")

    def __init__(self, bus: Answering, consumer: Acknowledging | None = None) -> None:
        self._bus = weakref.ref(bus)
        self._consumer = None if consumer is None else weakref.ref(consumer)

    def ack(self, message: Message, *, timeout_s: float | None = None) -> Awaitable[None]:
        """Acknowledge a message."""
        return self._acknowledging(message).ack(message, timeout_s=timeout_s) or _Done()

    def release(self, message: Message, *, delay_s: float | None = None) -> None:
        """Give a message back."""
        self._acknowledging(message).release(message, delay_s=delay_s)

    def _acknowledging(self, message: Message) -> Acknowledging:
        if self._consumer is None:
            raise ValueError(
                f"{message!r} needs no acknowledgement: no store keeps its subscription. Subscribe with "
                "durable=NAME, or receive from a queue"
            )
        consumer = self._consumer()
        if consumer is None:
            raise closed_error(f"what received {message!r} is closed: the message comes again")
        return consumer

    def reply(
        self,
        message: Message,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        more: bool = False,
    ) -> Awaitable[None]:
        """Answer a message."""
        bus = self._bus()
        if bus is None:
            raise closed_error()
        return bus.reply(message, body, properties=properties, more=more) or _Done()
