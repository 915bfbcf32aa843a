"""Many nodes that start together: `python tests/e2e/storm.py --nodes 200 --within 10`.

They are in eight processes on one machine. Prints how long it took until everybody knew everybody, what was
asked for and repaired meanwhile, and then what the group costs when nothing is published. With `--within` it
ends with status 1 if they needed longer, or asked for more than a host can hear.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import HERE, Program, loopback_url

PROCESSES = 8
POLL_S = 0.25
PATIENCE_S = 120.0
#: Requests for repair a second, all nodes together: each of them is heard by all.
NACKS_PER_S_MAX = 2500.0


@dataclass(frozen=True)
class Storm:
    """What was measured."""

    nodes: int
    met_after_s: float
    nacks: int
    nacks_per_s_peak: float
    repairs: int
    #: Of all processes.
    met_cpu_s: float
    idle_cpu_s_per_s: float
    rss_bytes_per_node: float


def measure(nodes: int, idle_s: float) -> Storm:
    """Start so many nodes, let them meet, and then do nothing for a while."""
    url, began = loopback_url(), time.monotonic()
    counts = [nodes // PROCESSES + (at < nodes % PROCESSES) for at in range(PROCESSES)]
    programs = [Program([str(HERE / "storm.py"), "--child", url, str(count)]) for count in counts]
    try:
        for program in programs:
            program.answer(PATIENCE_S)
        peak, before, before_s = 0.0, 0, time.monotonic()
        while True:
            states = _ask(programs)
            now_s, nacks = time.monotonic(), sum(state["nacks"] for state in states)
            known = min(state["known"] for state in states)
            # Whoever has no time to answer answers several questions at once.
            if now_s - before_s >= 1.0 or known >= nodes - 1:
                peak = max(peak, (nacks - before) / max(now_s - before_s, 1.0))
                before, before_s = nacks, now_s
            if known >= nodes - 1:
                break
            if now_s - began > PATIENCE_S:
                raise TimeoutError(f"after {PATIENCE_S} s one of {nodes} nodes knows {known} others")
            time.sleep(POLL_S)
        met_after_s = now_s - began
        # Whatever they still have to say is said.
        time.sleep(3.0)
        quiet, quiet_s = _ask(programs), time.monotonic()
        time.sleep(idle_s)
        idle, idle_took_s = _ask(programs), time.monotonic() - quiet_s
        return Storm(
            nodes=nodes,
            met_after_s=met_after_s,
            nacks=nacks,
            nacks_per_s_peak=peak,
            repairs=sum(state["repairs"] for state in states),
            met_cpu_s=sum(state["cpu_s"] for state in states),
            idle_cpu_s_per_s=(_sum(idle, "cpu_s") - _sum(quiet, "cpu_s")) / idle_took_s,
            rss_bytes_per_node=_sum(idle, "rss_bytes") / nodes,
        )
    finally:
        for program in programs:
            program.kill()


def _ask(programs: list[Program]) -> list[dict[str, Any]]:
    for program in programs:
        program.tell("state")
    return [program.answer(PATIENCE_S) for program in programs]


def _sum(states: list[dict[str, Any]], field: str) -> float:
    return float(sum(state[field] for state in states))


def child(url: str, count: int) -> None:
    """Be so many nodes, and say how they are whenever asked."""
    import shoal

    buses = [shoal.connect(url) for _ in range(count)]
    for number, bus in enumerate(buses):
        bus.subscribe(f"storm/{os.getpid()}/{number}")
    print(json.dumps({"ok": True}), flush=True)
    for _ in sys.stdin:
        stats = [bus.stats() for bus in buses]
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        state = {
            "known": min(len(bus.members) for bus in buses),
            "nacks": sum(each["nacks_sent"] for each in stats),
            "repairs": sum(each["repairs_sent"] for each in stats),
            "cpu_s": time.process_time(),
            "rss_bytes": pages * os.sysconf("SC_PAGESIZE"),
        }
        print(json.dumps(state), flush=True)
    # Nobody wants hundreds of goodbyes.
    os._exit(0)


def main() -> int:
    """Measure, print, and say whether it was quick enough."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--idle", type=float, default=10.0, metavar="SECONDS")
    parser.add_argument("--within", type=float, metavar="SECONDS")
    parser.add_argument("--child", nargs=2, metavar=("URL", "COUNT"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child[0], int(chosen.child[1]))
        return 0
    found = measure(chosen.nodes, chosen.idle)
    print(
        f"{found.nodes} nodes: all know all after {found.met_after_s:.1f} s"
        f" and {found.met_cpu_s:.1f} s of CPU;"
        f" {found.nacks} NACKs, at most {found.nacks_per_s_peak:.0f} a second, {found.repairs} repairs\n"
        f"idle: {found.idle_cpu_s_per_s:.3f} s of CPU a second,"
        f" {found.rss_bytes_per_node / 1e6:.1f} MB a node",
        flush=True,
    )
    late = chosen.within is not None and found.met_after_s > chosen.within
    loud = chosen.within is not None and found.nacks_per_s_peak > NACKS_PER_S_MAX
    return int(late or loud)


if __name__ == "__main__":
    sys.exit(main())
