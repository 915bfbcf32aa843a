"""What `shoal top` shows: the statuses of a domain's nodes as rows, with rates since the look before.

It sees no terminal, no bus and no clock: statuses and their time come in, rows come out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

Page = Literal["nodes", "links", "queues"]
PAGES: tuple[Page, ...] = ("nodes", "links", "queues")
#: A node that does not answer for this time is shown no more.
GONE_S = 10.0
#: Nodes that are shown at the most; of more, the first that answered.
NODES_MAX = 10_000

Cell = str | float | int | None
Row = dict[str, Cell]

#: Columns of each page: the key in a row, its heading, and how to print it.
COLUMNS: Mapping[Page, Sequence[tuple[str, str, str]]] = {
    "nodes": (
        ("name", "NAME", "s"),
        ("host", "HOST", "s"),
        ("pid", "PID", "d"),
        ("messages_per_s", "MSG/S", ",.0f"),
        ("sent_mbit_s", "OUT MBIT/S", ",.2f"),
        ("received_mbit_s", "IN MBIT/S", ",.2f"),
        ("retransmit_share", "REPAIR", ".2%"),
        ("round_trip_ms", "RTT MS", ".2f"),
        ("unacknowledged_bytes", "WINDOW", ",.0f"),
        ("slow_members", "SLOW", "d"),
        ("events_lost", "LOST", "d"),
        ("load", "LOAD", ".1%"),
        ("memory_mb", "MEMORY MB", ",.0f"),
    ),
    "links": (
        ("node", "NODE", "s"),
        ("name", "LINK", "s"),
        ("peer", "PEER", "s"),
        ("state", "STATE", "s"),
        ("sent_mbit_s", "OUT MBIT/S", ",.2f"),
        ("received_mbit_s", "IN MBIT/S", ",.2f"),
        ("round_trip_ms", "RTT MS", ".2f"),
        ("unsent_bytes", "UNSENT", ",.0f"),
        ("unacknowledged_bytes", "WINDOW", ",.0f"),
    ),
    "queues": (
        ("store", "STORE", "s"),
        ("name", "QUEUE", "s"),
        ("kind", "KIND", "s"),
        ("messages", "MESSAGES", ",d"),
        ("bytes", "BYTES", ",d"),
        ("in_flight", "IN FLIGHT", ",d"),
        ("consumers", "CONSUMERS", "d"),
        ("oldest_s", "OLDEST S", ",.1f"),
    ),
}


@dataclass(slots=True)
class _Seen:
    """The last status of a node, and the one before it."""

    at_s: float
    status: Mapping[str, Any]
    before_s: float = 0.0
    before: Mapping[str, Any] | None = None


class Board:
    """The nodes of a domain as they answered."""

    def __init__(self) -> None:
        self._seen: dict[int, _Seen] = {}

    def update(self, now_s: float, statuses: Iterable[Mapping[str, Any]]) -> None:
        """Take the answers of one round."""
        for status in statuses:
            node = status.get("node")
            if not isinstance(node, int) or not isinstance(status.get("links"), list):
                continue
            seen = self._seen.get(node)
            if seen is not None:
                self._seen[node] = _Seen(now_s, status, seen.at_s, seen.status)
            elif len(self._seen) < NODES_MAX:
                self._seen[node] = _Seen(now_s, status)
        for node in [node for node, seen in self._seen.items() if now_s - seen.at_s > GONE_S]:
            del self._seen[node]

    @property
    def has_rates(self) -> bool:
        """Whether every node answered twice."""
        return bool(self._seen) and all(seen.before is not None for seen in self._seen.values())

    def rows(self, page: Page, *, sort: str | None = None, matching: str = "") -> list[Row]:
        """The rows of a page: those that contain a text, the greatest first, or in the order of names."""
        make = {"nodes": _node_rows, "links": _link_rows, "queues": _queue_rows}[page]
        found = [row for seen in self._seen.values() for row in make(seen)]
        if matching:
            wanted = matching.casefold()
            texts = [" ".join(str(cell) for cell in row.values() if isinstance(cell, str)) for row in found]
            found = [row for row, text in zip(found, texts, strict=True) if wanted in text.casefold()]
        first = COLUMNS[page][0][0]
        found.sort(key=lambda row: (str(row.get(first)), str(row.get("name")), str(row.get("peer"))))
        if sort is not None and any(isinstance(row.get(sort), int | float) for row in found):
            found.sort(key=lambda row: -float(row.get(sort) or 0))
        elif sort is not None:
            found.sort(key=lambda row: str(row.get(sort)))
        return found

    def as_dict(self) -> dict[str, list[Row]]:
        """Every page, for programs."""
        return {page: self.rows(page) for page in PAGES}


def _rate(seen: _Seen, new: Any, old: Any) -> float | None:
    """How much a counter grew in a second; `None` at the first look, or after a restart."""
    passed = seen.at_s - seen.before_s
    if seen.before is None or new is None or old is None or passed <= 0 or new < old:
        return None
    return float(new - old) / passed


def _total(status: Mapping[str, Any] | None, name: str) -> float | None:
    if status is None:
        return None
    return sum(float(link.get(name) or 0) for link in status["links"])


def _mbit(bytes_per_s: float | None) -> float | None:
    return None if bytes_per_s is None else 8 * bytes_per_s / 1e6


def _node_rows(seen: _Seen) -> list[Row]:
    new, old = seen.status, seen.before
    rates = {
        name: _rate(seen, _total(new, name), _total(old, name)) for name in ("bytes_sent", "bytes_received")
    }
    round_trips = [link["round_trip_s"] for link in new["links"] if link.get("round_trip_s") is not None]
    return [
        {
            "node": int(new["node"]),
            "name": str(new.get("name", "")),
            "host": str(new.get("host", "")),
            "pid": int(new.get("pid", 0)),
            "messages_per_s": _rate(seen, _total(new, "messages_sent"), _total(old, "messages_sent")),
            "sent_mbit_s": _mbit(rates["bytes_sent"]),
            "received_mbit_s": _mbit(rates["bytes_received"]),
            "retransmit_share": _share(new, old),
            "round_trip_ms": 1000 * max(round_trips) if round_trips else None,
            "unacknowledged_bytes": _total(new, "unacknowledged_bytes"),
            "slow_members": int(new.get("slow_members") or 0),
            "events_lost": int(new.get("events_lost") or 0),
            "load": _rate(seen, new.get("cpu_s"), (old or {}).get("cpu_s")),
            "memory_mb": float(new.get("rss_bytes") or 0) / 1e6,
        }
    ]


def _share(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> float | None:
    """Datagrams that members asked for again, of those sent since the look before."""
    now, then = new.get("statistics"), (old or {}).get("statistics")
    if not now or not then:
        return None
    sent = now["datagrams_sent"] - then["datagrams_sent"]
    asked = now["retransmit_requests"] - then["retransmit_requests"]
    return float(asked / sent) if sent > 0 else 0.0


def _link_rows(seen: _Seen) -> list[Row]:
    before = {_key(link): link for link in (seen.before or {}).get("links", ())}
    rows: list[Row] = []
    for link in seen.status["links"]:
        old = before.get(_key(link), {})
        rows.append(
            {
                "node": str(seen.status.get("name", "")),
                "name": str(link.get("name", "")),
                "peer": str(link.get("peer") or ""),
                "state": str(link.get("state", "")),
                "sent_mbit_s": _mbit(_rate(seen, link.get("bytes_sent"), old.get("bytes_sent"))),
                "received_mbit_s": _mbit(_rate(seen, link.get("bytes_received"), old.get("bytes_received"))),
                "round_trip_ms": None if link.get("round_trip_s") is None else 1000 * link["round_trip_s"],
                "unsent_bytes": link.get("unsent_bytes"),
                "unacknowledged_bytes": link.get("unacknowledged_bytes"),
            }
        )
    return rows


def _key(link: Mapping[str, Any]) -> tuple[Any, Any]:
    return link.get("name"), link.get("peer")


def _queue_rows(seen: _Seen) -> list[Row]:
    store = seen.status.get("store") or {}
    names = ("messages", "bytes", "in_flight", "consumers", "oldest_s")
    return [
        {"store": str(store.get("name", "")), "name": str(each.get("name", "")), "kind": kind[:-1]}
        | {name: each.get(name) for name in names}
        for kind in ("queues", "subscriptions")
        for each in store.get(kind, ())
    ]
