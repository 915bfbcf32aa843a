"""The gateway beside a daemon: on its LAN as a member of its own, or else joined with its router."""

import contextlib
import dataclasses
from collections.abc import AsyncIterator

from shoal.bus import operations
from shoal.bus.aio import Bus, connect_with
from shoal.bus.connection import Connection
from shoal.config.roles import ClientConfig
from shoal.daemon.config import DaemonConfig
from shoal.errors import ConfigError
from shoal.gateway.config import GatewayConfig
from shoal.gateway.server import GatewayThread


def open_gateway(config: DaemonConfig, gateway: GatewayConfig, beside: Connection) -> GatewayThread:
    """Open the gateway of a daemon, whose own connection is `beside`.

    Raises:
        ConfigError: there is no link over which it could reach others, or an address cannot be used.
    """
    client = ClientConfig(token_file=gateway.token_file)
    lan = config.lan()
    if lan is not None:
        return GatewayThread(gateway, lambda: connect_with(lan, client))
    if not config.roles.router:
        raise ConfigError(
            "the role gateway needs a link with a multicast group (url = 'norm://'), or the role router"
        )

    @contextlib.asynccontextmanager
    async def joined() -> AsyncIterator[Bus]:
        bus = connect_with(dataclasses.replace(config.connection, router=False), client)
        # It has one link, with the daemon, and dials no address.
        bus._connects = False
        async with bus:
            own = bus._connection
            await bus._doorbell.run(operations.settle(own, [own.keeper().join(beside.keeper())]))
            yield bus

    return GatewayThread(gateway, joined)
