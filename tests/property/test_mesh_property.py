"""The mesh of daemons: small, short paths, and whole without any one daemon or link."""

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.daemon.mesh import FULL_MESH_MAX, neighbours

Edges = dict[str, set[str]]


def mesh(count: int, salt: int) -> Edges:
    publishers = [f"{salt:08x}{number:08x}" for number in range(count)]
    return {each: neighbours(each, publishers) for each in publishers}


def reached(edges: Edges, begin: str, *, without: str | None = None) -> dict[str, int]:
    distance, turn = {begin: 0}, [begin]
    for here in turn:
        for there in edges[here] - {without}:
            if there not in distance:
                distance[there] = distance[here] + 1
                turn.append(there)
    return distance


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 1 << 30))
def test_it_stays_whole_without_any_one_daemon_or_link_and_paths_are_short(count: int, salt: int) -> None:
    edges = mesh(count, salt)
    publishers = list(edges)
    for here, there in edges.items():
        assert all(here in edges[other] for other in there), "both ends want the same link"
    if count <= FULL_MESH_MAX:
        assert all(len(there) == count - 1 for there in edges.values())
        return
    most = 2 * math.log2(count)
    for begin in publishers[:: max(1, count // 10)]:
        distance = reached(edges, begin)
        assert len(distance) == count
        assert max(distance.values()) <= most
        assert len(edges[begin]) <= 2 * (2 + math.log2(count))
    for gone in publishers[:: max(1, count // 10)]:
        begin = next(each for each in publishers if each != gone)
        assert len(reached(edges, begin, without=gone)) == count - 1
    one = publishers[0]
    for other in sorted(edges[one]):
        cut = edges | {one: edges[one] - {other}, other: edges[other] - {one}}
        assert len(reached(cut, one)) == count


def test_meshes_of_every_size_up_to_two_hundred() -> None:
    # A ring looks the same from each of its daemons: one of them stands for all.
    for count in range(FULL_MESH_MAX + 1, 201):
        edges = mesh(count, 7)
        begin, gone, *_ = edges
        assert max(reached(edges, begin).values()) <= 2 * math.log2(count), count
        assert len(reached(edges, begin, without=gone)) == count - 1, count
        for other in edges[begin]:
            cut = edges | {begin: edges[begin] - {other}, other: edges[other] - {begin}}
            assert len(reached(cut, begin)) == count, count


def test_every_daemon_computes_the_same_mesh_whatever_the_order_of_its_list() -> None:
    publishers = [f"{number:016x}" for number in range(30)]
    assert neighbours(publishers[3], publishers) == neighbours(publishers[3], publishers[::-1])
    assert neighbours("new", publishers) == neighbours("new", [*publishers, "new"])
