"""What a run has to reach: a line for each gate, with the figures that the run has for it.

A gate that lacks its cells, such as one beside Artemis in a run without it, has no line.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

Cells = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Gate:
    """One gate of an experiment, and whether the run reached it."""

    experiment: str
    what: str
    reached: float
    limit: float
    #: Whether the figure must be at most the limit; otherwise at least.
    at_most: bool = False
    #: Whether all cells that it is made of kept the study's rules.
    valid: bool = True

    @property
    def holds(self) -> bool:
        """Whether it is reached."""
        return self.reached <= self.limit if self.at_most else self.reached >= self.limit

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "holds": self.holds}


def gates(experiments: Mapping[str, Mapping[str, Any]]) -> list[Gate]:
    """The gates of a run's experiments, in their order."""
    return [gate for name, found in experiments.items() for gate in _of(name, found["cells"])]


def _of(name: str, cells: Cells) -> Iterator[Gate]:
    make = _MADE.get(name)
    if make is None:
        return
    for what, reached, limit, used in make(cells):
        at_most = what.endswith(AT_MOST)
        valid = all(cell["valid"] for cell in used)
        yield Gate(name, what.removesuffix(AT_MOST), reached, limit, at_most=at_most, valid=valid)


#: What is reached, how much, the limit, and the cells that it is made of.
Line = tuple[str, float, float, Cells]
#: Behind the words of a gate whose figure must not be above its limit.
AT_MOST = " (at most)"


def _contestant(cells: Cells, contestant: str, figure: str) -> dict[str, Mapping[str, Any]]:
    return {
        cell["cell"]: cell
        for cell in cells
        if cell["contestant"] == contestant and cell.get(figure) is not None
    }


def _pairs(
    cells: Cells, one: str, two: str, figure: str
) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Cells of two contestants with the same parameters."""
    ours, theirs = _contestant(cells, one, figure), _contestant(cells, two, figure)
    return [(ours[name], theirs[name]) for name in ours if name in theirs]


def _least(what: str, ratios: list[tuple[float, Cells]], limit: float) -> Iterator[Line]:
    if ratios:
        reached, used = min(ratios, key=lambda ratio: ratio[0])
        yield what, reached, limit, used


def _most(what: str, ratios: list[tuple[float, Cells]], limit: float) -> Iterator[Line]:
    if ratios:
        reached, used = max(ratios, key=lambda ratio: ratio[0])
        yield what + AT_MOST, reached, limit, used


def _overall(cells: Cells, name: str, contestant: str = "routed") -> Mapping[str, Any] | None:
    return _contestant(cells, contestant, "overall_msg_s").get(name)


def _against(
    cells: Cells, contestant: str, one: str, two: str
) -> list[tuple[float, tuple[Mapping[str, Any], Mapping[str, Any]]]]:
    """Overall rates of the cells of one series over those of another, at the same place."""
    own = [cell for cell in cells if cell["contestant"] == contestant and cell.get("overall_msg_s")]
    by_place = {(cell["series"], cell["x"]): cell for cell in own}
    return [
        (cell["overall_msg_s"] / by_place[two, x]["overall_msg_s"], (cell, by_place[two, x]))
        for (series, x), cell in by_place.items()
        if series == one and (two, x) in by_place
    ]


def _beside_artemis(cells: Cells, limit: float = 10.0) -> Iterator[Line]:
    pairs = _pairs(cells, "routed", "artemis", "overall_msg_s")
    ratios: list[tuple[float, Cells]] = [(a["overall_msg_s"] / b["overall_msg_s"], (a, b)) for a, b in pairs]
    yield from _least("overall, times Artemis, in the worst cell", ratios, limit)


def _udp_lan(cells: Cells) -> Iterator[Line]:
    pairs = _pairs(cells, "shoal", "native", "goodput_mbit_s")
    multicast = [(a, b) for a, b in pairs if "multicast" in a["cell"]]
    ratios: list[tuple[float, Cells]] = [
        (a["goodput_mbit_s"] / b["goodput_mbit_s"], (a, b)) for a, b in multicast
    ]
    if ratios:
        reached, used = max(ratios, key=lambda ratio: ratio[0])
        yield "NORM over native multicast, best size", reached, 0.95, used


def _jms_loop(cells: Cells) -> Iterator[Line]:
    own = _contestant(cells, "shoal", "goodput_mbit_s").values()
    if own:
        best = max(own, key=lambda cell: cell["goodput_mbit_s"])
        yield "Mbit/s over SonicMQ's 257, best size", best["goodput_mbit_s"] / 257, 20.0, [best]


def _jms_lan(cells: Cells) -> Iterator[Line]:
    own = _contestant(cells, "shoal", "goodput_mbit_s").values()
    if own:
        best = max(own, key=lambda cell: cell["goodput_mbit_s"])
        yield "Mbit/s to each, best size", best["goodput_mbit_s"], 92.0, [best]
    for peer in ("artemis-near", "artemis-third"):
        pairs = _pairs(cells, "shoal", peer, "goodput_mbit_s")
        ratios: list[tuple[float, Cells]] = [
            (a["goodput_mbit_s"] / b["goodput_mbit_s"], (a, b))
            for a, b in pairs
            if a["series"] == "1 to 2" and b["goodput_mbit_s"]
        ]
        if ratios:
            reached, used = max(ratios, key=lambda ratio: ratio[0])
            yield f"1 to 2, times {peer}, best size", reached, 1.8, used


def _wan(cells: Cells) -> Iterator[Line]:
    own = _contestant(cells, "norm", "goodput_mbit_s").values()
    if own:
        best = max(own, key=lambda cell: cell["goodput_mbit_s"])
        yield "share of the path", best["goodput_mbit_s"] / 100, 0.85, [best]


def _fec(cells: Cells) -> Iterator[Line]:
    own = [cell for cell in cells if cell["contestant"] == "shoal" and cell["factor"] is not None]
    if own:
        best = max(own, key=lambda cell: cell["factor"])
        yield "times the thesis, best cell", best["factor"], 500.0, [best]


def _narada(cells: Cells) -> Iterator[Line]:
    for figure, words in (("mean_delay_ms", "mean delay"), ("deviation_ms", "deviation")):
        pairs = _pairs(cells, "routed", "artemis", figure)
        ratios: list[tuple[float, Cells]] = [(a[figure] / b[figure], (a, b)) for a, b in pairs if b[figure]]
        yield from _most(f"{words} over Artemis's, worst cell", ratios, 0.5)
    own = list(_contestant(cells, "routed", "lost").values())
    if own:
        yield "messages lost" + AT_MOST, sum(cell["lost"] for cell in own), 0.0, own


def _publishers(cells: Cells) -> Iterator[Line]:
    own = [cell for cell in _contestant(cells, "routed", "overall_msg_s").values() if cell["x"] >= 2]
    if len(own) > 1:
        rates = [cell["overall_msg_s"] for cell in own]
        yield "worst over best, from 2 publishers on", min(rates) / max(rates), 0.85, own
    yield from _beside_artemis(cells)


def _subscribers(cells: Cells) -> Iterator[Line]:
    own = list(_contestant(cells, "routed", "overall_msg_s").values())
    if len(own) > 1:
        most, best = max(own, key=lambda cell: cell["x"]), max(own, key=lambda cell: cell["overall_msg_s"])
        share = most["overall_msg_s"] / best["overall_msg_s"]
        yield f"{most['x']:g} subscribers over the best", share, 0.8, [most, best]
    yield from _beside_artemis(cells)


def _size(cells: Cells) -> Iterator[Line]:
    if (small := _overall(cells, "b0")) is not None:
        yield "overall, times 61,000/s", small["overall_msg_s"] / 61_000, 25.0, [small]
    if (large := _overall(cells, "b65536")) is not None:
        yield "64 KB, times 600 Mbit/s", large["goodput_mbit_s"] / 600, 10.0, [large]
    yield from _beside_artemis(cells)


def _activation(cells: Cells) -> Iterator[Line]:
    yield from _least(
        "property over correlation", [*_against(cells, "routed", "property", "correlation")], 0.8
    )
    yield from _beside_artemis(cells)


def _topics(cells: Cells) -> Iterator[Line]:
    if (twenty := _overall(cells, "t20-r1")) is not None:
        yield "20 topics, times 35,000/s", twenty["overall_msg_s"] / 35_000, 25.0, [twenty]
    one, many = _overall(cells, "t1-r1"), _overall(cells, "t1000-r1")
    if one is not None and many is not None:
        yield "1,000 topics over one", many["overall_msg_s"] / one["overall_msg_s"], 0.9, [one, many]
    yield from _beside_artemis(cells)


def _select(cells: Cells) -> Iterator[Line]:
    own = list(_contestant(cells, "routed", "overall_msg_s").values())
    ratios: list[tuple[float, Cells]] = []
    for x in {cell["x"] for cell in own}:
        same = [cell for cell in own if cell["x"] == x]
        rates = [cell["overall_msg_s"] for cell in same]
        if len(same) > 1:
            ratios.append((min(rates) / max(rates), same))
    yield from _least("worst of topics, correlation and property over the best", ratios, 0.75)
    yield from _beside_artemis(cells)


def _or(cells: Cells) -> Iterator[Line]:
    for kind in ("correlation", "property"):
        ratios = [*_against(cells, "routed", f"{kind}, joined", f"{kind}, simple")]
        yield from _least(f"{kind}: OR-filters over simple ones", [*ratios], 0.8)
        yield from _most(f"{kind}: OR-filters over simple ones", [*ratios], 1.25)
    yield from _beside_artemis(cells)


def _and(cells: Cells) -> Iterator[Line]:
    yield from _least("order 3 over order 1", [*_against(cells, "routed", "order 3", "order 1")], 0.8)
    yield from _beside_artemis(cells)


def _joint(cells: Cells) -> Iterator[Line]:
    for kind, times in (("correlation", 300.0), ("property", 500.0)):
        one, few = _overall(cells, f"{kind}-n160-r1"), _overall(cells, f"{kind}-n5-r1")
        if one is not None:
            yield f"{kind}, n = 160, r = 1, times the study", one["factor"], times, [one]
        if (many := _overall(cells, f"{kind}-n160-r40")) is not None:
            yield f"{kind}, n = 160, r = 40, times the study", many["factor"], 20.0, [many]
        if one is not None and few is not None:
            each = (one["processing_us"] - few["processing_us"]) / 155
            yield f"{kind}: µs for each further filter" + AT_MOST, each, 0.05, [one, few]
    yield from _beside_artemis(cells)


def _aging(cells: Cells) -> Iterator[Line]:
    for cell in _contestant(cells, "routed", "drift").values():
        yield "drift" + AT_MOST, cell["drift"], 0.02, [cell]


def _waiting(cells: Cells) -> Iterator[Line]:
    own = [cell for cell in cells if 0.5 <= cell["x"] <= 0.8]
    for figure, words, limit in (("mean_bias", "mean", 0.25), ("p99_bias", "99 %", 0.35)):
        biases: list[tuple[float, Cells]] = [
            (abs(cell[figure]), [cell]) for cell in own if cell.get(figure) is not None
        ]
        yield from _most(f"{words} wait, off the model at load 0.5-0.8", biases, limit)
    # The rate was chosen by what a message cost the saturated node. What it costs now is a live estimate.
    live: list[tuple[float, Cells]] = [
        (abs(cell["load"] / cell["x"] - 1), [cell])
        for cell in cells
        if 0.3 <= cell["x"] <= 0.6 and "load" in cell
    ]
    yield from _most("cost of a message at load 0.3-0.6, off that at saturation", live, 0.2)


def _presumo(cells: Cells) -> Iterator[Line]:
    for cell in _contestant(cells, "routed", "evaluated_per_message").values():
        yield "filters looked at for a message" + AT_MOST, cell["evaluated_per_message"], 2.0, [cell]
        # Each message is decided for every subscriber.
        decided = cell["overall_msg_s"] / 2 * cell["x"]
        yield "subscribers decided for, times 10,000/s", decided / 10_000, 1000.0, [cell]


def _ibus(cells: Cells) -> Iterator[Line]:
    for cell in (cell for cell in cells if cell["x"] == 0 and cell["series"].startswith("SD 0 ms, ES 200")):
        yield "clean LAN: % of messages asked for again" + AT_MOST, cell["requests_percent"], 0.1, [cell]
        yield "clean LAN: ms for an epoch's acknowledgement" + AT_MOST, cell["epoch_ack_ms"], 10.0, [cell]


_MADE: Mapping[str, Callable[[Cells], Iterator[Line]]] = {
    "udp-lan": _udp_lan,
    "jms-loop": _jms_loop,
    "jms-lan": _jms_lan,
    "wan": _wan,
    "fec": _fec,
    "narada": _narada,
    "fiorano-publishers": _publishers,
    "fiorano-subscribers": _subscribers,
    "fiorano-size": _size,
    "fiorano-activation": _activation,
    "fiorano-topics": _topics,
    "fiorano-select": _select,
    "fiorano-or": _or,
    "fiorano-and": _and,
    "fiorano-joint": _joint,
    "fiorano-aging": _aging,
    "fiorano-waiting": _waiting,
    "presumo-filters": _presumo,
    "ibus-tune": _ibus,
}
