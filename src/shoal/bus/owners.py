"""Which store a connection speaks with about a destination: a channel for each store that keeps some.

The first channel finds the store of the first destination. A destination which that store does not
keep gets a channel of its own, and shares it with what else its store keeps. With a store that was named
there is one channel. So there is beside an outbox: its messages go in one order, and its channel changes
stores.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.bus.store_channel import StoreChannel

#: Stores that one connection speaks with at once.
CHANNELS_MAX = 64
#: How often a channel is chosen anew because its store turned out not to keep the destination.
CHOICES_MAX = 3


class Owners:
    """The channels of one connection. May be shared between threads.

    Args:
        channels: where they are kept, in a list that others can watch.
        make: makes the channel with this number.
        is_single: there is one at the most.
    """

    def __init__(
        self, channels: "list[StoreChannel]", make: "Callable[[int], StoreChannel]", *, is_single: bool
    ) -> None:
        self._channels, self._make, self._is_single = channels, make, is_single
        self._lock = threading.Lock()

    def main(self) -> "StoreChannel":
        """The first channel."""
        with self._lock:
            return self._main()

    def _main(self) -> "StoreChannel":
        if not self._channels:
            self._channels.append(self._make(0))
        return self._channels[0]

    def of(self, destination: str) -> "StoreChannel":
        """The channel for a destination. Before the first store answered, that is the first one."""
        main = self._channels[0] if self._channels else self.main()
        if self._is_single or not main.has_store:
            main.want(destination)
            return main
        if main.keeps(destination):
            return main
        with self._lock:
            return self._other(destination)

    def _other(self, destination: str) -> "StoreChannel":
        others = self._channels[1:]
        for channel in others:
            if channel.keeps(destination) if channel.has_store else channel.looks_for == destination:
                return channel
        for channel in others:
            if not channel.has_store and not channel.is_waited_for:
                # It found nothing that keeps what it looked for.
                channel.want(destination, instead=True)
                return channel
        if len(self._channels) >= CHANNELS_MAX:
            return self._channels[0]
        made = self._make(len(self._channels))
        made.want(destination)
        self._channels.append(made)
        return made

    def open_others(self) -> "list[StoreChannel]":
        """Channels to all other stores that were heard of: they are made if they are not there."""
        if self._is_single:
            return []
        main = self.main()
        for patterns in main.heard_patterns():
            if patterns and not any(channel.keeps(patterns[0]) for channel in self._channels):
                self.of(patterns[0])
        return self._channels[1:]

    def unheard_s(self) -> float:
        """The time left in which another store may still be heard of for the first time."""
        return 0.0 if self._is_single else self.main().unheard_s

    def untried(self, tried: "list[StoreChannel]") -> "StoreChannel | None":
        """A channel to a store that was heard of and not tried."""
        return next((channel for channel in self.open_others() if channel not in tried), None)

    def having(self, consumer: int) -> "StoreChannel":
        """The channel that has a consumer; the first one if none has it."""
        found = (channel for channel in self._channels if channel.inbox_of(consumer) is not None)
        return next(found, self.main())
