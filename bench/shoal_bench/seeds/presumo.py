"""Presumo's claim as an experiment: many subscribers with few different filters."""

from shoal_bench.seeds.cell import Cell, Group


def filters(quick: bool) -> list[Cell]:
    """Presumo: a thousand subscribers with two different filters cost two evaluations a message."""
    count = 100 if quick else 1000
    return [
        Cell(
            experiment="presumo-filters",
            name=f"s{count}",
            x=count,
            kind="property",
            matching=(Group(count=1, selector="side = 'buy'"),),
            idle=(
                Group(count=count // 2, selector="side = 'sell'"),
                Group(count=count // 2, selector="side = 'hold'"),
            ),
            n=count,
            properties=({"side": "buy"},),
        )
    ]
