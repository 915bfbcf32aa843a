"""The console beside a daemon: on its LAN as a member of its own, or else joined with its router."""

import dataclasses
from typing import Any

from shoal.bus import operations
from shoal.bus.connection import Connection
from shoal.bus.sync import Bus
from shoal.bus.waiting import run
from shoal.config.roles import ClientConfig
from shoal.console import open_console
from shoal.console.config import ConsoleConfig
from shoal.console.service import ConsoleServer
from shoal.daemon.config import DaemonConfig
from shoal.errors import ConfigError


def open_beside(config: DaemonConfig, console: ConsoleConfig, beside: Connection) -> ConsoleServer:
    """Open the console of a daemon, whose own connection is `beside`.

    Raises:
        ConfigError: there is no link over which it could reach others, or an address cannot be used.
    """
    lan = config.lan()
    if lan is None and not config.roles.router:
        raise ConfigError(
            "the role console needs a link with a multicast group (url = 'norm://'), or the role router"
        )

    def connect(**options: Any) -> Bus:
        bus = Bus(lan or dataclasses.replace(config.connection, router=False))
        own = bus._connection
        own.take_client(ClientConfig(**options))
        if lan is None:
            run(own, operations.settle(own, [own.keeper().join(beside.keeper())]))
        return bus

    return open_console(console, connect)
