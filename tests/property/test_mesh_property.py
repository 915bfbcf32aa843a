"""The mesh of daemons: small, short paths, and whole without any one daemon or link, whatever pings say."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.daemon.mesh import CANDIDATES, FULL_MESH_MAX, chords, chosen, neighbours

Edges = dict[str, set[str]]


def mesh(count: int, salt: int) -> Edges:
    """The mesh of some daemons, whose connections take times that the salt decides."""
    publishers = [f"{salt:08x}{number:08x}" for number in range(count)]
    chance = random.Random(salt)
    took_s = {each: chance.random() for each in publishers}
    edges = {each: neighbours(each, publishers) for each in publishers}
    for each in publishers:
        # Each daemon is nearer to some than to others, and some are near to all.
        ours = {other: took * chance.choice((1, 10)) for other, took in took_s.items()}
        for other in chosen(chords(each, publishers), edges[each], ours):
            edges[each].add(other)
            edges[other].add(each)
    return edges


def reached(edges: Edges, begin: str, *, without: str | None = None) -> dict[str, int]:
    distance, turn = {begin: 0}, [begin]
    for here in turn:
        for there in edges[here] - {without}:
            if there not in distance:
                distance[there] = distance[here] + 1
                turn.append(there)
    return distance


def check(edges: Edges, some: int) -> None:
    """Paths are short, and it stays whole without any one of some daemons, or any link of theirs."""
    publishers, count = list(edges), len(edges)
    for begin in publishers[:: max(1, count // some)]:
        distance = reached(edges, begin)
        assert len(distance) == count
        assert max(distance.values()) <= 2 * math.log2(count)
    for gone in publishers[:: max(1, count // some)]:
        begin = next(each for each in publishers if each != gone)
        assert len(reached(edges, begin, without=gone)) == count - 1
        for other in sorted(edges[gone]):
            cut = edges | {gone: edges[gone] - {other}, other: edges[other] - {gone}}
            assert len(reached(cut, gone)) == count


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 200), st.integers(0, 1 << 30))
def test_it_stays_whole_without_any_one_daemon_or_link_and_paths_are_short(count: int, salt: int) -> None:
    edges = mesh(count, salt)
    if count <= FULL_MESH_MAX:
        assert all(len(there) == count - 1 for there in edges.values())
        return
    check(edges, 5)
    publishers = list(edges)
    for each in publishers:
        own = chords(each, publishers)
        assert len(edges[each]) <= 4 + len(own) * (1 + CANDIDATES)


@pytest.mark.parametrize("count", range(FULL_MESH_MAX + 1, 201))
def test_meshes_of_every_size_up_to_two_hundred(count: int) -> None:
    check(mesh(count, 7), 3)


def test_a_daemon_that_is_near_to_all_is_not_chosen_by_all() -> None:
    publishers = [f"{number:016x}" for number in range(200)]
    near = publishers[17]
    by = [
        each
        for each in publishers
        if each != near
        and near in chosen(chords(each, publishers), set(), {other: other != near for other in publishers})
    ]
    assert 0 < len(by) <= CANDIDATES * len(chords(near, publishers))


def test_every_daemon_computes_the_same_ring_whatever_the_order_of_its_list() -> None:
    publishers = [f"{number:016x}" for number in range(30)]
    for found in (neighbours, chords):
        assert found(publishers[3], publishers) == found(publishers[3], publishers[::-1])
        assert found("new", publishers) == found("new", [*publishers, "new"])
    for here in publishers:
        assert all(here in neighbours(other, publishers) for other in neighbours(here, publishers))


def test_a_chord_leads_to_the_nearest_and_stays_once_it_is_there() -> None:
    one = [("a", "b", "c", "d")]
    took_s = {"a": 0.04, "b": 0.01, "c": 0.02}
    assert chosen(one, set(), took_s) == {"b"}
    assert chosen(one, {"c"}, took_s) == {"c"}, "a list opens links and closes none"
    assert chosen(one, {"d"}, {}) == {"d"}
    assert chosen(one, set(), {"d": math.inf}) == {"d"}, "the only one, though it does not answer now"
    assert chosen([("x",)], set(), took_s) == set()
