"""What one tree for all publishers costs against shortest ways: `python -m shoal.testing.tree_cost`.

Routers in random graphs, as the simulations have them. A message from a random router goes to some others:
over the one tree that all routers use, over the shortest ways from its publisher, and over a tree made for it
alone, which is close to the best there is. Counted are transmissions, one for each link that it crosses, and
how long the way to each reader is.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections import deque
from dataclasses import dataclass
from itertools import pairwise

Graph = dict[int, set[int]]
Edge = tuple[int, int]


@dataclass(frozen=True)
class Cost:
    """Transmissions of a message, and the mean length of its ways."""

    transmissions: int
    way: float


def random_graph(draw: random.Random, count: int) -> Graph:
    """As many links again as half of the routers, beside those that join all of them."""
    edges = {(draw.randrange(place), place) for place in range(1, count)}
    while len(edges) < min(count + count // 2, count * (count - 1) // 2):
        one, two = sorted(draw.sample(range(count), 2))
        edges.add((one, two))
    graph: Graph = {place: set() for place in range(count)}
    for one, two in edges:
        graph[one].add(two)
        graph[two].add(one)
    return graph


def tree_from(graph: Graph, root: int, ids: list[int]) -> dict[int, int]:
    """Every node's next node on its shortest way to a root; of equally short ones that to the smaller id."""
    parents, open_nodes, level = {root: root}, deque([root]), {root: 0}
    while open_nodes:
        node = open_nodes.popleft()
        for near in graph[node]:
            known = level.get(near)
            if known is None:
                level[near], parents[near] = level[node] + 1, node
                open_nodes.append(near)
            elif known == level[node] + 1 and ids[node] < ids[parents[near]]:
                parents[near] = node
    return parents


def way(parents: dict[int, int], node: int) -> list[int]:
    """From a node to the root."""
    nodes = [node]
    while parents[nodes[-1]] != nodes[-1]:
        nodes.append(parents[nodes[-1]])
    return nodes


def over_tree(parents: dict[int, int], publisher: int, readers: list[int]) -> Cost:
    """Over the one tree: up from the publisher as far as needed, and down to each reader."""
    up = way(parents, publisher)
    edges: set[Edge] = set()
    lengths = []
    for reader in readers:
        down = way(parents, reader)
        meeting = next(node for node in up if node in set(down))
        nodes = [*up[: up.index(meeting)], *reversed(down[: down.index(meeting) + 1])]
        edges.update(_edges(nodes))
        lengths.append(len(nodes) - 1)
    return Cost(len(edges), statistics.fmean(lengths))


def over_shortest(graph: Graph, ids: list[int], publisher: int, readers: list[int]) -> Cost:
    """Over the shortest ways from its publisher."""
    parents = tree_from(graph, publisher, ids)
    ways = [way(parents, reader) for reader in readers]
    edges = {edge for nodes in ways for edge in _edges(nodes)}
    return Cost(len(edges), statistics.fmean(len(nodes) - 1 for nodes in ways))


def over_best(graph: Graph, ids: list[int], publisher: int, readers: list[int]) -> int:
    """Transmissions over a tree made for the message: always on to the nearest reader."""
    reached, left, edges = {publisher}, set(readers), 0
    while left:
        parents: dict[int, int] = {node: node for node in reached}
        open_nodes = deque(sorted(reached, key=lambda node: ids[node]))
        found = None
        while found is None:
            node = open_nodes.popleft()
            for near in sorted(graph[node]):
                if near not in parents:
                    parents[near] = node
                    open_nodes.append(near)
                    if near in left:
                        found = near
                        break
        nodes = way(parents, found)
        edges += len(nodes) - 1
        reached.update(nodes)
        left -= reached
    return edges


def _edges(nodes: list[int]) -> list[Edge]:
    return [(min(pair), max(pair)) for pair in pairwise(nodes)]


def measure(seed: int, graphs: int, count: int, readers: int) -> dict[str, float]:
    """The ratios of one tree to the others, over messages of all graphs together."""
    draw = random.Random(seed)
    sums = {"tree": 0, "shortest": 0, "best": 0}
    tree_way = shortest_way = 0.0
    for _ in range(graphs):
        graph = random_graph(draw, count)
        ids = draw.sample(range(1 << 32), count)
        parents = tree_from(graph, ids.index(min(ids)), ids)
        for _ in range(20):
            publisher, *others = draw.sample(range(count), readers + 1)
            tree = over_tree(parents, publisher, others)
            shortest = over_shortest(graph, ids, publisher, others)
            sums["tree"] += tree.transmissions
            sums["shortest"] += shortest.transmissions
            sums["best"] += over_best(graph, ids, publisher, others)
            tree_way += tree.way
            shortest_way += shortest.way
    return {
        "transmissions_to_shortest": sums["tree"] / sums["shortest"],
        "transmissions_to_best": sums["tree"] / sums["best"],
        "way_to_shortest": tree_way / shortest_way,
    }


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print("routers  readers  transmissions/shortest  transmissions/best  way/shortest")
    for count in (10, 50):
        for readers in sorted({1, count // 10, count // 2, count - 1}):
            found = measure(options.seed, options.graphs, count, readers)
            print(
                f"{count:7}  {readers:7}  {found['transmissions_to_shortest']:22.2f}"
                f"  {found['transmissions_to_best']:18.2f}  {found['way_to_shortest']:12.2f}"
            )


if __name__ == "__main__":
    main()
