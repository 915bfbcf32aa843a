"""Shoal for asyncio: `async with shoal.aio.connect() as bus: …`."""

from shoal.bus.aio import Bus, connect, listen
from shoal.bus.aio_subscription import Subscription

__all__ = ["Bus", "Subscription", "connect", "listen"]
