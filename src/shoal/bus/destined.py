"""Connections whose destinations have options of their own. Others are not a step slower for it."""

from typing import Any

from shoal.bus import aio, sync
from shoal.config import ConnectionConfig
from shoal.config.destinations import Destinations


class Bus(sync.Bus):
    """A connection that gives messages and subscriptions the options of their destinations."""

    def __init__(self, config: ConnectionConfig, destinations: Destinations) -> None:
        self._destinations = destinations
        super().__init__(destinations.placed(config))

    def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        """As `shoal.Bus.publish`; what is not given comes from the destination."""
        return super().publish(topic, *arguments, **{**self._destinations.publishing(topic), **options})

    def subscribe(self, pattern: str, *arguments: Any, **options: Any) -> Any:
        """As `shoal.Bus.subscribe`; what is not given comes from the destination."""
        return super().subscribe(pattern, *arguments, **subscribing(self._destinations, pattern, options))


class AioBus(aio.Bus):
    """The same for asyncio."""

    def __init__(self, config: ConnectionConfig, destinations: Destinations) -> None:
        self._destinations = destinations
        super().__init__(destinations.placed(config))

    def publish(self, topic: str, *arguments: Any, **options: Any) -> Any:
        """As `shoal.aio.Bus.publish`; what is not given comes from the destination."""
        return super().publish(topic, *arguments, **{**self._destinations.publishing(topic), **options})

    def subscribe(self, pattern: str, *arguments: Any, **options: Any) -> Any:
        """As `shoal.aio.Bus.subscribe`; what is not given comes from the destination."""
        return super().subscribe(pattern, *arguments, **subscribing(self._destinations, pattern, options))


def subscribing(destinations: Destinations, pattern: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a subscription; one that a store keeps has no queue of its own."""
    if options.get("durable") or options.get("shared"):
        return options
    return {**destinations.subscribing(pattern), **options}
