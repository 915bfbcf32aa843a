"""What both kinds of connection, threaded and asyncio, show without waiting."""

from typing import Any, NoReturn

from shoal.bus.arguments import check_cost
from shoal.bus.connection import Connection
from shoal.bus.elsewhere import hint
from shoal.bus.statistics import Statistics
from shoal.config import ConnectionConfig
from shoal.config.target import target_of
from shoal.link.admission import Admit
from shoal.link.state import LinkState, NetworkLink, NetworkNode

_PUBLISH = "publish(topic, body) reaches every subscriber, queue(name).send(body) one receiver"
_RECEIVE = "iterate over subscribe(pattern), or call its receive(); queue(name).receive() takes from a queue"
#: What other systems call what a connection does.
_ELSEWHERE = {
    **dict.fromkeys(("send", "emit", "produce", "put", "xadd", "basic_publish"), _PUBLISH),
    **dict.fromkeys(("receive", "recv", "get", "poll", "consume", "xread"), _RECEIVE),
    **dict.fromkeys(("on", "on_message", "add_listener"), "subscribe(pattern, callback) calls a function"),
    "ack": "message.ack() acknowledges a message of a store",
    "commit": "use `with bus.transaction() as tx`",
    **dict.fromkeys(("nack", "nak", "reject", "release"), "message.release() gives one back"),
    **dict.fromkeys(("stop", "drain", "term"), "close() delivers what is under way, and leaves"),
    **dict.fromkeys(
        ("jetstream", "stream"), "publish(…, persistent=True) and subscribe(…, durable=name) use a store"
    ),
    **dict.fromkeys(("psubscribe", "listen_to"), "subscribe(pattern) takes wildcards: * and >"),
    "loop_forever": "run() waits until the connection is closed",
    "set": "publish(topic, value, retain=True) keeps the last value",
}


class Handle:
    """A connection as its owner holds it: what it is, who is there, what it did."""

    def __init__(self, config: ConnectionConfig) -> None:
        self._connection = Connection(config)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a connection cannot be pickled: connect in the process that uses it")

    @property
    def config(self) -> ConnectionConfig:
        """How it was configured."""
        return self._connection.config

    @property
    def store(self) -> Any:
        """The store of this process, a `shoal.store.Store`; `None` if it was not asked for."""
        return self._connection.store

    @property
    def node(self) -> int:
        """Our node id; another one if a node was met that had the same."""
        return self._connection.node.node

    @property
    def publisher(self) -> int:
        """Who publishes here: a number drawn when the connection was made, which every message carries."""
        return self._connection.node.publisher

    def message_id(self, number: int, priority: int = 4, *, topic: str = "") -> str | None:
        """The identity of a message that `publish` returned the number of, as its readers see it.

        The receipt of a persistent message has its identity.

        Args:
            number: what `publish` returned.
            priority: the message's.
            topic: the message's; it matters only if it starts with `_`.
        """
        return self._connection.node.message_id(number, priority, topic=topic)

    @property
    def members(self) -> list[int]:
        """The node ids of all other members of the domain."""
        return self._connection.node.members

    def subscribers(self, topic: str) -> list[int]:
        """The node ids of a topic's subscribers, as far as known; our own among them if we subscribe."""
        return self._connection.node.subscribers(topic)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._connection.closed

    @property
    def rate_bytes_per_s(self) -> float | None:
        """Bytes per second that may be sent now; `None` is without limit, without a network, or closed."""
        return self._connection.node.rate_bytes_per_s

    @property
    def links(self) -> list[LinkState]:
        """The links and the listeners as they are now; empty without a network, and once it is closed."""
        return [] if self.closed else self._connection.link_states()

    @property
    def network(self) -> list[NetworkNode]:
        """The whole network as this node knows it: routers, nodes with several links, where those lead.

        A node that is no router and has one link knows only itself.
        """
        if self.closed:
            return []
        return [
            NetworkNode(
                publisher=publisher,
                router=router,
                links=tuple(
                    NetworkLink(shared=shared, neighbours=tuple(neighbours)) for shared, neighbours in links
                ),
            )
            for publisher, router, links in self._connection.node.network()
        ]

    def listen(self, url: str, *, admit: Admit | None = None, cost: int | None = None) -> str:
        """Let others connect to one more place, such as `tcp://address:port`, and return its URL.

        Over `tcp`, `tls`, `ws`, `wss` or a link of your own.

        Args:
            url: where.
            admit: decides who is let in, as in `shoal.listen`; all programs if not given.
            cost: what a step over each of these links costs, as in `connect`.

        Raises:
            LinkError: that cannot be listened at.
        """
        check_cost(cost)
        return self._connection.keeper().listen(target_of(url, self.config.port), admit, cost)

    def reload_keys(self) -> None:
        """Read the key file again, and go on with the keys in it: the first encrypts, all of them decrypt.

        The certificates of links over TLS are read again, too, for connections that are made from now on.
        """
        self._connection.reload_keys()

    def load(self) -> dict[str, Any]:
        """What this node counted of messages: totals, and under `rows` the same for each link and lane.

        `received` messages came from a place, `matched` are those that a subscription wanted, `evaluated`
        filters were looked at for them; `delivered` copies went there, `dropped_at_source` did not, because
        no subscription there wants them. `cpu_ns` is the processor time of the node's threads.
        """
        return {**self._connection.node.load()}

    def stats(self) -> dict[str, int]:
        """What this node did so far.

        Messages received, matched and delivered, filters evaluated, processor time of the node's threads;
        datagrams, bytes and repairs of a network.
        """
        return self._connection.node.stats()

    def statistics(self) -> Statistics:
        """What was sent by multicast and how members took it, as iBus counted; 0 without multicast."""
        return self._connection.statistics()

    def metrics(self) -> str:
        """What `/metrics` serves with `connect(metrics=…)`, in the text format of Prometheus."""
        return self._connection.watch().metrics()

    @property
    def metrics_url(self) -> str | None:
        """Where `/metrics` is served; `None` if that was not asked for."""
        return self._connection.watch().url

    def link(self) -> dict[str, Any]:
        """The interface and the address in use, the receive buffer granted and the last error of a socket.

        Empty without a network, and once it is closed.
        """
        return self._connection.link()


hint(Handle, _ELSEWHERE)
