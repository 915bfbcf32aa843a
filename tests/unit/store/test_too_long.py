"""A message that a consumer's connection does not take ends that consumer, and nothing else."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

import shoal
from shoal.errors import StoreRefusedError

_names = itertools.count()


def over(client: Client) -> list[dict[str, Any]]:
    return [body for body in client.heard if body["op"] == "last"]


def test_a_consumer_ends_whose_connection_does_not_take_what_is_next() -> None:
    desk = Desk()
    small, large = desk.client("small", bytes_max=5000), desk.client("large")
    small.put("q", b"fits", bytes(10_000), b"behind")
    tap = small.consume("q")
    assert tap.bodies() == [b"fits"]
    (told,) = over(small)
    assert (told["error"], told["consumer"]) == ("TOO_LONG", tap.number)
    assert "connect with a larger message_bytes_max" in str(told["text"])
    other = large.consume("q")
    assert other.bodies() == [bytes(10_000), b"behind"], "what the first one has is its own"
    assert not over(large)
    tap.credit(1000)
    small.put("q", b"later")
    assert tap.bodies() == [b"fits"]
    tap.ack(b"fits")
    tap.cancel(handed=[])
    assert other.bodies() == [bytes(10_000), b"behind", b"later"]


def test_what_a_consumer_has_is_acknowledged_though_nothing_more_fits(tmp_path: Path) -> None:
    url = f"inproc://long-{next(_names)}"
    with (
        shoal.connect(url, store=tmp_path / "data") as keeper,
        shoal.connect(url, message_bytes_max=20_000) as small,
    ):
        queue = keeper.queue("q")
        consumer = small.queue("q").consume(prefetch=100)
        for number in range(5):
            queue.send(number)
        first = consumer.receive(10)
        assert first is not None
        queue.send(bytes(50_000))
        got = [first.body, *(message.body for message in (consumer.receive(10) for _ in range(4)) if message)]
        assert got == [0, 1, 2, 3, 4]
        with pytest.raises(StoreRefusedError, match="message_bytes_max"):
            consumer.receive(10)
        consumer.close()
        left = queue.receive(10)
        assert left is not None
        assert left.body == bytes(50_000)
        assert queue.receive(0.2) is None


def test_messages_that_are_too_long_together_come_one_by_one() -> None:
    desk = Desk()
    client = desk.client("small", bytes_max=5000)
    bodies = [bytes([number]) * 3000 for number in range(5)]
    client.put("q", *bodies)
    tap = client.consume("q")
    assert tap.bodies() == bodies
    assert not over(client)


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
