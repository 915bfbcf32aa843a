"""Connection factories: where a program's connections come from."""

from typing import Any, Unpack

from shoal.bus.sync import Bus
from shoal.config import ConnectOptions, resolve, split_client, split_roles
from shoal.errors import InvalidArgumentError, JMSSecurityError
from shoal.jms.acknowledge_mode import AcknowledgeMode, checked_mode
from shoal.jms.connection import Connection
from shoal.jms.context import JMSContext
from shoal.jms.failures import translating
from shoal.jms.java_names import JavaNames
from shoal.jms.message import DEFAULT_DELIVERY_MODE, checked_delivery_mode
from shoal.jms.options import JMSOptions
from shoal.jms.shared import join_shared, node_of


class ConnectionFactory(JavaNames):
    """Makes connections. May be shared between threads; it holds nothing open itself.

    Args:
        url: as for `shoal.connect`; all connections of this process with the same URL and options share a
            node.
        bus: a bus of the program's own in place of a URL; the program closes it.
        unacknowledged_max: messages that a session may deliver before some are acknowledged or committed.
        redeliveries_max: how often a message whose listener raises is delivered again.
        queue_bytes_max: what may wait for a consumer of a topic.
        prefetch: messages that a store hands to a consumer ahead of its reading.
        default_delivery_mode: what producers begin with; JMS says persistent, which needs a store.
        options: the options of `shoal.connect`; `client_id` is that of the JMS connection.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        bus: Bus | None = None,
        unacknowledged_max: int = JMSOptions.unacknowledged_max,
        redeliveries_max: int = JMSOptions.redeliveries_max,
        queue_bytes_max: int = JMSOptions.queue_bytes_max,
        prefetch: int = JMSOptions.prefetch,
        default_delivery_mode: int = DEFAULT_DELIVERY_MODE,
        **options: Unpack[ConnectOptions],
    ) -> None:
        client_id = options.pop("client_id", None)
        if bus is not None and (url is not None or options):
            raise InvalidArgumentError("give a URL with options, or a bus, and not both")
        if bus is not None and not isinstance(bus, Bus):
            raise InvalidArgumentError(f"bus is {bus!r}, and must be what shoal.connect returns")
        if bus is None:
            # A mistake is told now, and not when somebody connects.
            with translating():
                rest, client = split_client(options)
                if client.destinations is not None:
                    raise InvalidArgumentError(
                        "destinations is for shoal.connect: a JMS producer has priority and ttl itself"
                    )
                resolve(url, split_roles(rest)[0])
        self._url = url
        self._bus = bus
        self._client_id = client_id
        self._given: dict[str, Any] = dict(options)
        self._options = JMSOptions(
            unacknowledged_max=unacknowledged_max,
            redeliveries_max=redeliveries_max,
            queue_bytes_max=queue_bytes_max,
            prefetch=prefetch,
            default_delivery_mode=checked_delivery_mode(default_delivery_mode),
        )

    def create_connection(self, user_name: str | None = None, password: str | None = None) -> Connection:
        """A connection, stopped.

        Raises:
            JMSSecurityError: a user name was given: a domain knows no users, its key admits its members.
            InvalidClientIDError: the factory's client id is in use.
            JMSError: the network cannot be used.
        """
        if user_name is not None or password is not None:
            raise JMSSecurityError(
                "Shoal knows no user names and passwords: who has the domain's key is a member (key_file)"
            )
        if self._bus is None:
            node, number = join_shared(self._url, self._given)
        else:
            node = node_of(self._bus)
            number = node.join()
        return Connection(node, number, self._options, self._client_id)

    def create_context(
        self,
        session_mode: int = AcknowledgeMode.AUTO_ACKNOWLEDGE,
        *,
        user_name: str | None = None,
        password: str | None = None,
    ) -> JMSContext:
        """A connection and a session in one, for the simplified API."""
        checked_mode(session_mode)
        return JMSContext._first(self.create_connection(user_name, password), session_mode)

    def __repr__(self) -> str:
        return f"ConnectionFactory({self._url if self._bus is None else self._bus!r})"
