"""One tree against shortest ways, in graphs small enough to count by hand."""

import random

from shoal.testing.tree_cost import (
    Cost,
    measure,
    over_best,
    over_shortest,
    over_tree,
    random_graph,
    tree_from,
)

#: A circle of five. The root is 0, so nothing goes between 2 and 3.
CIRCLE = {place: {(place - 1) % 5, (place + 1) % 5} for place in range(5)}
IDS = list(range(5))


def test_in_a_circle_the_tree_goes_round_where_the_shortest_way_does_not() -> None:
    parents = tree_from(CIRCLE, 0, IDS)
    assert parents == {0: 0, 1: 0, 4: 0, 2: 1, 3: 4}
    assert over_tree(parents, 2, [3]) == Cost(4, 4.0)
    assert over_shortest(CIRCLE, IDS, 2, [3]) == Cost(1, 1.0)
    assert over_best(CIRCLE, IDS, 2, [3]) == 1


def test_whoever_reaches_everybody_crosses_as_many_links_as_a_tree_has() -> None:
    graph = random_graph(random.Random(1), 12)
    ids = random.Random(2).sample(range(100), 12)
    others = [place for place in graph if place != 5]
    assert over_tree(tree_from(graph, 3, ids), 5, others).transmissions == 11
    assert over_shortest(graph, ids, 5, others).transmissions == 11
    assert over_best(graph, ids, 5, others) == 11


def test_one_tree_never_has_shorter_ways() -> None:
    found = measure(seed=3, graphs=5, count=8, readers=3)
    assert found["way_to_shortest"] >= 1.0
    assert found["transmissions_to_best"] >= 1.0
