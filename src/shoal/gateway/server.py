"""A running gateway: its doors, its clients, its connection to the bus. One thread, with an event loop."""

import asyncio
import contextlib
import functools
import logging
import ssl
import threading
from collections.abc import Callable
from typing import Any, Self

from shoal.bus.aio import Bus
from shoal.bus.log_limit import LogLimit
from shoal.config.access import AccessFile
from shoal.config.tokens import Principals
from shoal.errors import ConfigError
from shoal.gateway.carriers import Carrier, Plain
from shoal.gateway.config import Door, GatewayConfig
from shoal.gateway.connection import Connection, close_quietly
from shoal.gateway.desk import Desk, DeskClient
from shoal.messages import gateway as notices
from shoal.messages import named

log = logging.getLogger("shoal.gateway")

#: Connections that wait in the kernel to be accepted.
BACKLOG = 1024
#: Bytes of frames that have not come whole, of all clients; beyond it a client with much of them is refused.
UNREAD_BYTES_MAX, UNREAD_BYTES_EACH = 256 << 20, 1 << 20
#: How long a TLS handshake may take.
HANDSHAKE_S = 5.0
#: How often the token file and the rules are looked at.
REFRESH_S = 1.0
#: How long closing waits for clients to be told, and for the bus.
CLOSE_S = 3.0


class Gateway:
    """A gateway in an event loop: `async with Gateway(config, bus)`.

    Raises:
        ConfigError: an address, the certificate or the token file cannot be used.
    """

    def __init__(self, config: GatewayConfig, bus: Bus) -> None:
        self.config = config
        principals = None if config.tokens is None else Principals(config.tokens)
        access = None if config.access is None else AccessFile(config.access)
        self.desk = Desk(bus, principals, access)
        #: Where clients connect, once it is open.
        self.urls: list[str] = []
        self._context = _context(config)
        for door in config.doors():
            # What cannot be carried is refused before anything is opened.
            self._carrier(door)
        self._servers: list[asyncio.Server] = []
        self._connections: set[Connection] = set()
        #: Bytes that came from each client and were not understood yet, if they are many; and all together.
        self._unread: dict[Connection, int] = {}
        self._unread_bytes = 0
        self._leaving: set[asyncio.Task[None]] = set()
        self._limit = LogLimit()
        self._refreshing: asyncio.Task[None] | None = None
        self._refused = 0

    # --- getters ---

    def status(self) -> dict[str, Any]:
        """What it has and did."""
        return {"urls": self.urls, "connections": len(self._connections), "refused": self._refused}

    # --- connections ---

    def take_in(self, connection: Connection) -> bool:
        """A client connected; false if there are too many."""
        if len(self._connections) >= self.config.connections_max:
            self._refused += 1
            self._note("full", notices.GATEWAY_FULL(connections=len(self._connections)))
            return False
        self._connections.add(connection)
        return True

    def let_go(self, connection: Connection, client: DeskClient | None) -> None:
        """A client is gone: give back what it had."""
        self._connections.discard(connection)
        self.has_room(connection, 0)
        if client is not None:
            leaving = asyncio.create_task(close_quietly(client), name="shoal-gateway-leaving")
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)

    def has_room(self, connection: Connection, unread: int) -> bool:
        """Note how many bytes of a client wait for the rest of their frame; false if all have too many."""
        before = self._unread.pop(connection, 0)
        if unread > UNREAD_BYTES_EACH:
            self._unread[connection] = unread
            self._unread_bytes += unread - before
            return self._unread_bytes <= UNREAD_BYTES_MAX
        self._unread_bytes -= before
        return True

    def note_refused(self, address: str, why: Exception) -> None:
        """A client showed no token, or a wrong one."""
        self._refused += 1
        self._note("refused", notices.GATEWAY_REFUSED(address=address, why=why))

    def note_fault(self, error: Exception) -> None:
        """Something went wrong that should not."""
        if (line := self._limit.admit("fault", notices.GATEWAY_FAULT(why=named(error)))) is not None:
            line.log(log, exc_info=error)

    def _note(self, key: str, notice: Any) -> None:
        if (line := self._limit.admit(key, notice)) is not None:
            line.log(log)

    # --- life ---

    async def open(self) -> None:
        """Listen."""
        loop = asyncio.get_running_loop()
        for door, given in zip(self.config.doors(), self.config.stomp, strict=True):
            make = functools.partial(self._connection, door)
            secure: dict[str, Any] = {}
            if door.is_secure:
                secure = {"ssl": self._context, "ssl_handshake_timeout": HANDSHAKE_S}
            try:
                server = await loop.create_server(make, door.host, door.port, backlog=BACKLOG, **secure)
            except OSError as error:
                await self.close()
                raise ConfigError(f"stomp is {given!r}, and cannot be used: {error.strerror}") from None
            self._servers.append(server)
            self.urls.append(door.url(server.sockets[0].getsockname()[1]))
        self._refreshing = asyncio.create_task(self._refresh(), name="shoal-gateway-refresh")
        notices.GATEWAY_READY(urls=", ".join(self.urls)).log(log)

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(REFRESH_S)
            for why in self.desk.refresh():
                self._note(why, notices.GATEWAY_FILE_UNREADABLE(why=why))

    def _connection(self, door: Door) -> Connection:
        return Connection(self, self._carrier(door))

    def _carrier(self, door: Door) -> Carrier:
        if not door.is_web:
            return Plain()
        # A gateway without WebSockets does without their library.
        from shoal.gateway.websocket import WebSocket

        return WebSocket(door.path, self.config.origins, self.config.message_bytes_max + 65_536)

    async def close(self) -> None:
        """Tell the clients, and give back what they had. Closing again does nothing."""
        if self._refreshing is not None:
            self._refreshing.cancel()
        if not self._servers and not self._connections:
            return
        for server in self._servers:
            server.close()
        self._servers.clear()
        for connection in list(self._connections):
            connection.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                while self._connections or self._leaving:
                    await asyncio.wait([*self._leaving, asyncio.create_task(asyncio.sleep(0.01))])
        notices.GATEWAY_ENDED().log(log)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


class GatewayThread:
    """A gateway with a thread of its own, for daemons and commands. Close it, or use it in a `with` block.

    Args:
        connect: opens the connection to the bus, in the thread's event loop.

    Raises:
        ShoalError: the bus or an address cannot be opened; then nothing stays open.
    """

    def __init__(
        self, config: GatewayConfig, connect: Callable[[], contextlib.AbstractAsyncContextManager[Bus]]
    ) -> None:
        self._config, self._connect = config, connect
        self._ready = threading.Event()
        self._error: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._gateway: Gateway | None = None
        self._thread = threading.Thread(target=self._run, name="shoal-gateway", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    @property
    def urls(self) -> list[str]:
        """Where clients connect."""
        return [] if self._gateway is None else list(self._gateway.urls)

    def status(self) -> dict[str, Any]:
        """What it has and did."""
        return {} if self._gateway is None else self._gateway.status()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._error = error
        self._ready.set()

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        async with self._connect() as bus, Gateway(self._config, bus) as gateway:
            self._gateway = gateway
            self._ready.set()
            await self._ending.wait()

    def close(self) -> None:
        """End it. Closing again does nothing."""
        if self._thread.is_alive() and self._loop is not None and self._ending is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _context(config: GatewayConfig) -> ssl.SSLContext | None:
    if config.tls_cert is None or config.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"tls_cert is {str(config.tls_cert)!r} and tls_key {str(config.tls_key)!r}, and they cannot be "
            f"used: {error}"
        ) from None
    return context
