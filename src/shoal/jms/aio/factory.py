"""Connection factories for programs with an event loop."""

import asyncio
from pathlib import Path
from typing import Unpack

from shoal.bus.doorbell import in_own_thread
from shoal.bus.sync import Bus
from shoal.config import ConnectOptions
from shoal.jms import administered
from shoal.jms import connection as threads
from shoal.jms import factory as factories
from shoal.jms.acknowledge_mode import AcknowledgeMode, checked_mode
from shoal.jms.aio.connection import Connection
from shoal.jms.aio.context import JMSContext
from shoal.jms.destination import Destination
from shoal.jms.java_names import JavaNames
from shoal.jms.message import DEFAULT_DELIVERY_MODE
from shoal.jms.options import JMSOptions


class ConnectionFactory(JavaNames):
    """Makes connections for event loops. Arguments as for `shoal.jms.ConnectionFactory`."""

    def __init__(
        self,
        url: str | None = None,
        *,
        bus: Bus | None = None,
        unacknowledged_max: int = JMSOptions.unacknowledged_max,
        redeliveries_max: int = JMSOptions.redeliveries_max,
        queue_bytes_max: int = JMSOptions.queue_bytes_max,
        prefetch: int = JMSOptions.prefetch,
        default_delivery_mode: int = DEFAULT_DELIVERY_MODE,
        **options: Unpack[ConnectOptions],
    ) -> None:
        self._factory = factories.ConnectionFactory(
            url,
            bus=bus,
            unacknowledged_max=unacknowledged_max,
            redeliveries_max=redeliveries_max,
            queue_bytes_max=queue_bytes_max,
            prefetch=prefetch,
            default_delivery_mode=default_delivery_mode,
            **options,
        )

    @classmethod
    def of(cls, factory: factories.ConnectionFactory) -> "ConnectionFactory":
        """The same connections as those of a factory for threads."""
        made = cls.__new__(cls)
        made._factory = factory
        return made

    async def create_connection(
        self, user_name: str | None = None, password: str | None = None
    ) -> Connection:
        """A connection, stopped: `async with await factory.create_connection() as connection`."""
        made: list[threads.Connection] = []
        is_wanted = True

        def make() -> None:
            made.append(self._factory.create_connection(user_name, password))
            if not is_wanted:
                made[0].close()

        try:
            await in_own_thread(make)
        except asyncio.CancelledError:
            is_wanted = False
            if made:
                await in_own_thread(made[0].close)
            raise
        return Connection(made[0])

    async def create_context(
        self,
        session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> JMSContext:
        """A connection and a session in one: `async with await factory.create_context() as context`."""
        checked_mode(session_mode)
        connection = await self.create_connection(user_name, password)
        try:
            return JMSContext(connection, set(), session_mode)
        except BaseException:
            await connection.close()
            raise

    def __repr__(self) -> str:
        return f"aio {self._factory!r}"


def lookup(name: str, path: str | Path | None = None) -> ConnectionFactory | Destination:
    """An administered object by its name: see `shoal.jms.lookup`. Factories are those of event loops."""
    found = administered.lookup(name, path)
    return ConnectionFactory.of(found) if isinstance(found, factories.ConnectionFactory) else found
