"""Shoal for asyncio: `async with shoal.aio.connect() as bus: …`."""

from shoal.bus.aio import Bus, Subscription, connect

__all__ = ["Bus", "Subscription", "connect"]
