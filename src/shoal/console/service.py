"""A running console.

Its connection, its HTTP server, and the loop that looks. One thread with an event loop, and threads for
waits.
"""

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Self

import shoal
from shoal.config.orders import HostKey
from shoal.config.tokens import Principals
from shoal.console.access import Access, OneToken, Tokens, cookie_name
from shoal.console.acts import Acts
from shoal.console.app import make_app
from shoal.console.config import AUDIT_FILE, ConsoleConfig
from shoal.console.console import Console, Parts
from shoal.console.extensions import load
from shoal.console.history import Histories
from shoal.console.hosts import Hosts
from shoal.console.source import BusSource, Source
from shoal.messages import console as notices
from shoal.web.audit import Audit
from shoal.web.server import WebServer

log = logging.getLogger("shoal.console")

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
        self._web = WebServer(config, "shoal-console", CONNECTIONS_MAX)
        #: Where it is.
        self.url = self._web.url
        self._bus: shoal.Bus | None = None
        with contextlib.ExitStack() as undo:
            undo.callback(self._web.close)
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
                access=Access(
                    self._tokens, cookie_name(self._web.port, is_tls=config.is_tls), is_tls=config.is_tls
                ),
                audit=self._audit,
                histories=self._histories,
                domain=named,
                bus=bus,
                acts=None
                if bus is None or connect is None
                else Acts(bus, lambda id_: connect(client_id=id_)),
                hosts=None if bus is None else Hosts(bus, keys),
            )
            self._console, hosts = Console(self._parts), config.hosts(self._web.port)
            self._web.start(make_app(self._console, lambda: hosts, load()), self._console.run)
            undo.pop_all()
        notices.CONSOLE_READY(url=self.url).log(log)

    @property
    def login_url(self) -> str | None:
        """Where a browser is logged in at once, if the console has a token for one run."""
        return f"{self.url}/#token={self._tokens.token.text}" if isinstance(self._tokens, OneToken) else None

    @property
    def token(self) -> str | None:
        """The token for one run, if there is one."""
        return self._tokens.token.text if isinstance(self._tokens, OneToken) else None

    def close(self) -> None:
        """End it. Closing again does nothing."""
        self._web.close()
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
