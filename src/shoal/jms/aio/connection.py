"""Connections for programs with an event loop."""

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from shoal.bus.doorbell import in_own_thread
from shoal.errors import JMSError
from shoal.jms import connection as threads
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.aio.session import LoopSession, Session
from shoal.jms.connection import ConnectionMetaData, ExceptionListener
from shoal.jms.java_names import JavaNames


class Connection(JavaNames):
    """A program's connection. For the tasks of one event loop; it shares its process's node as others do.

    Made by `ConnectionFactory.create_connection`, and stopped at first. Leaving its `async with` block closes
    it.
    """

    def __init__(self, connection: threads.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._sessions: list[Session] = []
        self._listener: ExceptionListener | None = None

    @property
    def client_id(self) -> str | None:
        """What names the program to a store."""
        return self._connection.client_id

    async def set_client_id(self, client_id: str) -> None:
        """Name the program to a store: once, before anything else.

        Raises:
            IllegalStateError: it is set already, or the connection was used.
            InvalidClientIDError: another connection has it.
        """
        await in_own_thread(functools.partial(setattr, self._connection, "client_id", client_id))

    @property
    def number(self) -> int:
        """Which of its node's connections it is, from 1; messages carry it."""
        return self._connection.number

    @property
    def metadata(self) -> ConnectionMetaData:
        """What provider this is."""
        return self._connection.metadata

    @property
    def exception_listener(self) -> ExceptionListener | None:
        """Gets problems that belong to no call: called in the event loop, and may be a
        coroutine function."""
        self._connection._check()
        return self._listener

    @exception_listener.setter
    def exception_listener(self, listener: ExceptionListener | None) -> None:
        call: Any = getattr(listener, "on_exception", listener)
        usable = listener is not None and callable(call)
        # What is no listener is refused as threads refuse it.
        self._connection.exception_listener = (
            functools.partial(_tell, self._loop, call) if usable else listener
        )
        self._listener = listener

    def create_session(
        self, transacted: bool | int = False, acknowledge_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE
    ) -> Session:
        """A session; arguments as for `shoal.jms.Connection.create_session`."""
        session = Session(self, self._connection._add_session(transacted, acknowledge_mode, LoopSession))
        self._sessions.append(session)
        return session

    def _forget(self, session: Session) -> None:
        if session in self._sessions:
            self._sessions.remove(session)

    @property
    def started(self) -> bool:
        """Whether messages are delivered."""
        return self._connection.started

    def start(self) -> None:
        """Deliver messages from now on. Starting again does nothing."""
        self._connection.start()

    async def stop(self) -> None:
        """Deliver nothing until `start`. Returns when no listener runs any more; sending goes on."""
        self._connection._check()
        self._connection._check_closeable()
        await in_own_thread(self._connection.stop)

    async def close(self) -> None:
        """End the connection, its sessions and all that they made: see `shoal.jms.Connection.close`."""
        self._connection._check_closeable()
        # Whoever is cancelled does not wait for it, and it goes on.
        await asyncio.shield(asyncio.ensure_future(self._end()))

    async def _end(self) -> None:
        sessions, self._sessions = self._sessions, []
        try:
            await in_own_thread(self._connection.close)
        finally:
            # Also where the loop ends before: it cancels whatever it has.
            for session in sessions:
                await session._delivering.ended_in_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<aio {self._connection!r}>"


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[[JMSError], object], error: JMSError) -> None:
    """Have an exception listener told in its loop, unless that is closed."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_tell_here, loop, call, error)


def _tell_here(loop: asyncio.AbstractEventLoop, call: Callable[[JMSError], object], error: JMSError) -> None:
    result = call(error)
    if inspect.iscoroutine(result):
        _telling.add(task := loop.create_task(result))
        task.add_done_callback(_telling.discard)


#: Tasks of exception listeners, which a loop alone would not keep.
_telling: set[asyncio.Task[object]] = set()
