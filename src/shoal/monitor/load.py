"""What a node counted of messages, as a status has it: totals, and a row for each lane."""

from collections.abc import Mapping
from typing import Any

#: What `Node.load` counts for each link and lane.
COUNTERS = (
    *("received", "evaluated", "matched", "delivered", "dropped_at_source"),
    *("bytes_in", "bytes_out"),
)


def load_status(load: Mapping[str, Any]) -> dict[str, Any]:
    """Totals, the processor time of the node's threads, and the same counters lane by lane."""
    lanes: dict[str, dict[str, Any]] = {}
    for row in load["rows"]:
        lane = lanes.setdefault(row["lane"], {"lane": row["lane"], **dict.fromkeys(COUNTERS, 0)})
        for name in COUNTERS:
            # Links count what did not cross them. A message that crosses none is dropped once.
            if name != "dropped_at_source" or row["place"] == "here":
                lane[name] += row[name]
    return {**{name: load[name] for name in COUNTERS}, "cpu_ns": load["cpu_ns"], "lanes": [*lanes.values()]}


def totals(stats: Mapping[str, int]) -> dict[str, int]:
    """The totals of `Node.load` from `Node.stats`, which makes no row for each link."""
    return {
        "received": stats["messages_received"],
        "evaluated": stats["filters_evaluated"],
        "matched": stats["messages_matched"],
        "delivered": stats["messages_delivered"],
        "dropped_at_source": stats["messages_dropped_at_source"],
        "bytes_in": stats["message_bytes_in"],
        "bytes_out": stats["message_bytes_out"],
        "cpu_ns": stats["cpu_ns"],
    }
