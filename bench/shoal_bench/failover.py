"""Failover: two LANs with two routers between them, of which the serving one is killed under load.

A program of the near LAN publishes at a steady rate, a program of the far LAN counts what comes. The router
that forwards is killed with SIGKILL, the other one takes over, the killed one returns, and so on. Counted are
messages lost, doubled and out of order, and the longest silence of the subscriber after each kill.

Shoal's programs hear and find routers by multicast. Those of zenoh and NATS are TCP clients that know the
addresses of both routers and connect to the other one when their connection breaks. The kernel closes the
connections of a killed process, so TCP clients learn of a kill at once; multicast members learn of it by
silence.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import median
from typing import Any

from shoal.processes.daemon import DaemonProcess
from shoal.processes.worker import Worker
from shoal_bench import availability
from shoal_bench.errors import ExperimentError
from shoal_bench.experiment import check_options, machine
from shoal_bench.failover_lab import PUBLISHER, ROUTERS, SUBSCRIBER, TwoLans
from shoal_bench.failover_sides import NUMBER_BYTES, QUIET_S
from shoal_bench.rounds import Follow, alternate

SIDES = "shoal_bench.failover_sides"
PEERS: availability.Needs = {name: availability.PUBSUB[name] for name in ("zenoh", "nats")}
PATIENCE_S = 60.0
#: Time for new routers to find each other and the programs.
SETTLE_S = 5.0
#: The router that forwards more in this time is the serving one.
LOOK_S = 0.5
DAEMON = """\
[link.near]
url = "norm://?interface=eth0"
[link.far]
url = "norm://?interface=eth1"
"""


@dataclass(frozen=True, kw_only=True)
class FailoverOptions:
    """One run of the benchmark."""

    size: int = 1024
    #: Messages that are published in a second.
    rate: int = 10_000
    peers: tuple[str, ...] = ("zenoh", "nats")
    rounds: int = 5
    #: How often the serving router is killed in each round.
    kills: int = 4
    #: How long the load goes on after each kill, before the killed router returns.
    seconds: float = 8.0

    def __post_init__(self) -> None:
        checks = [
            (NUMBER_BYTES <= self.size <= 1 << 20, "size", f"from {NUMBER_BYTES} to {1 << 20}"),
            (1 <= self.rate <= 1_000_000, "rate", "from 1 to 1000000"),
            (self.rounds >= 1, "rounds", "at least 1"),
            (1 <= self.kills <= 20, "kills", "from 1 to 20"),
            (1 <= self.seconds <= 60, "seconds", "from 1 to 60"),
        ]
        check_options(self, checks)
        availability.check_peers(self.peers, PEERS)


@dataclass(frozen=True)
class Outcome:
    """What one round of a contestant showed."""

    messages: int
    lost: int
    told_lost: int
    doubled: int
    out_of_order: int
    #: The longest time between two calls of the publisher.
    held_up_s: float
    #: The longest silence after each kill.
    silences_s: tuple[float, ...]


def run(options: FailoverOptions, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Run all rounds; what was lost in all of them, and how long the silences were."""
    results = alternate(
        ("shoal", *options.peers),
        options.rounds,
        lambda name: one_round(name, options),
        lambda outcome: f"{outcome.lost} lost, silent for {max(outcome.silences_s):.2f} s",
        follow,
    )
    return summary(options, results)


def one_round(name: str, options: FailoverOptions) -> Outcome:
    """Kill the serving router of a contestant a few times, under load."""
    with contextlib.ExitStack() as stack:
        lans = stack.enter_context(TwoLans())
        routers = {host: _Router(name, lans, host, stack) for host in ROUTERS}
        time.sleep(SETTLE_S)
        common: dict[str, Any] = {"contestant": name, "rate": options.rate, "size": options.size}

        def start(role: str, host: int, address: Callable[[int], str]) -> Worker:
            addresses = [address(router) for router in ROUTERS]
            made = Worker(SIDES, role, within=lans.within(host), addresses=addresses, **common)
            return stack.enter_context(made)

        subscriber = start("subscribe", SUBSCRIBER, lans.far)
        publisher = start("publish", PUBLISHER, lans.near)
        subscriber.wait_progress(PATIENCE_S)
        kills = []
        for number in range(options.kills):
            time.sleep(SETTLE_S)
            victim = routers[_serving(lans)]
            kills.append(victim.kill())
            time.sleep(options.seconds)
            if number + 1 < options.kills:
                victim.start_again()
        publisher.tell()
        sent = publisher.result(PATIENCE_S)
        subscriber.tell()
        received = subscriber.result(PATIENCE_S + QUIET_S)
    return judge(sent, received, kills, options.seconds)


class _Router:
    """A router of a contestant, which can be killed and started again."""

    def __init__(self, name: str, lans: TwoLans, host: int, stack: contextlib.ExitStack) -> None:
        self._name, self._lans, self._host, self._stack = name, lans, host, stack
        self._other = next(router for router in ROUTERS if router != host)
        self._kill = self._start()

    def _start(self) -> Callable[[], object]:
        """Start it: the function that kills it."""
        lans, within = self._lans, self._lans.within(self._host)
        if self._name == "shoal":
            daemon = self._stack.enter_context(DaemonProcess(DAEMON, within=within))
            return lambda: daemon.signal(signal.SIGKILL)
        if self._name == "nats":
            from shoal_bench.peers import nats_failover

            here, other = lans.near(self._host), lans.near(self._other)
            return self._stack.enter_context(nats_failover.server(here, other, within)).kill
        addresses = {
            "listen": [lans.near(self._host), lans.far(self._host)],
            "connect": [lans.near(self._other)],
        }
        worker = self._stack.enter_context(Worker(SIDES, "route", within=within, **addresses))
        worker.wait_progress(PATIENCE_S)
        return lambda: worker.signal(signal.SIGKILL)

    def kill(self) -> float:
        """End it without a word: when."""
        at_s = time.monotonic()
        self._kill()
        return at_s

    def start_again(self) -> None:
        """Let it return."""
        self._kill = self._start()


def _serving(lans: TwoLans) -> int:
    """The router that forwards."""
    before = {router: lans.forwarded_bytes(router) for router in ROUTERS}
    time.sleep(LOOK_S)
    forwarded = {router: lans.forwarded_bytes(router) - before[router] for router in ROUTERS}
    return max(ROUTERS, key=lambda router: forwarded[router])


def judge(
    sent: Mapping[str, Any], received: Mapping[str, Any], kills: Sequence[float], window_s: float
) -> Outcome:
    """Compare what was published with what came; it counts from the first message that came."""
    if not received["first"]:
        raise ExperimentError("nothing came to the subscriber")
    return Outcome(
        messages=sent["sent"] - received["first"] + 1,
        lost=received["missing"] + sent["sent"] - received["highest"],
        told_lost=received["told"],
        doubled=received["doubled"],
        out_of_order=received["out_of_order"],
        held_up_s=sent["held_up_s"],
        silences_s=tuple(_longest(received["silences"], at_s, window_s) for at_s in kills),
    )


def _longest(silences: Sequence[tuple[float, float]], at_s: float, window_s: float) -> float:
    """The longest silence that ended after a kill and began before its window was over."""
    lengths = [ended - began for began, ended in silences if ended > at_s and began < at_s + window_s]
    return max(lengths, default=0.0)


def summary(options: FailoverOptions, results: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """Sums of what was lost, quantiles of the silences, and how Shoal compares."""
    result: dict[str, Any] = {name: _figures(outcomes) for name, outcomes in results.items()}
    peers = [result[name]["silence_p95_s"] for name in options.peers]
    if peers:
        result["ratio_to_best_peer"] = min(peers) / max(result["shoal"]["silence_p95_s"], 1e-9)
    return result | {
        "size": options.size,
        "rate_msg_s": options.rate,
        "rounds": options.rounds,
        **machine(),
    }


def _figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    silences_s = sorted(silence for outcome in outcomes for silence in outcome.silences_s)
    return {
        "lost": sum(outcome.lost for outcome in outcomes),
        "told_lost": sum(outcome.told_lost for outcome in outcomes),
        "doubled": sum(outcome.doubled for outcome in outcomes),
        "out_of_order": sum(outcome.out_of_order for outcome in outcomes),
        "silence_p50_s": median(silences_s),
        "silence_p95_s": silences_s[ceil(0.95 * len(silences_s)) - 1],
        "silence_max_s": silences_s[-1],
        "held_up_max_s": max(outcome.held_up_s for outcome in outcomes),
        "messages": sum(outcome.messages for outcome in outcomes),
        "kills": len(silences_s),
        "rounds_lost": [outcome.lost for outcome in outcomes],
        "silences_s": silences_s,
    }
