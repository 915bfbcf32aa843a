"""An HTTP server in a thread of its own: its socket, its certificate, and a task that runs beside it."""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any

import uvicorn

from shoal.errors import ConfigError
from shoal.messages import web as notices
from shoal.web.config import WebConfig

log = logging.getLogger("shoal.web")

#: How long closing waits for requests that are under way.
CLOSE_S = 2
#: Interval at which the server looks for a new certificate.
CERTIFICATE_S = 2.0
#: How long a connection may take to send a request.
REQUEST_S = 10.0


class WebServer:
    """A server. It listens once it is made, and serves from `start` to `close`.

    Args:
        config: where it listens, and with which certificate.
        name: what its thread is called.
        connections_max: connections at once.

    Raises:
        ConfigError: the address or the certificate cannot be used.
    """

    def __init__(self, config: WebConfig, name: str, connections_max: int) -> None:
        self._name, self._connections_max = name, connections_max
        self._certificate = Certificate(config) if config.is_tls else None
        self._listening = _listen(config)
        host, self.port = self._listening.getsockname()[:2]
        scheme = "https" if config.is_tls else "http"
        #: Where it is.
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    def start(
        self,
        app: Callable[..., Any],
        beside: Callable[[], Coroutine[Any, Any, None]],
        proxies: Sequence[str] = (),
    ) -> None:
        """Serve an application, and run a task on the same event loop until the server closes."""
        options = uvicorn.Config(
            app,
            # A client's address is the connection's, unless a proxy that the owner named says otherwise.
            proxy_headers=bool(proxies),
            forwarded_allow_ips=list(proxies),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=CLOSE_S,
            limit_concurrency=self._connections_max,
        )
        options.load()
        options.ssl = None if self._certificate is None else self._certificate.context
        self._server = uvicorn.Server(options)
        self._thread = threading.Thread(
            target=asyncio.run, args=(self._serve(self._server, beside),), name=self._name, daemon=True
        )
        self._thread.start()

    async def _serve(self, server: uvicorn.Server, beside: Callable[[], Coroutine[Any, Any, None]]) -> None:
        works = (beside(), self._renew_certificate(), close_slow(server.server_state.connections))
        tasks = [asyncio.create_task(work) for work in works]
        try:
            await server.serve(sockets=[self._listening])
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew_certificate(self) -> None:
        while self._certificate is not None:
            await asyncio.sleep(CERTIFICATE_S)
            if not self._certificate.has_changed():
                continue
            try:
                self._certificate.load()
            except (OSError, ssl.SSLError) as error:
                notices.CERTIFICATE_UNREADABLE(url=self.url, why=error).log(log)
            else:
                notices.CERTIFICATE_READ(url=self.url).log(log)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._listening.fileno() < 0

    def close(self) -> None:
        """End the requests, the thread and the socket. Closing again does nothing."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join()
        self._listening.close()


async def close_slow(connections: Collection[Any], patience_s: float = REQUEST_S) -> None:
    """Close connections of uvicorn whose request does not come, or not whole; without end."""
    #: The request that each connection had before the awaited one, and since when it is.
    waiting: dict[Any, tuple[object, float]] = {}
    while True:
        await asyncio.sleep(patience_s / 10)
        now = asyncio.get_running_loop().time()
        before, waiting = waiting, {}
        for connection in list(connections):
            # A WebSocket has no cycle of request and response.
            cycle = getattr(connection, "cycle", connection)
            if cycle is connection or not (cycle is None or cycle.response_complete or cycle.more_body):
                continue
            known, since = before.get(connection, (cycle, now))
            waiting[connection] = cycle, since if known is cycle else now
            if now - waiting[connection][1] >= patience_s:
                connection.transport.abort()


class Certificate:
    """A certificate and its key, which may be replaced while the server runs.

    Raises:
        ConfigError: the files cannot be used.
    """

    def __init__(self, config: WebConfig) -> None:
        assert config.tls_cert is not None
        assert config.tls_key is not None
        self.files = (config.tls_cert, config.tls_key)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._seen = self._stamps()
        try:
            self.load()
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"tls_cert is {str(config.tls_cert)!r} and tls_key {str(config.tls_key)!r}, and they cannot "
                f"be used: {error}"
            ) from None

    def load(self) -> None:
        """Use what the files hold, for connections from now on.

        Raises:
            OSError, ssl.SSLError: the files cannot be used; nothing changed.
        """
        self.context.load_cert_chain(*self.files)

    def has_changed(self) -> bool:
        """Whether the files are others than at the last call."""
        before, self._seen = self._seen, self._stamps()
        return before != self._seen

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self.files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    with contextlib.suppress(OSError):
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None


def _listen(config: WebConfig) -> socket.socket:
    host, port = config.address()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named: an answer, which is written in
    # two parts, took 40 ms more.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigError(f"listen is {config.listen!r}, and cannot be used: {error.strerror}") from None
    return listening
