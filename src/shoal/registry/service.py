"""A running registry: its HTTP server, its datagrams, its leases. One thread, with an event loop."""

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Self

import uvicorn

from shoal.config.tokens import Principals
from shoal.errors import ConfigError
from shoal.link.directory import Stamp
from shoal.messages import registry as notices
from shoal.registry.app import make_app
from shoal.registry.audit import Audit
from shoal.registry.config import RegistryConfig
from shoal.registry.desk import Desk
from shoal.registry.directory import Directory
from shoal.registry.proof import Prover

log = logging.getLogger("shoal.registry")

#: Interval at which the registry advertises the stamp to each daemon, and for which it gathers changes.
ADVERTISE_S, GATHER_S = 2.0, 0.1
#: How long closing waits for requests that are under way.
CLOSE_S = 2
#: Connections at once.
CONNECTIONS_MAX = 2000


class Registry:
    """A registry. Close it, or use it in a `with` statement.

    Raises:
        ConfigError: the address, the certificate or the token file cannot be used.
    """

    def __init__(self, config: RegistryConfig) -> None:
        principals = None if config.tokens is None else Principals(config.tokens)
        directory = Directory(time.monotonic(), wall=time.time, sites=config.sites)
        own = None if config.tls_cert is None or config.tls_key is None else (config.tls_cert, config.tls_key)
        self._certificate = None if own is None else _Certificate(own)
        self._audit = Audit(config.audit)
        self._desk = Desk(directory, principals, prove=Prover(own), audit=self._audit)
        options = uvicorn.Config(
            make_app(self._desk),
            # A client's address is the connection's, unless a proxy that the owner named says otherwise.
            proxy_headers=bool(config.proxies),
            forwarded_allow_ips=list(config.proxies),
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=CLOSE_S,
            limit_concurrency=CONNECTIONS_MAX,
            ssl_certfile=config.tls_cert,
            ssl_keyfile=config.tls_key,
        )
        try:
            options.load()
        except (OSError, ssl.SSLError) as error:
            self._audit.close()
            raise ConfigError(
                f"tls_cert is {str(config.tls_cert)!r} and tls_key {str(config.tls_key)!r}, and they cannot "
                f"be used: {error}"
            ) from None
        self._server, self._tls = uvicorn.Server(options), options.ssl
        try:
            self._listening = _listen(config)
        except ConfigError:
            self._audit.close()
            raise
        host, port = self._listening.getsockname()[:2]
        self._wrong: str | None = None
        scheme = "http" if config.tls_cert is None else "https"
        #: Where it is.
        self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        self._thread = threading.Thread(target=self._run, name="shoal-registry", daemon=True)
        self._thread.start()
        notices.REGISTRY_READY(url=self.url).log(log)

    def _run(self) -> None:
        with self._listening:
            asyncio.run(self._serve())

    async def _serve(self) -> None:
        looking = asyncio.create_task(self._look_after())
        try:
            await self._server.serve(sockets=[self._listening])
        finally:
            looking.cancel()

    async def _look_after(self) -> None:
        """End leases, and advertise stamps, for as long as it runs."""
        with contextlib.ExitStack() as stack:
            senders: dict[int, socket.socket] = {}
            for family in (socket.AF_INET, socket.AF_INET6):
                with contextlib.suppress(OSError):
                    sender = stack.enter_context(socket.socket(family, socket.SOCK_DGRAM))
                    sender.setblocking(False)
                    senders[family] = sender
            while True:
                self._turn(senders)
                # A change is advertised at once, and those of the next moment together.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._desk.changed.wait(), ADVERTISE_S)
                    await asyncio.sleep(GATHER_S)

    def _turn(self, senders: dict[int, socket.socket]) -> None:
        desk, directory = self._desk, self._desk.directory
        now = desk.clock()
        for domain in directory.expire(now):
            notices.DAEMONS_EXPIRED(domain=domain).log(log)
            desk.note("expired", domain=domain)
            desk.change()
        self._read_again()
        for domain, udp, entry in directory.due_stamps(now):
            family = socket.AF_INET6 if ":" in udp[0] else socket.AF_INET
            datagram = Stamp(domain, directory.id, directory.stamp(domain), entry.echo).seal(entry.key)
            # A datagram is a hint: what is lost is learnt with the next registration.
            with contextlib.suppress(OSError, KeyError):
                senders[family].sendto(datagram, udp)

    def _read_again(self) -> None:
        """Use tokens and certificates that were replaced; those that cannot be read change nothing."""
        principals = self._desk.principals
        wrong = None if principals is None else principals.refresh()
        if wrong is not None and wrong != self._wrong:
            notices.REGISTRY_TOKENS_UNREADABLE(why=wrong).log(log)
        self._wrong = wrong
        if self._certificate is not None and self._tls is not None and self._certificate.has_changed():
            try:
                self._tls.load_cert_chain(*self._certificate.files)
            except (OSError, ssl.SSLError) as error:
                notices.REGISTRY_CERTIFICATE_UNREADABLE(why=error).log(log)
            else:
                notices.REGISTRY_CERTIFICATE_READ().log(log)

    def close(self) -> None:
        """End it. Daemons and clients stay connected. Closing again does nothing."""
        if self._server.should_exit:
            return
        self._server.should_exit = True
        self._thread.join()
        self._audit.close()
        notices.REGISTRY_ENDED().log(log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Certificate:
    """The files of a certificate, and whether they were replaced."""

    def __init__(self, files: tuple[Path, Path]) -> None:
        self.files = files
        self._seen = self._stamps()

    def has_changed(self) -> bool:
        """Whether the files are others than at the last call."""
        before, self._seen = self._seen, self._stamps()
        return before != self._seen

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self.files]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _listen(config: RegistryConfig) -> socket.socket:
    host, port = config.address()
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise ConfigError(f"listen is {config.listen!r}, and cannot be used: {error.strerror}") from None
    return listening
