"""Connections: a program's place in a domain, on the node that its process shares."""

import _thread
import contextlib
import logging
import sys
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

from shoal._core import __version__
from shoal.bus.forks import Birth
from shoal.bus.store_waits import Waits
from shoal.errors import (
    IllegalStateError,
    InvalidArgumentError,
    InvalidDestinationError,
    JMSError,
    ShoalError,
)
from shoal.jms.acknowledge_mode import AcknowledgeMode, checked_mode
from shoal.jms.destination import Destination, TemporaryQueue, TemporaryTopic
from shoal.jms.failures import check_here, closed_error, translating
from shoal.jms.feeds import Feed
from shoal.jms.gate import Gate
from shoal.jms.java_names import JavaNames
from shoal.jms.options import JMSOptions
from shoal.jms.property_names import CLIENT, JMSX, client_hash
from shoal.jms.session import Session
from shoal.jms.shared import SharedNode
from shoal.messages import bus as bus_notices
from shoal.messages import jms as notices
from shoal.messages import named
from shoal.system import after_fork

log = logging.getLogger("shoal.jms")

#: How long the end of a temporary queue waits for the store.
DROP_S = 2.0


_S = TypeVar("_S", bound=Session)

#: Connections of this process, which a forked child does not have.
_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()


class _OnException(Protocol):
    def on_exception(self, error: JMSError) -> object: ...


#: A function of one error, or an object with `on_exception`.
ExceptionListener = Callable[[JMSError], object] | _OnException


class ConnectionMetaData(JavaNames):
    """What provider this is, and which version of Jakarta Messaging it follows."""

    #: The version of the specification.
    jms_version = "3.1"
    #: Its parts.
    jms_major_version, jms_minor_version = 3, 1
    #: Who provides it.
    jms_provider_name = "Shoal"
    #: And in which version.
    provider_version = __version__
    #: Its parts; what is no number in it counts as 0.
    provider_major_version, provider_minor_version = (
        int(part) if part.isdigit() else 0 for part in (*__version__.split("."), "0")[:2]
    )
    #: The properties of the specification that messages here have.
    jmsx_property_names = JMSX


class Connection(JavaNames):
    """A program's connection. May be shared between threads.

    Made by `ConnectionFactory.create_connection`, and stopped at first: nothing is delivered before `start`.
    Connections of one process with the same URL and options share a node, and each has a number of its own.
    Leaving its `with` block closes it.
    """

    def __init__(self, node: SharedNode, number: int, options: JMSOptions, client_id: str | None) -> None:
        self._birth = Birth()
        self._node = node
        self._options = options
        self._gate = Gate()
        self._number = number
        self._client_id: str | None = None
        #: What every message of it says beside its own properties.
        self._marks: dict[str, str] = {}
        self._closed = False
        self._shut = False
        self._closing = threading.Lock()
        #: Something was done that setting a client id has to come before.
        self._used = False
        self._sessions: list[Session] = []
        self._listener: ExceptionListener | None = None
        self._telling = threading.Lock()
        self._temporary: dict[str, TemporaryTopic | TemporaryQueue] = {}
        #: Those have ended, with the connection.
        self._has_dropped = False
        #: The feeds of its unshared durable subscriptions by name, of which each has one consumer; none while
        #: it is being made.
        self._durable: dict[str, Feed | None] = {}
        #: The client id, where whoever cleans up finds it.
        self._claimed: list[str] = []
        self._finalizer = weakref.finalize(self, _abandon, node, self._number, self._claimed, repr(self))
        self._finalizer.atexit = False
        _open.add(self)
        if client_id is not None:
            try:
                self._claim(client_id)
            except BaseException:
                self.close()
                raise

    def _claim(self, client_id: str) -> None:
        self._node.claim(client_id)
        self._client_id = client_id
        self._marks[CLIENT] = client_hash(client_id)
        self._claimed.append(client_id)
        self._used = True

    def _check(self) -> None:
        check_here(self._birth)
        if self._closed or (self._shut and not self._is_in_listener()):
            raise closed_error("connection")

    def _is_in_listener(self) -> bool:
        return any(session._delivering.is_here for session in list(self._sessions))

    @property
    def client_id(self) -> str | None:
        """What names the program to a store. Set it before anything else, once.

        Raises:
            IllegalStateError: it is set already, or the connection was used.
            InvalidClientIDError: another connection has it.
        """
        self._check()
        return self._client_id

    @client_id.setter
    def client_id(self, client_id: str) -> None:
        self._check()
        if self._client_id is not None:
            raise IllegalStateError(f"the client id is {self._client_id!r} already, and cannot be changed")
        if self._used:
            raise IllegalStateError(
                "the client id must be set before anything else is done with the connection"
            )
        self._claim(client_id)

    @property
    def number(self) -> int:
        """Which of its node's connections it is, from 1; messages carry it."""
        return self._number

    @property
    def metadata(self) -> ConnectionMetaData:
        """What provider this is."""
        self._check()
        self._used = True
        return ConnectionMetaData()

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Gets problems that belong to no call: a link that failed, messages that were lost.

        It is a function of one error, or an object with `on_exception`, and is called on a thread of its
        own, once at a time. Where the bus is the program's own, it takes the bus's events.
        """
        self._check()
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        self._check()
        call = getattr(listener, "on_exception", listener)
        if listener is not None and not callable(call):
            raise InvalidArgumentError(
                f"listener is {listener!r}, and must be a function of one error, or have on_exception"
            )
        self._used = True
        self._listener = listener
        self._node.tell_problems(self._number, None if listener is None else self._tell)

    def _tell(self, error: JMSError) -> None:
        listener = self._listener
        if listener is None or self._closed:
            return
        call: Any = getattr(listener, "on_exception", listener)
        with self._telling:
            try:
                call(error)
            except Exception as failure:
                notices.EXCEPTION_LISTENER_FAILED(why=named(failure)).log(log, exc_info=failure)

    def create_session(
        self, transacted: bool | int = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> Session:
        """A session.

        Args:
            transacted: whether it is; or, as Java allows it, the mode in place of both arguments.
            acknowledge_mode: who acknowledges messages, if it is not transacted.
        """
        return self._add_session(transacted, acknowledge_mode, Session)

    def _add_session(self, transacted: bool | int, acknowledge_mode: int, kind: type[_S]) -> _S:
        self._check()
        if not isinstance(transacted, bool):
            transacted, acknowledge_mode = False, transacted
        mode = AcknowledgeMode.SESSION_TRANSACTED if transacted else checked_mode(acknowledge_mode)
        self._used = True
        session = kind(self, mode)
        with self._gate.lock:
            self._check()
            self._sessions.append(session)
        return session

    def _forget(self, session: Session) -> None:
        with self._gate.lock:
            if session in self._sessions:
                self._sessions.remove(session)

    @property
    def started(self) -> bool:
        """Whether messages are delivered."""
        return self._gate.started

    def start(self) -> None:
        """Deliver messages from now on. Starting again does nothing."""
        self._check()
        self._used = True
        with self._gate.lock:
            self._gate.started = True
            self._gate.changed.notify_all()
            for session in self._sessions:
                session._delivering.wake()

    def stop(self) -> None:
        """Deliver nothing until `start`. Returns when no listener runs any more; sending goes on.

        Raises:
            IllegalStateError: a listener of this connection calls it.
        """
        self._check()
        self._used = True
        sessions = self._check_closeable()
        with self._gate.lock:
            self._gate.started = False
        for session in sessions:
            session._delivering.wait_quiet()

    def _check_closeable(self) -> list[Session]:
        """Refuse a listener that would wait for itself; the sessions are those that were looked at."""
        with self._gate.lock:
            sessions = list(self._sessions)
        for session in sessions:
            session._check_closeable()
        return sessions

    # Temporary destinations, section 6.2.2.

    def _make_temporary_topic(self) -> TemporaryTopic:
        self._check()
        topic = TemporaryTopic(self._node.bus.temporary_topic(), self._delete_temporary)
        with translating():
            self._node.own_topic(topic.bus_name)
        self._own(topic)
        return topic

    def _make_temporary_queue(self, waits: Waits) -> TemporaryQueue:
        self._check()
        self._check_reliable("queues")
        with translating(), waits.here():
            name = str(self._node.bus.temporary_queue().name)
        queue = TemporaryQueue(name, self._delete_temporary)
        self._own(queue)
        return queue

    def _own(self, destination: TemporaryTopic | TemporaryQueue) -> None:
        """Have a temporary destination end with the connection, which may have closed while it was made."""
        with self._gate.lock:
            if not self._has_dropped:
                self._temporary[destination.bus_name] = destination
                return
        self._drop(destination)
        raise closed_error("connection")

    def _check_durable(self, name: str) -> None:
        """Refuse a second consumer of an unshared durable subscription, and to forget one that is in use."""
        if name not in self._durable:
            return
        feed = self._durable[name]
        if feed is None or not feed.is_over:
            raise IllegalStateError(
                f"the durable subscription {name!r} is in use: it has a consumer, or messages of it are not "
                "acknowledged yet"
            )

    def _check_own(self, destination: Destination) -> None:
        """Refuse to read a temporary destination of another connection."""
        if destination.bus_name not in self._temporary:
            raise InvalidDestinationError(
                f"{destination} was deleted, or belongs to another connection, which alone reads it"
            )

    def _delete_temporary(self, destination: Destination) -> None:
        self._check()
        with self._gate.lock:
            consumers = [each for session in self._sessions for each in session._delivering.consumers]
            if any(each._destination == destination for each in consumers):
                raise IllegalStateError(f"{destination} has a consumer: close that first")
            self._temporary.pop(destination.bus_name, None)
        self._drop(destination)

    def _drop(self, destination: Destination) -> None:
        """Have others know that a topic ended, and the store forget a queue; it may do so by itself."""
        if isinstance(destination, TemporaryTopic):
            self._node.end_topic(destination.bus_name)
        else:
            with contextlib.suppress(ShoalError):
                self._node.bus.queue(destination.bus_name).delete(timeout_s=DROP_S)

    def _check_reliable(self, what: str) -> None:
        """Refuse what best effort cannot promise."""
        self._node.check_reliable(what)

    def close(self) -> None:
        """End the connection, its sessions and all that they made.

        Waits until listeners that run have returned, calls of `receive` have, and every send is completed.
        Rolls back transactions; acknowledges nothing. Closing again does nothing.

        Raises:
            IllegalStateError: a listener of this connection tries to close it.
        """
        if self._closed:
            return
        self._check_closeable()
        with self._closing:
            if self._closed:
                return
            with self._gate.lock:
                self._shut = True
                sessions = list(self._sessions)
                for session in sessions:
                    session._shut = True
                    # First all of them: none begins anything while another ends.
                    session._delivering.shut()
            for session in sessions:
                session._end()
            with self._gate.lock:
                self._has_dropped = True
                temporary = list(self._temporary.values())
                self._temporary.clear()
            for destination in temporary:
                self._drop(destination)
                destination.is_deleted = True
            with self._gate.lock:
                self._closed = True
                self._sessions.clear()
            self._finalizer.detach()
            self._node.leave(self._client_id, self._number)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        return f"<jms.Connection {self._number} of {self._node.bus!r}{state}>"

    def _forked(self) -> None:
        """This process is a forked child: the connection is closed here, and goes on in the parent."""
        self._closed = self._shut = True
        self._finalizer.detach()
        self._gate.renew()
        for session in self._sessions:
            session._forked()


def _forked() -> None:
    for connection in list(_open):
        connection._forked()


after_fork(_forked)


def _abandon(node: SharedNode, number: int, claimed: list[str], name: str) -> None:
    """Nobody has the connection any more."""
    if not sys.is_finalizing():
        bus_notices.UNCLOSED(what=name).warn(ResourceWarning, stacklevel=2)
        # Leaving may wait, and the thread here runs something else. That may be `threading` itself, in the
        # middle of something: so no lock of it is taken.
        client_id = claimed[0] if claimed else None
        _thread.start_new_thread(node.leave, (client_id, number))
