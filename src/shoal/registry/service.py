"""A running registry: its HTTP server, its datagrams, its leases, on one event loop."""

import asyncio
import contextlib
import logging
import socket
import time
from typing import Self

from shoal.config.tokens import Principals
from shoal.errors import ConfigError
from shoal.link.directory import Stamp
from shoal.messages import registry as notices
from shoal.registry.app import make_app
from shoal.registry.config import RegistryConfig
from shoal.registry.desk import Desk
from shoal.registry.directory import Directory
from shoal.registry.proof import Prover
from shoal.web.audit import Audit
from shoal.web.server import WebServer

log = logging.getLogger("shoal.registry")

#: Interval at which the registry advertises the stamp to each daemon, and for which it gathers changes.
ADVERTISE_S, GATHER_S = 2.0, 0.1
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
        self._web = WebServer(config, "shoal-registry", CONNECTIONS_MAX)
        try:
            self._audit = Audit(config.audit, time.time, syncs=False)
        except ConfigError:
            self._web.close()
            raise
        self._desk = Desk(directory, principals, prove=Prover(own), audit=self._audit)
        self._wrong: str | None = None
        #: Where it is.
        self.url = self._web.url
        self._web.start(make_app(self._desk), self._look_after, config.proxies)
        notices.REGISTRY_READY(url=self.url).log(log)

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
        self._read_tokens()
        for domain, udp, entry in directory.due_stamps(now):
            family = socket.AF_INET6 if ":" in udp[0] else socket.AF_INET
            datagram = Stamp(domain, directory.id, directory.stamp(domain), entry.echo).seal(entry.key)
            # A datagram is a hint: what is lost is learnt with the next registration.
            with contextlib.suppress(OSError, KeyError):
                senders[family].sendto(datagram, udp)

    def _read_tokens(self) -> None:
        """Use tokens that were replaced; those that cannot be read change nothing."""
        principals = self._desk.principals
        wrong = None if principals is None else principals.refresh()
        if wrong is not None and wrong != self._wrong:
            notices.REGISTRY_TOKENS_UNREADABLE(why=wrong).log(log)
        self._wrong = wrong

    def close(self) -> None:
        """End it. Daemons and clients stay connected. Closing again does nothing."""
        if self._web.is_closed:
            return
        self._web.close()
        self._audit.close()
        notices.REGISTRY_ENDED().log(log)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
