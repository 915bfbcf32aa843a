"""What can go wrong between and under simulated nodes: links, ports and clocks, as plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace


def _require(fine: bool, field: str, value: object, wanted: str) -> None:
    if not fine:
        raise ValueError(f"{field} must be {wanted}, not {value!r}")


@dataclass(frozen=True, kw_only=True)
class Link:
    """What the network does to datagrams on their way from one node to another."""

    loss: float = 0.0
    """Share of datagrams lost, each for itself."""
    burst_begins: float = 0.0
    """Chance per datagram that a burst of loss begins."""
    burst_ends: float = 0.0
    """Chance per datagram that a burst of loss ends; its mean length is one over this."""
    run_loss: float = 0.0
    """Share of runs lost whole: of the datagrams a node sends at once, all are lost or none."""
    duplication: float = 0.0
    """Share of datagrams that arrive twice."""
    reordering: float = 0.0
    """Share of datagrams that later ones may overtake."""
    delay_s: float = 0.0
    """The least time under way."""
    jitter_s: float = 0.0
    """Up to this much longer, at random; the order stays."""
    cut: bool = False
    """Nothing arrives."""

    def __post_init__(self) -> None:
        for field in ("loss", "burst_begins", "burst_ends", "run_loss", "duplication", "reordering"):
            value = getattr(self, field)
            _require(0.0 <= value <= 1.0, field, value, "a share from 0 to 1")
        for field in ("delay_s", "jitter_s"):
            value = getattr(self, field)
            _require(0.0 <= value < math.inf, field, value, "a number of seconds from 0 on")
        ends = self.burst_ends > 0.0 or self.burst_begins == 0.0
        _require(ends, "burst_ends", self.burst_ends, "more than 0 where bursts begin, or they never end")

    @property
    def is_lossless(self) -> bool:
        """Whether every datagram arrives."""
        return not (self.cut or self.loss or self.burst_begins or self.run_loss)

    def without_loss(self) -> Link:
        """The same link, with nothing lost any more."""
        return replace(self, loss=0.0, burst_begins=0.0, burst_ends=0.0, run_loss=0.0, cut=False)

    def __str__(self) -> str:
        changed = [
            f"{field.name}={getattr(self, field.name):g}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return f"Link({', '.join(changed)})"


@dataclass(frozen=True, kw_only=True)
class Port:
    """How fast a node's own cable is. Without rates it is as fast as one asks."""

    egress_bytes_per_s: float | None = None
    """What it can send; a node that wants more waits, as for a full socket."""
    ingress_bytes_per_s: float | None = None
    """What it can receive; what its queue cannot hold is dropped."""
    ingress_queue_bytes: int = 200_000
    """How much may wait to be received."""

    def __post_init__(self) -> None:
        for field in ("egress_bytes_per_s", "ingress_bytes_per_s"):
            value = getattr(self, field)
            _require(value is None or 1.0 <= value < math.inf, field, value, "at least 1, or None")
        _require(self.ingress_queue_bytes >= 0, "ingress_queue_bytes", self.ingress_queue_bytes, "0 or more")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """A node's own clock, which may show another time than the simulation's and run at another speed."""

    offset_s: float = 1_000.0
    """What it shows when the simulation starts."""
    skew: float = 0.0
    """How much too fast it runs: 0.01 gains a second in a hundred."""

    def __post_init__(self) -> None:
        _require(0.0 <= self.offset_s < math.inf, "offset_s", self.offset_s, "a number of seconds from 0 on")
        _require(-1.0 < self.skew <= 1.0, "skew", self.skew, "more than -1 and at most 1")
