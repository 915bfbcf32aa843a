"""What one selector costs a message on its way through a node, to a subscriber in another process."""

from statistics import median
from typing import Any

from shoal_bench import shaped
from shoal_bench.rounds import Follow
from shoal_bench.shaped import Shape, ShapedTransfer

SIZE = 64
#: Every message matches it, so both subscribers receive the same; of several properties it asks for the last.
SELECTOR = "region = 'EU'"
#: How many properties messages have; the first is what the headline figures are about.
PROPERTIES = (1, 5)


def run(messages: int, rounds: int, follow: Follow = lambda *_: None) -> dict[str, Any]:
    """Measure a subscription without a selector and one with it, in turns."""
    contestants = {
        _name(side, number): Shape(properties=number, selector=selector)
        for number in PROPERTIES
        for side, selector in (("none", None), ("one", SELECTOR))
    }
    return summary(messages, shaped.run(contestants, SIZE, messages, rounds, follow))


def summary(messages: int, results: dict[str, list[ShapedTransfer]]) -> dict[str, Any]:
    """Medians, and how much more a message costs its subscriber with the selector."""
    by_properties = {str(number): _compared(results, number) for number in PROPERTIES}
    return {
        "messages": messages,
        "size": SIZE,
        "selector": SELECTOR,
        **by_properties[str(PROPERTIES[0])],
        "properties": by_properties,
    }


def _compared(results: dict[str, list[ShapedTransfer]], number: int) -> dict[str, Any]:
    none, one = (results[_name(side, number)] for side in ("none", "one"))
    pairs = list(zip(none, one, strict=True))
    return {
        "none": shaped.figures(none),
        "one": shaped.figures(one),
        # Of neighbours in time: the machine's mood falls on both.
        "one_selector_overhead": median(with_it.cpu_us / without.cpu_us for without, with_it in pairs) - 1,
        "one_selector_slowdown": median(without.msg_s / with_it.msg_s for without, with_it in pairs) - 1,
    }


def _name(side: str, number: int) -> str:
    return f"{side}, {number} {'property' if number == 1 else 'properties'}"
