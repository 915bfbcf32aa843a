"""The node that the connections of a process share: one for each URL and set of options."""

import itertools
import logging
import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from shoal.bus import inside
from shoal.bus.client_ids import bus_topic, has_others, jms_topic
from shoal.bus.events import Event, LinkFailed, MessagesLost, StoreDown, Unreadable
from shoal.bus.store_protocol import TEMPORARY
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus, connect
from shoal.config import resolve, split_client, split_roles
from shoal.errors import (
    FlushError,
    InvalidClientIDError,
    InvalidDestinationError,
    JMSError,
    ResourceAllocationError,
)
from shoal.jms.destination import Destination
from shoal.jms.failures import translating
from shoal.link.events import LinkDown, LinkRefused
from shoal.messages import jms as notices
from shoal.types import is_text

log = logging.getLogger("shoal.jms")

#: How long a client id is looked for among the other nodes of a network before it counts as free.
CLIENT_ID_WAIT_S = 0.25
CLIENT_ID_CHARACTERS_MAX = 255
#: How long a connection waits before it claims a client id once more, from and to: the lower node, and the
#: higher one.
CLAIM_AGAIN_S = (((0.0, 0.05), (0.4, 0.6)),)
#: How long a sender waits to hear of a temporary topic before it counts as gone.
TEMPORARY_KNOWN_S = 0.5
#: How long a new consumer waits until other nodes know of it.
KNOWN_S = 5.0

_lock = threading.RLock()
_by_options: dict[Any, "SharedNode"] = {}
#: A lock for each node that is being opened, which may take long: the others are not held up.
_opening: "weakref.WeakValueDictionary[Any, threading.Lock]" = weakref.WeakValueDictionary()
_by_bus: "weakref.WeakKeyDictionary[Bus, SharedNode]" = weakref.WeakKeyDictionary()

#: What a connection with an exception listener is told.
_PROBLEMS = (LinkFailed, LinkRefused, LinkDown, MessagesLost, StoreDown, Unreadable)


class SharedNode:
    """A bus, and what its JMS connections have in common. May be shared between threads."""

    def __init__(self, bus: Bus, close: Callable[[], None] | None) -> None:
        self.bus = bus
        self.publisher = bus.publisher
        self._close = close
        self._numbers = itertools.count(1)
        self._users = 0
        #: What claims the client ids of its connections; `None` while it is looked whether they are free.
        self._client_ids: dict[str, Subscription | None] = {}
        #: Temporary topics of its connections, and what shows others that they live.
        self._topics: dict[str, Subscription] = {}
        self._told: dict[int, Callable[[JMSError], None]] = {}
        self._watch: threading.Thread | None = None

    @property
    def fails_when_full(self) -> bool:
        """Whether a publisher is refused, and does not wait, while members take nothing more."""
        return self.bus.config.when_full == "error"

    def check_reliable(self, what: str) -> None:
        """Refuse what best effort cannot promise.

        Raises:
            ResourceAllocationError: this is a node of `udp://`.
        """
        if self.bus.config.scheme == "udp":
            raise ResourceAllocationError(
                f"{what} cannot be had over udp://, which may lose, repeat and reorder messages: use norm:// "
                "or tcp://"
            )

    def wait_known(self) -> None:
        """Wait until others know what was subscribed to: members, routers, and whoever is beyond them.

        So a consumer gets what is sent after it was made. Nodes that were silent are asked once more: those
        that went meanwhile need not know. One that does not answer in time is named in the log, and may leave
        out a message.
        """
        deadline = time.monotonic() + KNOWN_S
        before: tuple[int, ...] = ()
        while True:
            try:
                self.bus.sync(max(deadline - time.monotonic(), 0.0))
                return
            except FlushError as error:
                if error.silent and error.silent != before and time.monotonic() < deadline:
                    before = error.silent
                    continue
                notices.MAY_MISS(why=error).log(log)
                return

    # Temporary topics, section 6.2.2: whoever has one subscribes to it, until it ends.

    def own_topic(self, name: str) -> None:
        """A connection of this node has a temporary topic."""
        claim = self.bus.subscribe(name, queue_bytes_max=1, queue_full="drop_new")
        with _lock:
            self._topics[name] = claim

    def end_topic(self, name: str) -> None:
        """It is deleted, or its connection closes."""
        with _lock:
            claim = self._topics.pop(name, None)
        if claim is not None:
            claim.close()

    def check_alive(self, topic: Destination) -> None:
        """Refuse to send to a temporary topic that ended.

        Raises:
            InvalidDestinationError: its connection was closed, or deleted it.
        """
        name = topic.bus_name
        is_own = name.startswith(f"{TEMPORARY}{self.publisher:016x}/")
        if name in self._topics or (not is_own and self.bus.wait_for_subscribers(name, 1, TEMPORARY_KNOWN_S)):
            return
        raise InvalidDestinationError(f"{topic} is gone: its connection deleted it, or was closed")

    def vouch(self, topic: Destination) -> None:
        """Have the store take persistent messages for a temporary topic that lives."""
        channel = self.bus._connection.ready_channel("a persistent message", None, memory=False)
        channel.say({"op": "temporary", "topic": topic.bus_name})

    def join(self) -> int:
        """One more connection uses it: the connection's number, from 1. The bus itself publishes as 0."""
        with _lock:
            self._users += 1
            return next(self._numbers)

    def leave(self, client_id: str | None, number: int) -> None:
        """A connection uses it no more. With the last of them a bus that was opened here is closed."""
        with _lock:
            self._users -= 1
            self._told.pop(number, None)
            claim = self._client_ids.pop(client_id, None) if client_id is not None else None
            is_last = self._users == 0
            if is_last and self._close is not None:
                for key in [key for key, node in _by_options.items() if node is self]:
                    del _by_options[key]
        if claim is not None:
            claim.close()
            if not self.bus.closed:
                # Whoever wants the id next finds it free.
                self.wait_known()
        if is_last and self._close is not None:
            self._close()

    def claim(self, client_id: str) -> None:
        """Take a client id for one connection of this domain.

        Raises:
            InvalidClientIDError: another connection has it.
        """
        is_name = isinstance(client_id, str) and 1 <= len(client_id) <= CLIENT_ID_CHARACTERS_MAX
        if not is_name or not is_text(client_id):
            raise InvalidClientIDError(
                f"client_id is {client_id!r}, and must be a str of 1 to {CLIENT_ID_CHARACTERS_MAX} characters"
            )
        with _lock:
            if client_id in self._client_ids:
                raise _taken(client_id)
            self._client_ids[client_id] = None
        try:
            for waits_s in CLAIM_AGAIN_S:
                others = self._claimed_by(client_id)
                if others is None:
                    return
                # A connection that claims it at the same time withdraws as well. The lower node comes
                # back first, and the other finds the id taken then.
                is_lower = inside.node_of(self.bus).node < min(others, default=0)
                time.sleep(random.uniform(*waits_s[not is_lower]))
            if self._claimed_by(client_id) is not None:
                raise _taken(client_id)
        except BaseException:
            with _lock:
                self._client_ids.pop(client_id, None)
            raise

    def _claimed_by(self, client_id: str) -> set[int] | None:
        """Take a client id: the nodes that have it too, or `None` if it is ours."""
        topic, node = jms_topic(client_id), inside.node_of(self.bus)
        claim = self.bus.subscribe(topic, queue_bytes_max=1, queue_full="drop_new")
        try:
            # Whoever subscribes to the same topic has the same id.
            wait_s = CLIENT_ID_WAIT_S if self.bus.config.scheme != "inproc" else 0.0
            is_taken = self.bus.wait_for_subscribers(topic, 2, wait_s)
            if not is_taken and not has_others(node, bus_topic(client_id)):
                with _lock:
                    self._client_ids[client_id] = claim
                return None
            others = set(node.subscribers(topic)) - {node.node}
        except BaseException:
            claim.close()
            raise
        claim.close()
        self.wait_known()
        return others

    def tell_problems(self, number: int, told: Callable[[JMSError], None] | None) -> None:
        """Have a connection told of problems that nobody else is told of; `None` ends that."""
        with _lock:
            if told is None:
                self._told.pop(number, None)
                return
            self._told[number] = told
            if self._watch is None:
                self._watch = threading.Thread(
                    target=_watch, args=(self.bus, self._told), name="shoal-jms-problems", daemon=True
                )
                self._watch.start()


def _watch(bus: Bus, told: dict[int, Callable[[JMSError], None]]) -> None:
    for event in bus.events():
        if not isinstance(event, _PROBLEMS):
            continue
        with _lock:
            listeners = list(told.values())
        for tell in listeners:
            tell(_problem(event))


def _problem(event: Event) -> JMSError:
    error = JMSError(str(event))
    error.error_code = type(event).__name__
    return error


def _taken(client_id: str) -> InvalidClientIDError:
    return InvalidClientIDError(f"the client id {client_id!r} is in use by another connection")


def shared_node(url: str | None, options: dict[str, Any]) -> SharedNode:
    """The node of this process for a URL and options; it is opened if there is none yet."""
    rest, client = split_client(options)
    connection, role = split_roles(rest)
    key = (os.getpid(), resolve(url, connection), client, repr(sorted(role.items())))
    with _lock:
        opening = _opening.setdefault(key, threading.Lock())
    with opening:
        with _lock:
            node = _by_options.get(key)
        if node is None or node.bus.closed:
            with translating():
                bus = connect(url, **options)
            node = SharedNode(bus, lambda: _closed(bus))
            with _lock:
                _by_options[key] = node
        return node


def node_of(bus: Bus) -> SharedNode:
    """The node of a bus that the program opened, and closes."""
    with _lock:
        node = _by_bus.get(bus)
        if node is None:
            node = _by_bus[bus] = SharedNode(bus, None)
        return node


def _closed(bus: Bus) -> None:
    bus.close()
