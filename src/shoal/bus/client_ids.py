"""Client ids: which of them the live connections of a domain have, those of the bus and those of JMS.

The owner of one subscribes to a topic that is named after it. Of two connections of the bus a store refuses
the second. It does not know those of JMS, of which many share one connection of the bus, and so one of the
bus and one of JMS look for each other.
"""

import hashlib

from shoal import _core
from shoal.errors import InUseError


class Claim:
    """The client id of a connection of the bus, from when it needs a store until it is closed."""

    def __init__(self, node: _core.Node, client_id: str) -> None:
        self._node, self._client_id = node, client_id
        self._subscription = node.open_subscription(
            bus_topic(client_id), queue_bytes_max=1, when_full="drop_new"
        )

    def check(self) -> None:
        """Refuse to use it beside a connection of JMS.

        Raises:
            InUseError: there is one with the same client id, of another node.
        """
        if has_others(self._node, jms_topic(self._client_id)):
            raise InUseError(
                f"the client id {self._client_id!r} is in use by a connection of JMS: close that one first, "
                "or connect with another client_id"
            )


def bus_topic(client_id: str) -> str:
    """What a connection of the bus with this client id subscribes to."""
    return f"_client/bus/{_hashed(client_id)}"


def jms_topic(client_id: str) -> str:
    """What a connection of JMS with this client id subscribes to."""
    return f"_client/{_hashed(client_id)}"


def has_others(node: _core.Node, topic: str) -> bool:
    """Whether other nodes are known that subscribe to a topic."""
    return bool(set(node.subscribers(topic)) - {node.node})


def _hashed(client_id: str) -> str:
    return hashlib.sha256(client_id.encode()).hexdigest()
