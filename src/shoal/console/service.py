"""A running console.

Its connection, its HTTP server, and the loop that looks. One thread with an event loop, and threads for
waits.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Self

import uvicorn

import shoal
from shoal.config.orders import HostKey
from shoal.config.tokens import Principals
from shoal.console.access import Access, OneToken, Tokens, cookie_name
from shoal.console.acts import Acts
from shoal.console.app import make_app
from shoal.console.audit import Audit
from shoal.console.config import AUDIT_FILE, ConsoleConfig
from shoal.console.console import Console, Parts
from shoal.console.extensions import load
from shoal.console.history import Histories
from shoal.console.hosts import Hosts
from shoal.console.source import BusSource, Source
from shoal.errors import ConfigError
from shoal.messages import console as notices

log = logging.getLogger("shoal.console")

#: How long closing waits for requests that are under way.
CLOSE_S = 1
#: Connections at once.
CONNECTIONS_MAX = 500


class ConsoleServer:
    """A console. Close it, or use it in a `with` statement.

    Args:
        config: where it listens, and who may log in.
        connect: makes a connection to the domain, with these options besides.
        source: where looks come from instead, for a domain that is simulated.

    Raises:
        ConfigError: the address, the certificate, a key or the token file cannot be used.
    """

    def __init__(
        self,
        config: ConsoleConfig,
        connect: Callable[..., shoal.Bus] | None = None,
        *,
        source: Source | None = None,
        domain: str = "",
    ) -> None:
        keys = [HostKey.read(path) for path in config.host_keys]
        self._listening = _listen(config)
        host, port = self._listening.getsockname()[:2]
        scheme = "https" if config.is_tls else "http"
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self._bus: shoal.Bus | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._listening.close)
            self._audit = Audit(config.data / AUDIT_FILE, time.time)
            undo.callback(self._audit.close)
            self._histories = Histories(config.histories)
            bus = self._bus = None if connect is None else connect()
            if bus is not None:
                undo.callback(bus.close)
            named = domain or (bus.config.domain if bus is not None else "")
            self._tokens: Tokens = OneToken() if config.tokens is None else Principals(config.tokens, named)
            if source is None:
                if bus is None:
                    raise TypeError("a console has a connection, or a source")
                source = BusSource(bus, self._histories)
            self._parts = Parts(
                source=source,
                access=Access(self._tokens, cookie_name(port, is_tls=config.is_tls), is_tls=config.is_tls),
                audit=self._audit,
                histories=self._histories,
                domain=named,
                bus=bus,
                acts=None
                if bus is None or connect is None
                else Acts(bus, lambda id_: connect(client_id=id_)),
                hosts=None if bus is None else Hosts(bus, keys),
            )
            self._server = self._http(config, port)
            undo.pop_all()
        self._thread = threading.Thread(target=self._run, name="shoal-console", daemon=True)
        self._thread.start()
        notices.CONSOLE_READY(url=self.url).log(log)

    def _http(self, config: ConsoleConfig, port: int) -> uvicorn.Server:
        hosts = config.hosts(port)
        self._console = Console(self._parts)
        options = uvicorn.Config(
            make_app(self._console, lambda: hosts, load()),
            log_config=None,
            access_log=False,
            server_header=False,
            # Only for what a reverse proxy adds, which nothing here believes.
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=CLOSE_S,
            limit_concurrency=CONNECTIONS_MAX,
            ssl_certfile=config.tls_cert,
            ssl_keyfile=config.tls_key,
        )
        try:
            options.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"tls_cert is {str(config.tls_cert)!r} and tls_key {str(config.tls_key)!r}, and they cannot "
                f"be used: {error}"
            ) from None
        return uvicorn.Server(options)

    @property
    def login_url(self) -> str | None:
        """Where a browser is logged in at once, if the console has a token for one run."""
        return f"{self.url}/#token={self._tokens.token.text}" if isinstance(self._tokens, OneToken) else None

    @property
    def token(self) -> str | None:
        """The token for one run, if there is one."""
        return self._tokens.token.text if isinstance(self._tokens, OneToken) else None

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        looking = asyncio.create_task(self._console.run())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking

    def close(self) -> None:
        """End it. Closing again does nothing."""
        self._server.should_exit = True
        self._thread.join()
        self._listening.close()
        if self._bus is not None:
            self._bus.close(1.0)
        self._histories.close()
        if not self._audit.closed:
            self._audit.close()
            notices.CONSOLE_ENDED().log(log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _listen(config: ConsoleConfig) -> socket.socket:
    host, port = config.address()
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
    except OSError as error:
        found.close()
        raise ConfigError(f"listen is {config.listen!r}, which cannot be used: {error.strerror}") from None
    return found
