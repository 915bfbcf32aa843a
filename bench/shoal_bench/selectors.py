"""Many selectors at once: the index beside evaluating each selector; and one selector in a node.

Index and evaluation are both ours and run in Rust; here is decided what they run on, how often and in which
order. Messages have 25 properties. Every experiment first checks that both find the same subscribers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from shoal._core import SelectorBench
from shoal_bench import selector_node
from shoal_bench.experiment import check_options

COUNTS = (10, 1_000, 10_000, 100_000)
RATES = (0.0001, 0.01)
TERMS = (1, 2, 4, 8)
ROUNDS_MIN = 5

MESSAGES = 500
"""Different messages of an experiment; rounds go over them again and again."""
CHANGES = 1_000
"""Selectors that are removed and added again to measure what a change costs."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What `run` measures.

    Attributes:
        counts: how many selectors; the last one is what the headline figures are about.
        rates: how many of the messages a selector matches; the first one is the headline's.
        rounds: how often each contestant runs, in turns.
        seed: makes the same selectors and messages again.
        messages: how many go through a node in each round with one selector and with none; 0 leaves it out.
    """

    counts: Sequence[int] = COUNTS
    rates: Sequence[float] = RATES
    rounds: int = ROUNDS_MIN
    seed: int = 1
    messages: int = 600_000

    def __post_init__(self) -> None:
        rates = all(0 < rate <= 1 for rate in self.rates)
        check_options(
            self,
            [
                (self.messages == 0 or self.messages >= 2, "messages", "at least 2, or 0 for none"),
                (bool(self.counts) and min(self.counts) >= 1, "counts", "at least one, each at least 1"),
                (bool(self.rates) and rates, "rates", "at least one, each above 0 and at most 1"),
                (self.rounds >= ROUNDS_MIN, "rounds", f"at least {ROUNDS_MIN}"),
            ],
        )


def run(plan: Plan, report: Callable[[str], object] = lambda _: None) -> dict[str, Any]:
    """Measure everything; `report` is told what comes next."""
    counts: dict[str, Any] = {}
    for count in plan.counts:
        for rate in plan.rates:
            report(f"{count} distinct selectors, match rate {rate:.2%}")
            counts.setdefault(str(count), {})[f"{rate:g}"] = _distinct(plan, count, rate)
    headline = counts[str(plan.counts[-1])][f"{plan.rates[0]:g}"]
    count = min(plan.counts[-1], 10_000)
    report(f"{count} identical selectors")
    identical = _identical(plan, count)
    result: dict[str, Any] = {
        "count": plan.counts[-1],
        "match_rate": plan.rates[0],
        **headline,
        "counts": counts,
        "identical": identical,
    }
    for kind in ("and", "or"):
        result[f"{kind}_filters"] = terms = {}
        for number in TERMS:
            report(f"{count} filters of {number} terms joined by {kind.upper()}")
            bench = SelectorBench(kind, count, 0.0, number, MESSAGES, plan.seed)
            terms[str(number)] = _contest(bench, plan.rounds, count)
    if plan.messages:

        def follow(number: int, name: str, reached: str) -> None:
            if reached:
                report(f"node, round {number}, {name}: {reached}")

        result["node"] = selector_node.run(plan.messages, plan.rounds, follow)
    return result


def _distinct(plan: Plan, count: int, rate: float) -> dict[str, Any]:
    bench = SelectorBench("distinct", count, rate, 0, MESSAGES, plan.seed)
    figures = _contest(bench, plan.rounds, count)
    removals: list[int] = []
    additions: list[int] = []
    for _ in range(plan.rounds):
        removed, added = bench.change_round(CHANGES)
        removals += removed
        additions += added
    looked_at, evaluated = bench.work_per_message()
    figures["index"]["filters_looked_at"] = looked_at
    figures["index"]["predicates_evaluated"] = evaluated
    figures["add"] = _spread_us(additions)
    figures["remove"] = _spread_us(removals)
    figures["bytes_per_selector"] = bench.heap_bytes() / count
    return figures


def _identical(plan: Plan, count: int) -> dict[str, Any]:
    """`count` times the same selector, beside having it once."""
    many = SelectorBench("identical", count, plan.rates[0], 0, MESSAGES, plan.seed)
    one = SelectorBench("identical", 1, plan.rates[0], 0, MESSAGES, plan.seed)
    figures = _contest(many, plan.rounds, count)
    # About ten milliseconds each: shorter ones differ by a tenth, even of the same selector with itself.
    pairs = [(many.index_round(200_000)[0], one.index_round(200_000)[0]) for _ in range(3 * plan.rounds)]
    one_ns = median(each for _, each in pairs)
    times_one = median(many_ns / one_ns for many_ns, one_ns in pairs)
    return {"count": count, **figures, "one": {"ns_per_message": one_ns}, "times_one": times_one}


def _contest(bench: SelectorBench, rounds: int, count: int) -> dict[str, Any]:
    """Let index and scan run in turns."""
    scanned = max(3, min(2_000, 1_000_000 // count))
    indexed = max(2_000, min(20_000, 50_000_000 // count))
    if differing := bench.disagreements(min(scanned, MESSAGES)):
        raise RuntimeError(
            f"index and scan disagree about {differing} messages: the figures would mean nothing"
        )
    index_ns: list[float] = []
    scan_ns: list[float] = []
    matched = 0
    for _ in range(rounds):
        each, matched = bench.index_round(indexed)
        index_ns.append(each)
        scan_ns.append(bench.scan_round(scanned)[0])
    index, scan = median(index_ns), median(scan_ns)
    return {
        "index": {"ns_per_message": index, "matches_per_message": matched / indexed},
        "scan": {"ns_per_message": scan},
        "ratio": scan / index,
    }


def _spread_us(nanoseconds: list[int]) -> dict[str, float]:
    ordered = sorted(nanoseconds)
    return {
        "p50_us": ordered[len(ordered) // 2] / 1e3,
        "p99_us": ordered[len(ordered) * 99 // 100] / 1e3,
        "max_us": ordered[-1] / 1e3,
    }
