"""Links of datagrams as `bus.links` shows them: one for all members of a group."""

import threading
import time
from collections.abc import Callable

from shoal import _core
from shoal.config import ConnectionConfig
from shoal.link.state import LinkState, Role

#: Rates are taken over at least this time.
_SPAN_S = 1.0


class Rates:
    """Bytes in a second, from totals that are looked at now and then."""

    def __init__(self) -> None:
        self._seen: tuple[float, tuple[int, ...]] | None = None
        self._rates: tuple[float, ...] = ()

    def update(self, now: float, totals: tuple[int, ...]) -> tuple[float, ...]:
        """The rates since the last look that was at least a second ago; 0 at the first."""
        if self._seen is None:
            self._seen, self._rates = (now, totals), (0.0,) * len(totals)
            return self._rates
        since, before = self._seen
        if now - since >= _SPAN_S:
            self._rates = tuple((new - old) / (now - since) for new, old in zip(totals, before, strict=True))
            self._seen = (now, totals)
        return self._rates


class Group:
    """The datagrams of a node. May be shared between threads."""

    def __init__(
        self,
        node: _core.Node,
        config: ConnectionConfig,
        number: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._number, self._clock = node, number, clock
        self.url = config.where()
        self._reliable = config.scheme == "norm"
        self._role: Role = "group" if config.host is None else "listen" if config.listen else "connect"
        self._rates = Rates()
        self._lock = threading.Lock()

    @property
    def link(self) -> int:
        """What the extension calls it when it tells of it."""
        return int((self._node.norm_link(self._number) or {}).get("link", 0)) if self._reliable else 0

    @property
    def address(self) -> str:
        """Our own address in it."""
        if self._reliable:
            return str((self._node.norm_link(self._number) or {}).get("address", ""))
        described = self._node.describe_link()
        return "" if described is None else described[1]

    def state(self) -> LinkState:
        """The link as it is now."""
        if self._reliable:
            told = self._node.norm_link(self._number) or {}
            stats, address, why = told.get("stats", {}), told.get("address", ""), told.get("down")
            round_trip_s = told.get("round_trip_s")
        else:
            told = {}
            described = self._node.describe_link()
            stats, address = self._node.stats(), "" if described is None else described[1]
            why, round_trip_s = self._node.udp_down(), None
        traffic = ("messages_sent", "messages_received", "resting")
        totals = (stats.get("bytes_sent", 0), stats.get("bytes_received", 0))
        with self._lock:
            sent_rate, received_rate = self._rates.update(self._clock(), totals)
        unsent, lacking = self._node.backlog()
        return LinkState(
            url=self.url,
            role=self._role,
            state="reconnecting" if why else "listening" if self._role == "listen" else "up",
            why=why or "",
            reliable=self._reliable,
            address=address,
            round_trip_s=round_trip_s,
            bytes_sent=totals[0],
            bytes_received=totals[1],
            **{name: told[name] for name in traffic if name in told},
            send_bytes_per_s=sent_rate,
            receive_bytes_per_s=received_rate,
            unsent_bytes=unsent,
            unacknowledged_bytes=sum(lacks for _, lacks in lacking),
            connections=len(self._node.members),
        )
