"""The model of a node that runs, from its own counters: sums that forget, solved on demand."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.capacity.algebra import condition
from shoal.capacity.fit import Moments
from shoal.capacity.model import Model
from shoal.capacity.waiting import Replication, Waiting

#: What a second counts for one second later.
KEPT = 0.98
#: Above it the counters moved together too much to tell the coefficients apart.
CONDITION_MAX = 1e6
#: Seconds with traffic before anything is said.
SECONDS_MIN = 10
#: A load above it for this time is worth an event.
LOAD_MAX = 0.8
LOAD_MAX_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a node counted since it started."""

    received: int
    evaluated: int
    delivered: int
    bytes: int
    cpu_ns: int

    @classmethod
    def of_status(cls, status: Mapping[str, Any]) -> "Load":
        """What a daemon's `/status` says, all its links together.

        The processor time is that of the node's threads. A store works in other threads, too: its is that
        of the process.
        """
        load = status["load"]
        return cls(
            received=load["received"],
            evaluated=load["evaluated"],
            delivered=load["delivered"],
            bytes=load["bytes_in"] + load["bytes_out"],
            cpu_ns=load["cpu_ns"] if status.get("store") is None else round(status["cpu_s"] * 1e9),
        )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a node's own counters say of its capacity."""

    #: The share of one core that the node used in the last second.
    load: float
    #: Messages received in the last second.
    received_msg_s: float
    #: What one message costs, in seconds.
    processing_s: float | None = None
    #: How many times the present traffic one core would carry.
    headroom: float | None = None
    #: How long a message waits on average at this load.
    mean_wait_s: float | None = None
    #: t_rcv, t_eval, t_tx, t_byte, where the traffic varied enough to tell them apart.
    coefficients: tuple[float, ...] | None = None
    #: The same of the packaged model, scaled to what a message costs here: until `coefficients` are known.
    assumed: tuple[float, ...] | None = None
    #: Why a figure is missing.
    why: str | None = None


@dataclass(frozen=True)
class _Second:
    """What was counted since the look before."""

    load: float
    seconds: float
    cpu_s: float
    received: int
    #: For each message received: 1, filters looked at, copies, bytes.
    factors: tuple[float, ...]

    @property
    def processing_s(self) -> float:
        return self.cpu_s / self.received

    @property
    def has_traffic(self) -> bool:
        return self.received > 0 and self.cpu_s > 0


class Estimator:
    """Call `take` once a second with what the node counted, and `estimate` for what that says.

    `take` adds up; `estimate` solves. Not thread-safe.

    Args:
        model: what a message costs as long as the node's own counters do not say it; by default the packaged
            model.
    """

    def __init__(self, model: Model | None = None) -> None:
        self._model = Model.packaged() if model is None else model
        self._last: tuple[float, Load] | None = None
        self._second: _Second | None = None
        self._moments: Moments | None = None
        self._seconds = 0
        self._high_since: float | None = None
        #: Whether the load has been high for longer than a moment.
        self.is_low_on_capacity = False

    def take(self, now: float, counted: Load) -> bool:
        """Take the counters at a time; false for the first ones, and after a link took its counts with it."""
        last, self._last = self._last, (now, counted)
        if last is None or now <= last[0] or counted.received < last[1].received:
            return False
        if counted.delivered < last[1].delivered or counted.bytes < last[1].bytes:
            return False
        received = counted.received - last[1].received
        cpu_s = (counted.cpu_ns - last[1].cpu_ns) / 1e9
        each = max(1, received)
        factors = (
            1.0,
            (counted.evaluated - last[1].evaluated) / each,
            (counted.delivered - last[1].delivered) / each,
            (counted.bytes - last[1].bytes) / each,
        )
        seconds = now - last[0]
        second = self._second = _Second(cpu_s / seconds, seconds, cpu_s, received, factors)
        self._watch(now, second.load)
        if second.has_traffic:
            row = Moments.of([(factors, second.processing_s)])
            self._moments = row if self._moments is None else self._moments.scaled(KEPT) + row
            self._seconds += 1
        return True

    def update(self, now: float, counted: Load) -> Estimate | None:
        """Take the counters and say what they mean; none if `take` is false."""
        return self.estimate() if self.take(now, counted) else None

    def _watch(self, now: float, load: float) -> None:
        if load <= LOAD_MAX:
            self._high_since, self.is_low_on_capacity = None, False
        elif self._high_since is None:
            self._high_since = now
        else:
            self.is_low_on_capacity = now - self._high_since >= LOAD_MAX_S

    def estimate(self) -> Estimate | None:
        """What the last second, and those before it, say; none before there is one."""
        second = self._second
        if second is None:
            return None
        rate = second.received / second.seconds
        if self._moments is None or not second.has_traffic:
            return Estimate(load=second.load, received_msg_s=rate, why="no traffic")
        coefficients, why = self._own()
        assumed = None if coefficients is not None else self._assumed(second)
        return Estimate(
            load=second.load,
            received_msg_s=rate,
            processing_s=second.processing_s,
            headroom=1 / second.load,
            mean_wait_s=_mean_wait_s(second, coefficients or assumed),
            coefficients=coefficients,
            assumed=assumed,
            why=why,
        )

    def _own(self) -> tuple[tuple[float, ...] | None, str | None]:
        """The coefficients that this node's traffic shows, or why it does not."""
        assert self._moments is not None
        if self._seconds < SECONDS_MIN:
            return None, f"{self._seconds} of {SECONDS_MIN} s measured"
        if condition(self._moments.gram) > CONDITION_MAX:
            return None, "not enough variation"
        return self._moments.solve().coefficients, None

    def _assumed(self, second: _Second) -> tuple[float, ...] | None:
        known = self._model.coefficients
        told_s = sum(a * b for a, b in zip(known, second.factors, strict=True))
        return tuple(each * second.processing_s / told_s for each in known) if told_s > 0 else None


def _mean_wait_s(second: _Second, coefficients: tuple[float, ...] | None) -> float | None:
    if not 0 < second.load < 1:
        return None
    copies, processing_s = second.factors[2], second.processing_s
    send_s = 0.0 if coefficients is None else min(coefficients[2], processing_s / max(copies, 1e-9))
    return Waiting.of(processing_s - send_s * copies, send_s, Replication.fixed(copies), second.load).mean_s
