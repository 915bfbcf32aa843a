"""What a store hears on the bus for its subscriptions: messages that are not persistent.

Persistent ones come to the store by themselves, so that somebody knows they are kept. The others it hears as
any subscriber does, through the filters of its subscriptions, and keeps what it hears.
"""

import contextlib
import functools
from collections.abc import Iterator

from shoal import _core
from shoal._core import heard_rows
from shoal.bus.inside import core_of
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus
from shoal.errors import InvalidSelectorError
from shoal.store.readers import Wanted

#: What may wait to be heard, per filter.
QUEUE_BYTES_MAX = 1 << 20
#: Sources of the bell from here on are filters.
FIRST_SOURCE = 1000

_LIGHT = "JMSDeliveryMode = 'NON_PERSISTENT'"


class Listening:
    """The store's own subscriptions, one for each filter. For one thread at a time."""

    def __init__(self, bus: Bus, bell: _core.Bell) -> None:
        self._bus, self._bell = bus, bell
        self._sources: dict[Wanted, int] = {}
        self._subscriptions: dict[int, Subscription] = {}
        self._next = FIRST_SOURCE
        #: Sources that rang and were not looked at.
        self._due: dict[int, None] = {}

    def follow(self, wanted: set[Wanted]) -> bool:
        """Hear what these want, and nothing else; what was heard before is still taken.

        Returns whether one of these is new.
        """
        new = wanted - self._sources.keys()
        for each in new:
            self._next += 1
            subscription = self._subscribe(each)
            core_of(subscription).attach_bell(self._bell, self._next)
            self._sources[each], self._subscriptions[self._next] = self._next, subscription
        for each in self._sources.keys() - wanted:
            source = self._sources.pop(each)
            gone = self._subscriptions.get(source)
            if gone is not None:
                gone.close()
                self._due[source] = None
        return bool(new)

    def _subscribe(self, wanted: Wanted) -> Subscription:
        pattern, selector = wanted
        # What the store itself publishes is in the log already.
        subscribe = functools.partial(
            self._bus.subscribe, pattern, no_local=True, queue_bytes_max=QUEUE_BYTES_MAX
        )
        if selector:
            # One that is too long with the rest is asked by the subscription itself, as ever.
            with contextlib.suppress(InvalidSelectorError):
                return subscribe(selector=f"({selector}) AND {_LIGHT}")
        return subscribe(selector=_LIGHT)

    def rang(self, sources: list[int]) -> None:
        """Sources of the bell rang, of which some are filters."""
        self._due |= dict.fromkeys(source for source in sources if source > FIRST_SOURCE)

    @property
    def has_more(self) -> bool:
        """Whether something was heard and not taken."""
        return bool(self._due)

    def take(self, bytes_max: int) -> Iterator[bytes]:
        """Rows that were heard, until there are so many bytes, or a filter's queue more."""
        size = 0
        while self._due and size < bytes_max:
            source = next(iter(self._due))
            del self._due[source]
            subscription = self._subscriptions.get(source)
            if subscription is None:
                continue
            rows = heard_rows(core_of(subscription))
            if rows is not None:
                # More may wait, and the bell rings again only when nothing was left.
                self._due[source] = None
                size += len(rows)
                yield rows
            elif subscription.closed:
                del self._subscriptions[source]
