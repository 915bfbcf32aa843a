"""Shoal for asyncio: `async with shoal.aio.connect() as bus: …`."""

from shoal.bus.aio import Bus, connect, listen
from shoal.bus.aio_consumer import Consumer, StoredSubscription
from shoal.bus.aio_queues import Queue, Transaction
from shoal.bus.aio_subscription import Subscription

__all__ = [
    "Bus",
    "Consumer",
    "Queue",
    "StoredSubscription",
    "Subscription",
    "Transaction",
    "connect",
    "listen",
]
