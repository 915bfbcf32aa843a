"""Doors of a store: what waits for a client that takes nothing."""

import secrets
import time
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal._core import Log, Message
from shoal.errors import FullError
from shoal.store import serving
from shoal.store.machine import Identity
from shoal.store.serving import Door, Serving


class StuckBus:
    """A bus to one client, which takes something or not."""

    def __init__(self) -> None:
        self.is_stuck = True
        self.sent: list[Any] = []

    def subscribe(self, topic: str, **options: Any) -> None:
        return None

    def publish(self, topic: str, body: Any, timeout_s: float) -> None:
        if self.is_stuck:
            raise FullError("the link is full")
        self.sent.append(body["seq"])


@pytest.fixture
def bus() -> StuckBus:
    return StuckBus()


@pytest.fixture
def door(bus: StuckBus, monkeypatch: pytest.MonkeyPatch) -> Door:
    monkeypatch.setattr(serving, "UNSENT_MAX", 3)
    return Door(bus, "store", private=True, via="door")  # type: ignore[arg-type]


def test_what_a_client_does_not_take_waits_in_order(door: Door, bus: StuckBus) -> None:
    assert all(door.send("a", {"seq": number}) for number in (1, 2))
    assert door.is_stuck
    bus.is_stuck = False
    door.send("a", {"seq": 3})
    door.retry()
    assert bus.sent == [1, 2, 3]
    assert not door.is_stuck


def test_a_client_for_which_too_much_waits_is_told_nothing_of_it(door: Door, bus: StuckBus) -> None:
    assert [door.send("a", {"seq": number}) for number in (1, 2, 3, 4, 5)] == [True, True, True, False, True]
    bus.is_stuck = False
    door.retry()
    assert bus.sent == [5], "its end is what it hears next"


class BusyDoor:
    """A door with more long requests whenever it is asked."""

    via, links, is_stuck = "inside", None, False

    def take(self) -> list[Message]:
        request = {"op": "ping", "session": "s", "n": 0, "rows": bytes(400_000)}
        return [Message("t", request) for _ in range(10)]

    def retry(self) -> None:
        pass

    def send(self, session: str, body: dict[str, Any]) -> bool:
        return True


def test_requests_wait_in_the_doors_while_the_store_is_behind() -> None:
    log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=1 << 26)
    with shoal.connect(f"inproc://{secrets.token_hex(8)}") as bus:
        serves = Serving(log, bus, Identity(name="s", run="r"), endpoint=None, failed=lambda error: None)
        doors, serves._doors = serves._doors, [BusyDoor()]  # type: ignore[list-item]
        for _ in range(20):
            was_behind = bool(serves._waiting)
            more = serves._turn()
            assert len(serves._waiting) <= 10
            assert more or not was_behind, "the doors are asked again without another ring"
        serves._doors = doors
        serves.close(failed=True)
    log.close()


def test_a_delay_ends_in_time_though_the_clock_is_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.connect(f"inproc://{secrets.token_hex(8)}", store=tmp_path) as bus:
        bus.queue("jobs").send("x", delivery_delay_s=0.5)
        time_ns = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: time_ns() - 3600 * 10**9)
        assert bus.queue("jobs").receive(20.0) is not None
