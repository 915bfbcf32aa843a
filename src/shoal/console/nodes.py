"""The tables `nodes` and `links`: statuses of nodes become rows with rates, and silence becomes a state.

A node that answered once and is silent for `SILENT_S` is `silent`; one of which the failure detector says
that it failed is `failed`. Both stay in view for `GONE_S`, so that an operator sees what is missing. A node
that said goodbye goes at once.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shoal.bus.events import Event, MemberLeft
from shoal.console.look import Look, count, mapping, mappings, number, rounded, text, texts
from shoal.console.rates import Rates
from shoal.console.state import Row

#: Time without an answer after which a node is silent: two questions.
SILENT_S = 2.0
#: How long a node that is silent, or failed, stays in view.
GONE_S = 120.0
#: Nodes, and links of one node, that are shown.
NODES_MAX, LINKS_MAX = 10_000, 256
#: A start that moves by less is the same start.
_START_S = 3.0


@dataclass(slots=True)
class _Node:
    row: dict[str, Any]
    links: dict[str, Row]
    seen_s: float
    failed: bool = False


class Nodes:
    """The nodes of a domain, as they answered."""

    def __init__(self) -> None:
        self._nodes: dict[int, _Node] = {}
        self._rates = Rates()
        #: When the last look was.
        self._at_s = 0.0

    def update(self, look: Look) -> None:
        """Take the answers and events of a look."""
        self._rates.turn()
        self._at_s = look.at_s
        self._note(look.events)
        lans = _Lans(look.statuses)
        for status in look.statuses:
            node = status.get("node")
            if not isinstance(node, int) or isinstance(node, bool):
                continue
            if node in self._nodes or len(self._nodes) < NODES_MAX:
                self._answered(look, node, status, lans)
        self._members(look)
        for node, seen in list(self._nodes.items()):
            quiet_s = look.at_s - seen.seen_s
            if quiet_s > GONE_S or (not seen.row["answers"] and node not in look.members and not seen.failed):
                del self._nodes[node]
            else:
                self._grade(seen, quiet_s)

    def _note(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case MemberLeft(node, False):
                    self._nodes.pop(node, None)
                case MemberLeft(node, True) if node in self._nodes:
                    self._nodes[node].failed = True

    def _answered(self, look: Look, node: int, status: Mapping[str, Any], lans: "_Lans") -> None:
        links, before = mappings(status.get("links"), LINKS_MAX), self._nodes.get(node)
        rows = dict(self._link(look.at_s, node, link, lans) for link in links)
        started = round(look.wall_s - float(number(status.get("uptime_s")) or 0.0), 1)
        if before is not None and abs(before.row.get("started", 0.0) - started) < _START_S:
            started = before.row["started"]
        row = _about(node, status) | {
            "started": started,
            "lans": sorted({str(each["lan"]) for each in rows.values() if each["lan"]}),
            **self._measures(look.at_s, node, status, links),
        }
        self._nodes[node] = _Node(row, rows, look.at_s)

    def _measures(
        self, at_s: float, node: int, status: Mapping[str, Any], links: list[Mapping[str, Any]]
    ) -> dict[str, Any]:
        def total(name: str) -> float:
            return sum(number(link.get(name)) or 0 for link in links)

        def rate(name: str, value: float | int | None) -> float | None:
            return self._rates.of((node, name), at_s, value)

        sent, told = mapping(status.get("statistics")), mapping(status.get("capacity"))
        datagrams, asked = (
            rate(name, number(sent.get(name))) for name in ("datagrams_sent", "retransmit_requests")
        )
        trips = [found for link in links if (found := number(link.get("round_trip_s"))) is not None]
        cpu = rate("cpu", number(status.get("cpu_s")))
        return {
            "sent_s": rate("sent", total("messages_sent")),
            "received_s": rate("received", total("messages_received")),
            "out_bps": rounded(8 * (rate("out", total("bytes_sent")) or 0.0)),
            "in_bps": rounded(8 * (rate("in", total("bytes_received")) or 0.0)),
            "repair": None
            if datagrams is None or asked is None
            else round(asked / datagrams, 4)
            if datagrams
            else 0.0,
            "rtt_ms": rounded(1000 * max(trips)) if trips else None,
            "window": int(total("unacknowledged_bytes") + total("unsent_bytes")),
            "cpu": None if cpu is None else round(cpu, 2),
            "load": None if not told else round(number(told.get("load")) or 0.0, 2),
            "low": bool(told.get("low")),
        }

    def _link(self, at_s: float, node: int, link: Mapping[str, Any], lans: "_Lans") -> tuple[str, Row]:
        name, peer = text(link.get("name")), text(link.get("peer"))
        lan = lans.of(link)
        key = f"{node}|{name}|{peer or text(link.get('address'))}"
        trip = number(link.get("round_trip_s"))
        rates = {
            short: self._rates.of((key, short), at_s, number(link.get(name_)))
            for short, name_ in (("out", "bytes_sent"), ("in", "bytes_received"))
        }
        return key, {
            "node": str(node),
            "name": name,
            "peer": peer,
            "lan": lan,
            "kind": text(link.get("kind")) or name.partition(":")[0],
            "role": text(link.get("role")) or ("group" if lan else ""),
            "state": text(link.get("state")),
            "up": bool(link.get("up")),
            "why": text(link.get("why")),
            "address": text(link.get("address")),
            "out_bps": rounded(8 * (rates["out"] or 0.0)),
            "in_bps": rounded(8 * (rates["in"] or 0.0)),
            "rtt_ms": None if trip is None else rounded(1000 * trip),
            "unsent": count(link.get("unsent_bytes")),
            "connections": count(link.get("connections")),
        }

    def _members(self, look: Look) -> None:
        """Members that do not answer: all that is known of them is their id."""
        for node in look.members:
            known = self._nodes.get(node)
            if known is not None and not known.row["answers"]:
                known.seen_s = look.at_s
            elif known is None and node != look.own_node and len(self._nodes) < NODES_MAX:
                self._nodes[node] = _Node(_unknown(node), {}, look.at_s)

    @staticmethod
    def _grade(seen: _Node, quiet_s: float) -> None:
        """How a node is: the state that an operator sees."""
        if seen.failed:
            state = "failed"
        elif quiet_s > SILENT_S:
            state = "silent"
        else:
            state = "trouble" if seen.row["trouble"] or seen.row["low"] else "up"
        if seen.row["state"] != state:
            seen.row = {**seen.row, "state": state}

    def know_stores(self, nodes: Iterable[int], names: Iterable[str]) -> None:
        """Nodes that take the requests of clients are stores, though they do not answer."""
        names = list(names)
        for node in nodes:
            seen = self._nodes.get(node)
            if seen is not None and not seen.row["answers"] and seen.row["kind"] != "store":
                named = len(names) == 1 and names[0] != "store"
                name = f"store {names[0]}" if named else "store"
                seen.row = {**seen.row, "kind": "store", "name": name}

    # --- getters ---

    def rows(self) -> dict[str, Row]:
        """The table `nodes`."""
        return {str(node): seen.row for node, seen in self._nodes.items()}

    def links(self) -> dict[str, Row]:
        """The table `links`."""
        return {key: row for seen in self._nodes.values() for key, row in seen.links.items()}

    @property
    def is_unsure(self) -> bool:
        """Whether a node that is not known to be silent did not answer the last question."""
        return any(
            seen.row["answers"] and seen.seen_s < self._at_s and seen.row["state"] not in ("silent", "failed")
            for seen in self._nodes.values()
        )

    def name_of(self, node: int) -> str:
        """What people call a node."""
        seen = self._nodes.get(node)
        return str(node) if seen is None else str(seen.row["name"])


def _about(node: int, status: Mapping[str, Any]) -> dict[str, Any]:
    roles = texts(status.get("roles"), 16)
    kind = text(status.get("kind")) or "daemon"
    return {
        "id": str(node),
        "answers": True,
        "state": "up",
        "name": text(status.get("name")) or str(node),
        "kind": "store" if kind == "program" and "store" in roles else kind,
        "host": text(status.get("host")),
        "pid": count(status.get("pid")),
        "version": text(status.get("version"), 32),
        "roles": roles,
        "trouble": "" if status.get("healthy", True) else text(status.get("trouble")) or "not healthy",
        "members": count(status.get("members")),
        "memory": count(status.get("rss_bytes")) // 1_000_000 * 1_000_000,
        "lost": count(status.get("events_lost")),
        "slow": count(status.get("slow_members")),
        "reloads": count(status.get("reloads")),
    }


def _unknown(node: int) -> dict[str, Any]:
    nothing: dict[str, Any] = dict.fromkeys(
        ("sent_s", "received_s", "out_bps", "in_bps", "repair", "rtt_ms", "cpu", "load"), None
    )
    return nothing | {
        **_about(node, {}),
        "kind": "node",
        "answers": False,
        "lans": [],
        "window": 0,
        "low": False,
        "started": 0.0,
    }


class _Lans:
    """Which LAN a multicast link is on.

    Daemons name the network, programs only the group and their address.
    """

    def __init__(self, statuses: Iterable[Mapping[str, Any]]) -> None:
        self._of_group: dict[str, list[tuple[Any, str]]] = {}
        for status in statuses:
            for link in mappings(status.get("links"), LINKS_MAX):
                if lan := text(link.get("lan")):
                    group, _, where = lan.partition(" on ")
                    found = self._of_group.setdefault(group, [])
                    if all(lan != each for _, each in found) and len(found) < 64:
                        found.append((_network(where), lan))

    def of(self, link: Mapping[str, Any]) -> str:
        """The LAN of a link; empty if it leads to one program."""
        if lan := text(link.get("lan")):
            return lan
        name = text(link.get("name"))
        if link.get("role") != "group" or not name.startswith("norm:"):
            return ""
        known = self._of_group.get(name, ())
        if len(known) == 1:
            return known[0][1]
        address = _address(text(link.get("address")).rpartition(":")[0])
        here = (lan for network, lan in known if network and address and address in network)
        return next(here, name)


def _network(where: str) -> Any:
    try:
        return ipaddress.ip_network(where, strict=False)
    except ValueError:
        return None


def _address(host: str) -> Any:
    try:
        return ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return None
