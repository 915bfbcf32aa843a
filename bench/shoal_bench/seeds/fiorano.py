"""The ten experiments of the FioranoMQ study (its section 4) as cells, with the study's parameters."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TypedDict

from shoal_bench.seeds.cell import TOPIC, Cell, Group

KINDS = ("correlation", "property")
JOINT_N, JOINT_R = (5, 10, 20, 40, 80, 160), (1, 2, 5, 10, 20, 40)
#: Cells beside the study's grid, to judge the model by.
JOINT_BESIDE = ((120, 15), (300, 30))


def wanting(kind: str, identity: int, count: int = 1) -> Group:
    """Subscribers with a filter for one identity."""
    if kind == "correlation":
        return Group(count=count, correlation=f"#{identity}")
    if kind == "property":
        return Group(count=count, selector=f"id = '#{identity}'")
    return Group(count=count)


class Sent(TypedDict, total=False):
    """Fields of a cell that say what messages carry."""

    correlations: tuple[str, ...]
    properties: tuple[dict[str, str], ...]


def sent(kind: str, identities: Iterable[int]) -> Sent:
    """What publishers put into messages for identities to be found."""
    if kind == "correlation":
        return {"correlations": tuple(f"#{identity}" for identity in identities)}
    if kind == "property":
        return {"properties": tuple({"id": f"#{identity}"} for identity in identities)}
    return {}


def publishers(quick: bool) -> list[Cell]:
    """4.1: more publishers, one subscriber."""
    counts = (1, 5, 40) if quick else (1, 2, 3, 4, 5, 6, 10, 20, 40)
    return [
        Cell(experiment="fiorano-publishers", name=f"p{p}", x=p, publishers=p, matching=(Group(count=1),))
        for p in counts
    ]


def subscribers(quick: bool) -> list[Cell]:
    """4.2: more subscribers without filters, so r = n."""
    counts = (1, 40, 320) if quick else (1, 2, 5, 10, 20, 40, 80, 160, 320)
    return [
        Cell(experiment="fiorano-subscribers", name=f"s{s}", x=s, matching=(Group(count=s),), r=s)
        for s in counts
    ]


def sizes(quick: bool) -> list[Cell]:
    """4.3: larger messages."""
    counts = (0, 1024, 65536) if quick else (0, 64, 256, 1024, 4096, 16384, 65536)
    return [
        Cell(
            experiment="fiorano-size",
            name=f"b{size}",
            x=size,
            publishers=10,
            matching=(Group(count=1),),
            size=size,
        )
        for size in counts
    ]


def activation(quick: bool) -> list[Cell]:
    """4.4: the same subscribers without filters, with correlation and with property filters; all match."""
    counts = (1, 20) if quick else (1, 2, 5, 10, 20, 40)
    return [
        Cell(
            experiment="fiorano-activation",
            name=f"{kind}-{s}",
            series=kind,
            x=s,
            kind=kind,
            matching=(wanting(kind, 0, s),),
            r=s,
            **sent(kind, [0]),
        )
        for kind, s in product(("none", *KINDS), counts)
    ]


def topics(quick: bool) -> list[Cell]:
    """4.5: more topics at several replication grades, r subscribers for each topic."""
    grid = list(product((1, 2, 5, 10, 20, 1000), (1, 2, 5, 10)))
    if quick:
        grid = [(1, 1), (20, 1), (1000, 1), (20, 5)]
    made = []
    for count, r in grid:
        names = tuple(f"{TOPIC}/{number}" for number in range(count))
        # The first subscribers of all topics share a connection, and so on: one for each copy.
        made.append(
            Cell(
                experiment="fiorano-topics",
                name=f"t{count}-r{r}",
                series=f"r = {r}",
                x=count,
                kind="topic",
                topics=names,
                matching=(Group(count=r, topics=names),),
                r=r,
            )
        )
    return made


def select(quick: bool) -> list[Cell]:
    """4.6: a message is for one of n subscribers, by topic, correlation id or property."""
    counts = (5, 20) if quick else (5, 10, 20, 40, 80, 160)
    made = []
    for kind, n in product(("topic", *KINDS), counts):
        names = tuple(f"{TOPIC}/{number}" for number in range(n)) if kind == "topic" else (TOPIC,)
        groups = tuple(
            Group(count=1, topics=(names[number],)) if kind == "topic" else wanting(kind, number)
            for number in range(n)
        )
        made.append(
            Cell(
                experiment="fiorano-select",
                name=f"{kind}-{n}",
                series=kind,
                x=n,
                kind=kind,
                topics=names,
                matching=groups,
                n=n - 1,
                **sent(kind, range(n)),
            )
        )
    return made


def any_of(quick: bool) -> list[Cell]:
    """4.7: n simple filters, or five OR-filters of n/5 each."""
    counts = (40,) if quick else (10, 20, 40, 80, 160)
    made = []
    for kind, n in product(KINDS, counts):
        simple = tuple(wanting(kind, number) for number in range(n))
        made.append(_or_cell(kind, n, "simple", simple))
        share = n // 5
        joined = tuple(_either(kind, range(start, start + share)) for start in range(0, n, share))
        made.append(_or_cell(kind, n, "joined", joined))
    return made


def _or_cell(kind: str, n: int, how: str, groups: tuple[Group, ...]) -> Cell:
    return Cell(
        experiment="fiorano-or",
        name=f"{kind}-{how}-{n}",
        series=f"{kind}, {how}",
        x=n,
        kind=kind,
        matching=groups,
        n=len(groups) - 1,
        **sent(kind, range(n)),
    )


def _either(kind: str, identities: Sequence[int]) -> Group:
    if kind == "correlation":
        return Group(count=1, correlation=f"[#{identities[0]};#{identities[-1]}]")
    return Group(count=1, selector=" OR ".join(f"id = '#{identity}'" for identity in identities))


def all_of(quick: bool) -> list[Cell]:
    """4.8: ten subscribers, AND-filters of n properties; the deciding one first, in the middle, last."""
    lengths = (25,) if quick else (1, 5, 10, 15, 20, 25)
    total, count = 25, 10
    made = []
    for order, length in product((1, 2, 3), lengths):
        places = [(j, _decides(order, length, j)) for j in range(1, count + 1)]
        groups = tuple(
            Group(
                count=1,
                selector=" AND ".join(f"p{i} = '#{j if i == at else 0}'" for i in range(length)),
            )
            for j, at in places
        )
        messages = tuple({f"p{i}": f"#{j if i == at else 0}" for i in range(total)} for j, at in places)
        made.append(
            Cell(
                experiment="fiorano-and",
                name=f"order{order}-{length}",
                series=f"order {order}",
                x=length,
                kind="property",
                publishers=10,
                matching=groups,
                n=count - 1,
                properties=messages,
            )
        )
    return made


def _decides(order: int, length: int, j: int) -> int:
    """The place of the property that decides for subscriber j, from 0: first, in the middle, or last."""
    if order == 2:
        # Of an even number of properties there are two in the middle.
        return (length - 1) // 2 + (length % 2 == 0 and j > length // 2)
    return 0 if order == 1 else length - 1


def joint(quick: bool) -> list[Cell]:
    """4.9: n filters that do not match, all different or all equal, beside r that do. It makes the model."""
    grid = [(n, r) for r, n in product(JOINT_R, JOINT_N)]
    beside, equal = list(JOINT_BESIDE), grid
    if quick:
        # The cells whose figures the study's table gives, and some that the model is judged by.
        grid = [(n, r) for r, n in product((1, 5, 10, 40), (5, 160))]
        beside, equal = [(10, 2), (80, 20)], [(160, 1)]
    return [
        *(_joint_cell(kind, n, r, equal=False) for kind in KINDS for n, r in grid + beside),
        *(_joint_cell(kind, n, r, equal=True) for kind in KINDS for n, r in equal),
    ]


def _joint_cell(kind: str, n: int, r: int, *, equal: bool) -> Cell:
    different = tuple(wanting(kind, number) for number in range(1, n + 1))
    return Cell(
        experiment="fiorano-joint",
        name=f"{kind}-n{n}-r{r}" + ("-equal" if equal else ""),
        series=f"{kind}, r = {r}" + (", equal" if equal else ""),
        x=n + r,
        kind=kind,
        matching=(wanting(kind, 0, r),),
        idle=(wanting(kind, 1, n),) if equal else different,
        n=n,
        r=r,
        equal=equal,
        **sent(kind, [0]),
    )
