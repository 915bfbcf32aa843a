"""A commit and its acknowledgements are one step, whatever else happens in the same turn."""

from typing import Any

import pytest
from desk import Client, Desk, Tap

from shoal._core import SimulatedDisk
from shoal.store import commits
from shoal.testing import rows


@pytest.fixture
def desk() -> Desk:
    return Desk()


def commit_of(
    client: Client, tap: Tap, *orders: bytes, id: str, number: int = 1, chain: int = 6
) -> dict[str, Any]:
    """A commit that acknowledges orders, and sends one result."""
    result = rows.record("_queue/results", b"of " + b",".join(orders))
    return {
        "op": "commit",
        "id": id,
        "publisher": client.publisher,
        "chain": chain,
        "rows": rows.encode(client.publisher, chain, [(number, 1, result)]),
        "acks": [[tap.number, tap.lease, tap._runs(orders)]],
    }


@pytest.mark.parametrize("last_word", ["cancel", "bye", "release", "crash"])
def test_what_a_commit_acknowledges_does_not_come_again_whatever_follows_in_the_turn(
    desk: Desk, last_word: str
) -> None:
    client, other = desk.client("a"), desk.client("b")
    client.put("orders", b"1", b"2")
    tap = client.consume("orders")
    client.tell(**commit_of(client, tap, b"1", id="tx"))
    match last_word:
        case "cancel":
            client.tell("cancel", consumer=tap.number)
        case "bye":
            client.tell("bye")
        case "release":
            client.tell("release", consumer=tap.number, lease=tap.lease, offsets=tap._runs([b"1", b"2"]))
    desk.run()
    if last_word == "crash":
        desk.crash()
        other = desk.client("b")
    if last_word == "release":
        assert tap.bodies() == [b"1", b"2", b"2"]
    else:
        assert other.consume("orders").bodies() == [b"2"]
    assert other.consume("results").bodies() == [b"of 1"]
    assert next(each for each in desk.machine.status()["queues"] if each["name"] == "orders")["messages"] == 1


def test_two_transactions_that_acknowledge_one_message_cannot_both_commit(desk: Desk) -> None:
    client = desk.client("a")
    client.put("orders", b"1", b"2")
    tap = client.consume("orders")
    client.tell(**commit_of(client, tap, b"1", id="one") | {"n": 901})
    client.tell(**commit_of(client, tap, b"1", b"2", id="two", chain=7) | {"n": 902})
    desk.run()
    answers = {body["n"]: body for body in client.heard if body.get("n") in (901, 902)}
    assert answers[901]["op"] == "answer"
    assert answers[902]["error"] == "LEASE"
    assert client.consume("results").bodies() == [b"of 1"]


def test_an_acknowledgement_inside_a_run_that_the_consumer_does_not_have_fails_the_commit(desk: Desk) -> None:
    client = desk.client("a")
    client.put("orders", b"1", b"2", b"3")
    tap = client.consume("orders")
    tap.ack(b"2")
    commit = commit_of(client, tap, b"1", b"3", id="tx")
    commit["acks"][0][2] = [tap.offset(b"1"), tap.offset(b"3")]
    commit.pop("op")
    assert client.ask("commit", **commit)["error"] == "LEASE"


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_commit_for_which_there_is_no_room_gives_its_messages_back(is_gone: bool) -> None:
    disk = SimulatedDisk(1)
    desk = Desk(disk)
    client = desk.client("a")
    client.put("orders", b"1", b"2")
    tap = client.consume("orders")
    disk.set_faults(capacity_bytes=sum(size for _, size in disk.files()))
    commit = commit_of(client, tap, b"1", id="tx")
    filler = rows.record("_queue/results", bytes(400_000))
    commit["rows"] = rows.encode(client.publisher, 6, [(n, 1, filler) for n in range(1, 10)])
    client.tell(**commit | {"n": 900})
    if is_gone:
        client.tell("cancel", consumer=tap.number)
    desk.run()
    (answer,) = [body for body in client.heard if body.get("n") == 900]
    assert answer["error"] == "FULL"
    if is_gone:
        assert sorted(desk.client("b").consume("orders").bodies()) == [b"1", b"2"]
    else:
        assert tap.ack(b"1", b"2")["op"] == "answer", "the consumer has them as before"
        tap.cancel()
        assert client.consume("orders").bodies() == []


def test_a_commit_of_a_publisher_is_remembered_however_many_others_commit(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "COMMITS_MAX", 5)
    client, other = desk.client("a"), desk.client("b")
    client.put("orders", b"1")
    tap = client.consume("orders")
    commit = commit_of(client, tap, b"1", id="tx")
    commit.pop("op")
    assert not client.ask("commit", **commit)["repeated"]
    for number in range(1, 20):
        record = rows.encode(other.publisher, 6, [(number, 1, rows.record("_queue/q", b"x"))])
        answer = other.ask(
            "commit", id=f"o{number}", publisher=other.publisher, chain=6, after=number - 1, rows=record
        )
        assert answer["op"] == "answer"
    assert client.ask("commit", **commit)["repeated"], "it is the last of its chain"
    desk.crash()
    assert desk.client("a").ask("commit", **commit)["repeated"], "also after a start"


def test_the_ids_that_a_program_chose_are_remembered_whoever_repeats_them(desk: Desk) -> None:
    client = desk.client("a")
    for number in (1, 2, 3):
        record = rows.encode(client.publisher, 6, [(number, 1, rows.record("_queue/q", b"x"))])
        client.ask(
            "commit",
            id=f"batch {number}",
            named=True,
            publisher=client.publisher,
            chain=6,
            after=number - 1,
            rows=record,
        )
    desk.crash()
    other = desk.client("b")
    record = rows.encode(other.publisher, 6, [(1, 1, rows.record("_queue/q", b"x"))])
    again = {"id": "batch 2", "named": True, "publisher": other.publisher, "chain": 6, "after": 0}
    assert other.ask("commit", **again, rows=record)["repeated"]


def test_nothing_is_remembered_of_a_publisher_that_said_goodbye(desk: Desk) -> None:
    client = desk.client("a")
    client.put("orders", b"1")
    tap = client.consume("orders")
    commit = commit_of(client, tap, b"1", id="tx")
    commit.pop("op")
    client.ask("commit", **commit)
    assert len(desk.log.items("committed/")) == 1
    client.ask("bye")
    assert desk.log.items("committed/") == []
