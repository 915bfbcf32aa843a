"""The shortest-path tree from a root over the links that routers report, equal wherever the map is equal."""

from __future__ import annotations

import heapq
import zlib
from collections import defaultdict
from collections.abc import Mapping

from .records import LinkState, Root

#: A router, or the part of a LAN whose routers hear each other, named by its smallest router.
Vertex = int | tuple[str, int, int]
Edge = tuple[Vertex, int, int]


def rank(*of: object) -> int:
    """A number that every node computes alike: breaks ties, and makes digests."""
    return zlib.crc32(repr(of).encode())


class Tree:
    """Who forwards to whom for one root."""

    def __init__(self, root: Root, states: Mapping[int, LinkState], lans: frozenset[int]) -> None:
        self.root = root
        links = {state.router: dict(state.links) for state in states.values()}
        edges, fragments = _edges(links, lans)
        if root[0] == "lan":
            sources: list[Vertex] = sorted({each for each in fragments.values() if each[1] == root[1]})
        else:
            sources = [root[1]] if root[1] in links else []
        #: Each vertex's parent, and the link between them; roots have none.
        self.parents = _shortest(root, sources, edges)
        self.children: dict[Vertex, list[tuple[Vertex, int]]] = defaultdict(list)
        for vertex, parent in self.parents.items():
            if parent is not None:
                self.children[parent[0]].append((vertex, parent[1]))
        self.digest = rank(root, sorted((str(vertex), str(up)) for vertex, up in self.parents.items()))
        self._branches: dict[int, dict[int, frozenset[int]]] = {}

    def branches(self, router: int) -> dict[int, frozenset[int]]:
        """The routers behind each link of a router."""
        if router not in self._branches:
            found: dict[int, set[int]] = defaultdict(set)
            for vertex, link in self.children.get(router, ()):
                found[link] |= {each for each in self._below(vertex) if isinstance(each, int)}
            self._branches[router] = {link: frozenset(behind) for link, behind in found.items()}
        return self._branches[router]

    def serves(self, router: int, link: int) -> bool:
        """Whether a router forwards to a link, to a LAN without another router as well."""
        return any(number == link for _, number in self.children.get(router, ()))

    def upstream(self, router: int) -> tuple[int, int | None] | None:
        """A router's link towards the root, and the router that serves it there (none on the root LAN)."""
        parent = self.parents.get(router)
        if parent is None:
            return None
        vertex, link = parent
        if isinstance(vertex, int):
            return link, vertex
        above = self.parents[vertex]
        return link, above[0] if above and isinstance(above[0], int) else None

    def next_routers(self, vertex: Vertex) -> list[tuple[int, int]]:
        """The next routers below a vertex, through a LAN if there is one, with the link that leads there."""
        found: list[tuple[int, int]] = []
        for child, link in self.children.get(vertex, ()):
            if isinstance(child, int):
                found.append((child, link))
            else:
                found += [
                    (below, link) for below, _ in self.children.get(child, ()) if isinstance(below, int)
                ]
        return found

    def entry_routers(self) -> list[int]:
        """The routers that hear a publisher on the root LAN."""
        roots = [vertex for vertex, parent in self.parents.items() if parent is None]
        return [
            below for vertex in roots for below, _ in self.children.get(vertex, ()) if isinstance(below, int)
        ]

    def shape(self, router: int) -> object:
        """What a router's forwarding depends on: its branches and its upstream."""
        return self.branches(router), self.upstream(router)

    def _below(self, vertex: Vertex) -> set[Vertex]:
        found = {vertex}
        for child, _ in self.children.get(vertex, ()):
            found |= self._below(child)
        return found


def _edges(
    links: Mapping[int, Mapping[int, frozenset[int]]], lans: frozenset[int]
) -> tuple[dict[Vertex, list[Edge]], dict[tuple[int, int], tuple[str, int, int]]]:
    edges: dict[Vertex, list[Edge]] = defaultdict(list)
    fragments = {}
    for lan in sorted(lans):
        for router, smallest in _components(links, lan).items():
            fragments[router, lan] = ("lan", lan, smallest)
    for (router, lan), fragment in fragments.items():
        edges[router].append((fragment, 1, lan))
        edges[fragment].append((router, 0, lan))
    for router, own in links.items():
        for link, heard in own.items():
            if link not in lans:
                for other in heard:
                    if router in links.get(other, {}).get(link, ()):
                        edges[router].append((other, 1 + link % 2, link))
    return edges, fragments


def _components(links: Mapping[int, Mapping[int, frozenset[int]]], lan: int) -> dict[int, int]:
    """The routers of a LAN, each with the smallest one that it hears, directly or through others."""
    here = sorted(router for router in links if lan in links[router])
    smallest = {router: router for router in here}
    for one in here:
        for two in here:
            if one < two and two in links[one][lan] and one in links[two][lan]:
                low, high = sorted((smallest[one], smallest[two]))
                smallest = {router: low if each == high else each for router, each in smallest.items()}
    return smallest


def _shortest(
    root: Root, sources: list[Vertex], edges: Mapping[Vertex, list[Edge]]
) -> dict[Vertex, tuple[Vertex, int] | None]:
    distance: dict[Vertex, int] = dict.fromkeys(sources, 0)
    parents: dict[Vertex, tuple[Vertex, int] | None] = dict.fromkeys(sources)
    waiting = [(0, rank(root, source), source) for source in sources]
    heapq.heapify(waiting)
    done: set[Vertex] = set()
    while waiting:
        so_far, _, vertex = heapq.heappop(waiting)
        if vertex in done:
            continue
        done.add(vertex)
        for other, cost, link in edges.get(vertex, ()):
            if other in done:
                continue
            before = parents.get(other)
            found = (so_far + cost, rank(root, vertex), link)
            if other not in distance or (
                before is not None and found < (distance[other], rank(root, before[0]), before[1])
            ):
                distance[other], parents[other] = so_far + cost, (vertex, link)
                heapq.heappush(waiting, (so_far + cost, rank(root, other), other))
    return parents
