from collections.abc import Callable, Iterator

import pytest

from shoal_bench.bodies import COMPARE_BYTES_MAX, LAP_MAX, Bodies, Reception

SIZES = [8, 64, COMPARE_BYTES_MAX + 1, 1 << 20]


def receive(reception: Reception, bodies: Iterator[bytes]) -> bool:
    """As a subscriber does; true if it was over before the bodies were."""
    for expected, body in zip(reception.expected, bodies, strict=False):
        if body != expected and reception.is_over(body, expected):
            return True
    return False


@pytest.mark.parametrize("size", SIZES)
def test_bodies_that_arrive_as_they_were_sent_are_fine(size: int) -> None:
    bodies = Bodies(size)
    reception = Reception(bodies, count=100)
    assert receive(reception, bodies.sent(100))
    assert reception.fault is None
    assert reception.ended_s >= reception.began_s > 0


def lose(bodies: list[bytes]) -> None:
    del bodies[30]


def repeat(bodies: list[bytes]) -> None:
    bodies.insert(30, bodies[30])


def swap(bodies: list[bytes]) -> None:
    bodies[30], bodies[31] = bodies[31], bodies[30]


def cut_off(bodies: list[bytes]) -> None:
    bodies[30] = bodies[30][:-1]


def change_the_end(bodies: list[bytes]) -> None:
    bodies[30] = bodies[30][:-1] + bytes([bodies[30][-1] ^ 1])


def lose_the_first(bodies: list[bytes]) -> None:
    del bodies[0]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("harm", [lose, repeat, swap, cut_off, change_the_end, lose_the_first])
def test_whatever_happens_to_a_body_on_its_way_is_noticed(
    harm: Callable[[list[bytes]], None], size: int
) -> None:
    bodies = Bodies(size)
    sent = list(bodies.sent(100))
    harm(sent)
    reception = Reception(bodies, count=100)
    assert receive(reception, iter(sent))
    assert reception.fault is not None


def test_a_missing_last_body_leaves_the_reception_open() -> None:
    bodies = Bodies(64)
    assert not receive(Reception(bodies, count=100), bodies.sent(99))


def test_a_lap_tells_neighbours_apart_and_starts_again() -> None:
    bodies = Bodies(64)
    lap = list(bodies.sent(LAP_MAX))
    assert len(set(lap)) == LAP_MAX
    assert list(bodies.sent(LAP_MAX + 1))[-1] == lap[0] == bodies[LAP_MAX]


@pytest.mark.parametrize(("size", "count", "named"), [(7, 100, "size"), (64, 1, "count")])
def test_what_cannot_be_checked_is_refused(size: int, count: int, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} must be at least"):
        Reception(Bodies(size), count)
