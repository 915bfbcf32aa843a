"""A durable subscription reads on from another offset or time."""

import asyncio
import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

import shoal
from shoal import aio
from shoal.bus.seeking import place_of
from shoal.errors import ConfigError, InUseError, InvalidDestinationError
from shoal.testing import rows

_names = itertools.count()
SUBSCRIPTION = {"name": "s", "durable": True}


def reads(client: Client) -> list[bytes]:
    """What a new consumer of the subscription gets, and leaves."""
    tap = client.subscribe("t", **SUBSCRIPTION)
    bodies = tap.bodies()
    tap.cancel()
    return bodies


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def client(desk: Desk) -> Client:
    """Five messages, one a minute, of which the subscription has finished all but one."""
    client = desk.client("a", client_id="me", lease_s=3600)
    tap = client.subscribe("t", **SUBSCRIPTION)
    for number in range(5):
        client.send("t", b"%d" % number)
        desk.wait(60)
    tap.ack(b"0", b"1", b"2", b"3")
    tap.cancel()
    return client


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"to": 2}, [b"2", b"3", b"4"]),
        ({"to": "earliest"}, [b"0", b"1", b"2", b"3", b"4"]),
        ({"to": 10**9}, []),
        ({"to": "latest"}, []),
        ({"time_us": int(1090e6)}, [b"2", b"3", b"4"]),
        ({"time_us": 1 << 60}, []),
        ({"time_us": 0}, [b"0", b"1", b"2", b"3", b"4"]),
    ],
)
@pytest.mark.parametrize("crashes", [False, True])
def test_it_reads_on_there_also_after_a_crash(
    desk: Desk, client: Client, place: dict[str, Any], expected: list[bytes], crashes: bool
) -> None:
    tap = client.subscribe("t", **SUBSCRIPTION)
    tap.ack(*tap.bodies())
    tap.cancel()
    answer = client.ask("seek", name="s", **place)
    assert answer["from"] == 5 - len(expected)
    if crashes:
        desk.crash()
        client = desk.client("a", client_id="me")
    assert reads(client) == expected
    client.number = 5
    client.send("t", b"next")
    assert reads(client) == [*expected, b"next"]


def test_it_is_refused_while_somebody_reads_and_where_it_makes_no_sense(desk: Desk, client: Client) -> None:
    tap = client.subscribe("t", **SUBSCRIPTION)
    assert client.ask("seek", name="s", to=0)["error"] == "IN_USE"
    tap.cancel()
    assert client.ask("seek", name="other", to=0)["error"] == "EXISTS_NOT"
    assert client.ask("seek", name="s", to="nowhere")["error"] == "BAD_REQUEST"


@pytest.mark.parametrize("crashes", [False, True])
def test_a_seek_in_the_turn_of_a_commit_is_not_undone_by_it(desk: Desk, crashes: bool) -> None:
    client = desk.client("a", client_id="me")
    tap = client.subscribe("t", **SUBSCRIPTION)
    client.send("t", b"0", b"1")
    (first, *_), *_, (last, *_) = tap.deliveries()
    output = rows.encode(client.publisher, 6, [(1, desk.now.wall_us, rows.record("u", b"out"))])
    acks = [[tap.number, tap.lease, [first, last]]]
    client.tell("commit", id="x", publisher=client.publisher, chain=6, after=0, rows=output, acks=acks)
    client.tell("cancel", consumer=tap.number)
    client.ask("seek", name="s", to="earliest")
    if crashes:
        desk.crash()
        client = desk.client("b", client_id="me")
    assert reads(client) == [b"0", b"1"]


def test_its_limit_counts_what_it_has_then(desk: Desk, client: Client) -> None:
    limited = {**SUBSCRIPTION, "backlog_max_bytes": 100}
    client.subscribe("t", **limited).cancel()
    client.ask("seek", name="s", to=0)
    client.send("t", bytes(99))
    assert [body["error"] for body in client.heard if body["op"] == "refused"] == ["BACKLOG"]
    client.ask("seek", name="s", to="latest")
    client.number -= 1
    client.send("t", bytes(90))
    assert [body["error"] for body in client.heard if body["op"] == "refused"] == ["BACKLOG"]


def test_places() -> None:
    at = datetime(2026, 11, 18, 4, tzinfo=UTC)
    assert place_of("17") == place_of(17) == {"to": 17}
    assert place_of("2026-11-18T04:00:00Z") == place_of(at) == {"time_us": int(at.timestamp() * 1e6)}
    for bad in ("yesterday", -1, 1.5, True, at.replace(tzinfo=None)):
        with pytest.raises(ConfigError):
            place_of(bad)  # type: ignore[arg-type]


def test_programs_seek(tmp_path: Path) -> None:
    url = f"inproc://seek-{next(_names)}"

    async def main() -> None:
        async with aio.connect(url, client_id="tasks") as bus:
            async with bus.subscribe("t", durable="s", start="earliest") as reader:
                assert (await reader.receive(10)).body == 0  # type: ignore[union-attr]
            assert await bus.seek("s", 2) == 2
            async with bus.subscribe("t", durable="s") as reader:
                assert (await reader.receive(10)).body == 2  # type: ignore[union-attr]

    with shoal.connect(url, store=tmp_path / "data", client_id="me") as bus:
        with bus.subscribe("t", durable="s") as reader:
            for number in range(4):
                bus.publish("t", number, persistent=True)
            assert [reader.receive(10).body for _ in range(4)] == [0, 1, 2, 3]
            with pytest.raises(InUseError):
                bus.seek("s", "earliest")
        assert bus.seek("s", datetime.now(UTC) - timedelta(hours=1)) == 0
        assert bus.seek("s", 1) == 1
        with bus.subscribe("t", durable="s") as reader:
            assert [reader.receive(10).body for _ in range(3)] == [1, 2, 3]
        with pytest.raises(InvalidDestinationError):
            bus.seek("none", 0)
        asyncio.run(main())
