"""The links that lists make a daemon open."""

import socket
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

from shoal.config.target import Target
from shoal.daemon.mesh import chords, neighbours
from shoal.daemon.registering import Mesh
from shoal.link.connect_times import connect_times
from shoal.link.directory import Endpoint, Record

OWN = f"{0:016x}"


def record(number: int) -> Record:
    return Record(f"{number:016x}", f"d{number}", (Endpoint("tcp", "10.0.0.1", 7000 + number),))


class Keeper:
    """Notes what is dialled."""

    def __init__(self) -> None:
        self.dialled: list[int] = []

    def connect(self, target: Target) -> Any:
        self.dialled.append(target.port - 7000)
        return SimpleNamespace(state="up")


def test_the_nearest_daemon_of_each_chord_is_dialled_and_measured_once() -> None:
    keeper, asked = Keeper(), [0]

    def measure(places: Iterable[Target]) -> dict[Target, float]:
        found = list(places)
        asked.append(len(found))
        # The higher the number, the nearer.
        return {place: 1.0 / place.port for place in found}

    mesh = Mesh(cast("Any", keeper), OWN, lambda: 0.0, measure)
    records = [record(number) for number in range(40)]
    mesh.use(records)
    names = [each.publisher for each in records]
    ring = {int(each, 16) for each in neighbours(OWN, names)}
    nearest = {max(int(each, 16) for each in chord) for chord in chords(OWN, names)}
    assert set(keeper.dialled) == ring | nearest
    assert len(chords(OWN, names)) >= 2
    asked.clear()
    mesh.use(records)
    assert asked == [], "each is measured once"
    assert len(keeper.dialled) == len(ring | nearest), "the same list changes nothing"


def test_a_few_daemons_are_all_dialled_and_nothing_is_measured() -> None:
    def measure(places: Iterable[Target]) -> dict[Target, float]:
        raise AssertionError

    keeper = Keeper()
    Mesh(cast("Any", keeper), OWN, lambda: 0.0, measure).use([record(number) for number in range(8)])
    assert sorted(keeper.dialled) == list(range(1, 8))


def test_connections_are_timed_all_at_once_and_those_that_fail_are_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        there = Target("tcp", "127.0.0.1", server.getsockname()[1])
        closed = Target("tcp", "127.0.0.1", other.getsockname()[1])
        other.close()
        nowhere = Target("tcp", "no such host.invalid", 1)
        took_s = connect_times([there, closed, nowhere])
    assert set(took_s) == {there}
    assert 0 < took_s[there] < 1
