"""The table `topics`: what nodes subscribe to, and what stores recorded.

Nothing is subscribed to for this table, so that a console costs publishers nothing. A topic's rate is known
where a store records it.
"""

import re
from typing import Any

from shoal.bus.events import MemberLeft, SubscriptionsChanged
from shoal.console.look import Look
from shoal.console.rates import Rates
from shoal.console.state import Row

#: Patterns of one node, and topics, that are shown.
PATTERNS_MAX, TOPICS_MAX = 10_000, 10_000
#: Subscribers of a topic that are listed one by one.
NODES_LISTED = 100
#: Where a store takes the requests of its clients.
_REQUESTS = re.compile(r"_store/[0-9a-f]{16}/in")


class Topics:
    """Subscriptions of nodes, and topics of stores."""

    def __init__(self) -> None:
        self._patterns: dict[str, set[int]] = {}
        self._stored: dict[str, tuple[str, int, float | None]] = {}
        self._rates = Rates()

    def update(self, look: Look) -> None:
        """Take the events and topics of a look."""
        for event in look.events:
            match event:
                case SubscriptionsChanged(node, added, removed):
                    for pattern in removed:
                        self._remove(pattern, node)
                    for pattern in added:
                        if len(self._patterns) < PATTERNS_MAX or pattern in self._patterns:
                            self._patterns.setdefault(pattern, set()).add(node)
                case MemberLeft(node, _):
                    for pattern in list(self._patterns):
                        self._remove(pattern, node)
        if look.topics is not None:
            self._rates.turn()
            self._stored = {
                topic: (store, count, self._rates.of((store, topic), look.at_s, count))
                for store, topics in look.topics.items()
                for topic, count in topics.items()
            }

    def _remove(self, pattern: str, node: int) -> None:
        nodes = self._patterns.get(pattern)
        if nodes is not None:
            nodes.discard(node)
            if not nodes:
                del self._patterns[pattern]

    def rows(self) -> dict[str, Row]:
        """The table. Reserved topics, and queues, are not in it."""
        names = [name for name in {**self._patterns, **self._stored} if not name.startswith("_")]
        return {name: self._row(name) for name in sorted(names)[:TOPICS_MAX]}

    def _row(self, name: str) -> dict[str, Any]:
        nodes = self._patterns.get(name, ())
        store, count, rate = self._stored.get(name, ("", None, None))
        return {
            "pattern": "*" in name or name.endswith(">"),
            "nodes": [str(node) for node in sorted(nodes)[:NODES_LISTED]],
            "subscribers": len(nodes),
            "store": store,
            "stored": count,
            "rate": rate,
        }

    def stores(self) -> set[int]:
        """The nodes that take the requests of a store's clients."""
        found = (nodes for pattern, nodes in self._patterns.items() if _REQUESTS.fullmatch(pattern))
        return {node for nodes in found for node in nodes}
