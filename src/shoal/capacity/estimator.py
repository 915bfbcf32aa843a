"""The model of a node that runs, from its own counters: sums that forget, solved when somebody looks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.capacity.algebra import condition
from shoal.capacity.fit import Moments
from shoal.capacity.waiting import Replication, Waiting

#: What a second counts for one second later.
KEPT = 0.98
#: Above it the counters moved together too much to tell the coefficients apart.
CONDITION_MAX = 1e6
#: Seconds with traffic before anything is said.
SECONDS_MIN = 10
#: A load above it for so long is worth an event.
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
    #: Why a figure is missing.
    why: str | None = None


class Estimator:
    """Call `update` once a second with what the node counted; it tells what that says.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._last: tuple[float, Load] | None = None
        self._moments: Moments | None = None
        self._seconds = 0
        self._high_since: float | None = None
        #: Whether the load has been high for longer than a moment.
        self.is_low_on_capacity = False

    def update(self, now: float, counted: Load) -> Estimate | None:
        """Take the counters at a time; none for the first ones, and after a link took its counts with it."""
        last, self._last = self._last, (now, counted)
        if last is None or now <= last[0] or counted.received < last[1].received:
            return None
        if counted.delivered < last[1].delivered or counted.bytes < last[1].bytes:
            return None
        seconds = now - last[0]
        received = counted.received - last[1].received
        cpu_s = (counted.cpu_ns - last[1].cpu_ns) / 1e9
        load = cpu_s / seconds
        self._watch(now, load)
        if received > 0 and cpu_s > 0:
            factors = [
                1.0,
                (counted.evaluated - last[1].evaluated) / received,
                (counted.delivered - last[1].delivered) / received,
                (counted.bytes - last[1].bytes) / received,
            ]
            row = Moments.of([(factors, cpu_s / received)])
            self._moments = row if self._moments is None else self._moments.scaled(KEPT) + row
            self._seconds += 1
        return self._estimate(load, received / seconds, cpu_s, received, counted, last[1])

    def _watch(self, now: float, load: float) -> None:
        if load <= LOAD_MAX:
            self._high_since, self.is_low_on_capacity = None, False
        elif self._high_since is None:
            self._high_since = now
        else:
            self.is_low_on_capacity = now - self._high_since >= LOAD_MAX_S

    def _estimate(
        self, load: float, rate: float, cpu_s: float, received: int, counted: Load, last: Load
    ) -> Estimate:
        if self._moments is None or received == 0:
            return Estimate(load=load, received_msg_s=rate, why="no traffic")
        if self._seconds < SECONDS_MIN:
            return Estimate(
                load=load, received_msg_s=rate, why=f"{self._seconds} of {SECONDS_MIN} s measured"
            )
        processing_s = cpu_s / received
        coefficients = None
        why = None
        if condition(self._moments.gram) <= CONDITION_MAX:
            coefficients = self._moments.solve().coefficients
        else:
            why = "not enough variation"
        wait = None
        if 0 < load < 1:
            replication = (counted.delivered - last.delivered) / received
            send_s = (
                0.0 if coefficients is None else min(coefficients[2], processing_s / max(replication, 1e-9))
            )
            law = Replication.fixed(replication)
            wait = Waiting.of(processing_s - send_s * replication, send_s, law, load).mean_s
        return Estimate(
            load=load,
            received_msg_s=rate,
            processing_s=processing_s,
            headroom=1 / load if load > 0 else None,
            mean_wait_s=wait,
            coefficients=coefficients,
            why=why,
        )
