"""The node that the connections of a process share: one for each URL and set of options."""

import contextlib
import itertools
import logging
import os
import secrets
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
from shoal.system import after_fork
from shoal.types import is_text

log = logging.getLogger("shoal.jms")

#: How long a client id is looked for among the other nodes of a network before it counts as free.
CLIENT_ID_WAIT_S = 0.25
CLIENT_ID_CHARACTERS_MAX = 255
#: How often a node that claims one looks whether it is alone.
CLIENT_ID_TURN_S = 0.02
#: What is kept of tickets.
TICKETS_BYTES = 1 << 16
#: How long a node that claims a client id waits for tickets of others that claim it too, and then for those
#: others to leave it.
TICKETS_S, LEAVE_S = 0.5, 2.0
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

    def __init__(self, bus: Bus, opening: "threading.Lock | None" = None) -> None:
        """`opening` is held while a node of its options is opened or closed; a program's own bus has none."""
        self.bus = bus
        self.publisher = bus.publisher
        self._opening = opening
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

    def join(self) -> int:
        """One more connection uses it: the connection's number, from 1. The bus itself publishes as 0."""
        with _lock:
            self._users += 1
            return next(self._numbers)

    def leave(self, client_id: str | None, number: int) -> None:
        """A connection uses it no more. With the last of them a bus that was opened here is closed."""
        with _lock:
            self._told.pop(number, None)
            claim = self._client_ids.pop(client_id, None) if client_id is not None else None
        if claim is not None:
            claim.close()
            if not self.bus.closed:
                # Whoever wants the id next finds it free.
                self.wait_known()
        # No connection joins a node that closes, and the next node opens when this one has closed.
        with self._opening or contextlib.nullcontext():
            with _lock:
                self._users -= 1
                is_last = self._users == 0 and self._opening is not None
                if is_last:
                    for key in [key for key, node in _by_options.items() if node is self]:
                        del _by_options[key]
            if is_last:
                self.bus.close()

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
        claim: Subscription | None = None
        try:
            claim = self.bus.subscribe(
                jms_topic(client_id), no_local=True, queue_bytes_max=TICKETS_BYTES, queue_full="drop_old"
            )
            if not self._is_won(client_id, claim):
                raise _taken(client_id)
        except BaseException:
            with _lock:
                self._client_ids.pop(client_id, None)
            if claim is not None:
                claim.close()
                self.wait_known()
            raise
        with _lock:
            self._client_ids[client_id] = claim

    def _is_won(self, client_id: str, claim: Subscription) -> bool:
        """Whether a client id is ours, once we subscribe to its topic.

        A node that has the id, or claims it, subscribes to the topic; one that is alone there has the id.
        Nodes that claim it at the same time find each other, and publish tickets. The lowest ticket stays
        until the others have left; they leave. A node that has the id already publishes none, and stays.
        """
        topic, node = jms_topic(client_id), inside.node_of(self.bus)
        wait_s = CLIENT_ID_WAIT_S if self.bus.config.scheme != "inproc" else 0.0
        if self.bus.wait_for_subscribers(topic, 2, wait_s):
            ticket = secrets.token_hex(8)
            node.publish(topic, ticket)
            until = time.monotonic() + TICKETS_S
            while has_others(node, topic):
                if time.monotonic() >= until:
                    return False
                heard = claim.receive(CLIENT_ID_TURN_S)
                if heard is None or not isinstance(heard.body, str):
                    continue
                if heard.body < ticket:
                    return False
                # It may have subscribed after our ticket was published.
                node.publish(topic, ticket)
                until = time.monotonic() + LEAVE_S
        return not has_others(node, bus_topic(client_id))

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


def join_shared(url: str | None, options: dict[str, Any]) -> tuple[SharedNode, int]:
    """The node of this process for a URL and options, and the number of a new connection of it.

    The node is opened if there is none yet.
    """
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
            node = SharedNode(bus, opening)
            with _lock:
                _by_options[key] = node
        return node, node.join()


def node_of(bus: Bus) -> SharedNode:
    """The node of a bus that the program opened, and closes."""
    with _lock:
        node = _by_bus.get(bus)
        if node is None:
            node = _by_bus[bus] = SharedNode(bus)
        return node


def _forked() -> None:
    # A thread that the child does not have may have held it.
    global _lock
    _lock = threading.RLock()


after_fork(_forked)
