"""The door for roles that run beside a connection: what they need beneath its public face.

A role moves whole batches between the bus and its own kernel, in Rust, so it needs the extension's objects.
Applications never do.
"""

from shoal import _core
from shoal.bus import operations
from shoal.bus.connection import Connection
from shoal.bus.store_channel import StoreChannel
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus
from shoal.bus.waiting import run
from shoal.config.roles import ClientConfig
from shoal.link.keeper import Keeper


def node_of(bus: Bus) -> _core.Node:
    """The node of a connection."""
    return bus._connection.node


def be_private(bus: Bus) -> None:
    """A connection is a part of something else, which tells what it did not deliver."""
    bus._connection.private = True


def links_of(bus: Bus) -> Keeper | None:
    """What keeps a connection's links with single programs, if it has such."""
    return bus._connection.links


def begin(bus: Bus) -> None:
    """Connect to where the address of a connection leads, as `shoal.connect` does; or to what stands in."""
    own = bus._connection
    if own.config.has_links or own.stand_in is not None:
        run(own, operations.begin(own))


def begin_instead(bus: Bus) -> None:
    """Connect where TCP stands in for multicast: to the seeds, or where programs of this machine meet."""
    own = bus._connection
    if own.stand_in is not None:
        run(own, operations.begin(own))


def join_beside(bus: Bus, beside: Connection) -> None:
    """Link a connection with another one of this process, whatever others need to connect to that."""
    own = bus._connection
    run(own, operations.settle(own, [own.keeper().join(beside.keeper())]))


def channel_to(bus: Bus, client: ClientConfig, domain: str) -> StoreChannel:
    """A way of a connection's own to the store that `client` names, in a domain that may be another one."""
    own = bus._connection
    own.client, own.private = client, True
    return StoreChannel(own, url=client.store_url, client_id=None, kept=True, domain=domain)


def core_of(subscription: Subscription) -> _core.Subscription:
    """The subscription as the extension has it. Its taker is its only reader."""
    return subscription._core
