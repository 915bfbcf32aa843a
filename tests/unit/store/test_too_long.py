"""A message that a consumer's connection does not take ends that consumer, and nothing else."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

import shoal
from shoal.errors import StoreRefusedError

_names = itertools.count()


def gone(client: Client) -> list[dict[str, Any]]:
    return [body for body in client.heard if body["op"] == "gone"]


def test_a_consumer_ends_whose_connection_does_not_take_what_is_next() -> None:
    desk = Desk()
    small, large = desk.client("small", bytes_max=5000), desk.client("large")
    small.put("q", b"fits", bytes(10_000), b"behind")
    tap = small.consume("q")
    assert tap.bodies() == [b"fits"]
    (over,) = gone(small)
    assert (over["error"], over["consumer"]) == ("TOO_LONG", tap.number)
    assert "connect with a larger message_bytes_max" in str(over["text"])
    other = large.consume("q")
    assert other.bodies() == [b"fits", bytes(10_000), b"behind"]
    assert not gone(large)
    status = desk.machine.status()
    assert {each["name"]: each["consumers"] for each in status["sessions"]} == {
        "session small": 0,
        "session large": 1,
    }


def test_messages_that_are_too_long_together_come_one_by_one() -> None:
    desk = Desk()
    client = desk.client("small", bytes_max=5000)
    bodies = [bytes([number]) * 3000 for number in range(5)]
    client.put("q", *bodies)
    tap = client.consume("q")
    assert tap.bodies() == bodies
    assert not gone(client)


@pytest.mark.parametrize("link", ["tcp", "inproc"])
def test_receiving_says_what_to_do(tmp_path: Path, link: str) -> None:
    url = f"inproc://long-{next(_names)}"
    with shoal.connect(url, store=tmp_path / "data", store_listen="127.0.0.1:0") as keeper:
        keeper.store.wait_open(30)
        keeper.queue("q").send(bytes(200_000))
        options = {"store": keeper.store.urls[0]} if link == "tcp" else {}
        with shoal.connect(url, message_bytes_max=100_000, **options) as bus:
            with pytest.raises(StoreRefusedError, match="connect with a larger message_bytes_max"):
                bus.queue("q").receive(10)
            bus.queue("other").send("still works")
            message = bus.queue("other").receive(10)
            assert message is not None
        taken = keeper.queue("q").receive(10)
        assert taken is not None
        assert not taken.redelivered
