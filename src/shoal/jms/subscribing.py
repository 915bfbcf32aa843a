"""How a session's consumers subscribe: to topics of the bus, or to what a store serves."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from shoal._core import Message as BusMessage
from shoal.bus.consumer import Consumer
from shoal.bus.store_waits import Waits
from shoal.errors import IllegalStateError, InvalidDestinationError, ShoalError
from shoal.jms.correlating import selector_of
from shoal.jms.destination import Destination, Queue, Topic
from shoal.jms.failures import translating
from shoal.jms.feeds import Feed, StoreFeed, TopicFeed
from shoal.jms.property_names import CLIENT, client_hash
from shoal.selector import CorrelationFilter
from shoal.types import is_text

if TYPE_CHECKING:
    from shoal.jms.connection import Connection

NAME_CHARACTERS_MAX = 128


class Subscribing:
    """What makes the feeds of a session's consumers."""

    def __init__(self, connection: "Connection", waits: Waits) -> None:
        self._connection = connection
        #: What its thread waits for at a store, which closing the session ends.
        self._waits = waits
        self._bus: Any = connection._node.bus

    def _local(self, no_local: bool) -> tuple[int, int] | None:
        return (self._connection._node.publisher, self._connection._number) if no_local else None

    def plain(
        self,
        destination: Destination,
        selector: str | None,
        no_local: bool,
        correlation: str | CorrelationFilter | None,
    ) -> Feed:
        """A consumer without a name."""
        if destination._has_owner:
            self._connection._check_own(destination)
        options = self._connection._options
        with translating():
            if isinstance(destination, Topic):
                subscription = self._bus.subscribe(
                    destination.bus_name,
                    selector=selector,
                    correlation=correlation,
                    queue_bytes_max=options.queue_bytes_max,
                )
                feed = TopicFeed(subscription, self._local(no_local))
                try:
                    self._connection._node.wait_known()
                except BaseException:
                    feed.close()
                    raise
                return feed
            if no_local:
                raise InvalidDestinationError(
                    f"{destination}: no_local is for topics, because a queue keeps what is not taken"
                )
            selector = selector_of(selector, correlation)
            self._connection._check_reliable("queues")
            queue = self._bus.queue(destination.bus_name)
            with self._waits.here():
                return StoreFeed(queue.consume(selector=selector, prefetch=options.prefetch, ack="manual"))

    def durable(self, topic: Topic, name: str, selector: str | None, no_local: bool) -> Feed:
        """The consumer of an unshared durable subscription.

        The store knows it as a shared one of its client id that one consumer uses. Only one connection has
        the client id, and it refuses a second consumer.
        """
        connection = self._connection
        full = self._full_name(name)
        if connection._client_id is None:
            raise IllegalStateError(
                "a durable consumer needs a client id: set connection.client_id first, or the factory's"
            )
        if no_local:
            # Whatever a connection of this client id sent, in this run of the program or an earlier one.
            theirs = f"({CLIENT} IS NULL OR {CLIENT} <> '{client_hash(connection._client_id)}')"
            selector = f"({selector}) AND {theirs}" if selector else theirs
        with connection._gate.lock:
            connection._check_durable(name)
            # The name is taken while the store is asked, which may be away: nothing else waits for it.
            connection._durable[name] = None
        feed: Feed | None = None
        try:
            feed = StoreFeed(self._named(topic, selector, durable=True, shared=full, single=True))
            return feed
        finally:
            with connection._gate.lock:
                if feed is None:
                    del connection._durable[name]
                else:
                    connection._durable[name] = feed

    def shared(self, topic: Topic, name: str, selector: str | None, *, durable: bool) -> Feed:
        """One of the consumers of a shared subscription."""
        full = self._full_name(name)
        if durable:
            self._connection._check_durable(name)
            return StoreFeed(self._named(topic, selector, durable=True, shared=full, single=False))
        return StoreFeed(self._named(topic, selector, shared=full))

    def _named(self, topic: Topic, selector: str | None, **given: str | bool) -> Consumer:
        self._connection._check_reliable("durable and shared subscriptions")
        options = self._connection._options
        with translating(), self._naming(str(given["shared"])), self._waits.here():
            consumer: Consumer = self._bus.subscribe(
                topic.bus_name, selector=selector, prefetch=options.prefetch, ack="manual", **given
            )
        return consumer

    def unsubscribe(self, name: str) -> None:
        """Forget a durable subscription."""
        full = self._full_name(name)
        self._connection._check_durable(name)
        with translating(), self._naming(full), self._waits.here():
            self._bus.unsubscribe(full, shared=True)

    def _full_name(self, name: object) -> str:
        if not isinstance(name, str) or not 1 <= len(name) <= NAME_CHARACTERS_MAX or not is_text(name):
            raise IllegalStateError(
                f"the name of a subscription is {name!r}, and must be a str of 1 to {NAME_CHARACTERS_MAX} "
                "characters"
            )
        client_id = self._connection._client_id
        # A hash, because a name has its bound, and both together might exceed it.
        return f"{client_hash(client_id)}/{name}"

    @contextlib.contextmanager
    def _naming(self, full: str) -> Iterator[None]:
        """Have errors speak of a subscription as the program does."""
        try:
            yield
        except ShoalError as error:
            client_id = self._connection._client_id
            whose = "" if client_id is None else f" of the client id {client_id!r}"
            name = full.partition("/")[2]
            text = str(error)
            for theirs in (f"durable shared subscription {full!r}", f"durable subscription {full!r} of None"):
                text = text.replace(theirs, f"durable subscription {name!r}{whose}")
            error.args = (text.replace(repr(full), repr(name)), *error.args[1:])
            raise

    def browse(self, queue: Queue, selector: str | None) -> Iterator[BusMessage]:
        """The messages of a queue as they are now."""
        self._connection._check_reliable("queues")
        with translating(), self._waits.here():
            messages: Iterator[BusMessage] = self._bus.queue(queue.bus_name).browse(selector=selector)
        return self._browsed(messages)

    def _browsed(self, messages: Iterator[BusMessage]) -> Iterator[BusMessage]:
        while True:
            # The program's own calls between two messages are none of these waits.
            with translating(), self._waits.here():
                message = next(messages, None)
            if message is None:
                return
            yield message
