"""No client sends as another one's publisher."""

from pathlib import Path
from typing import Any

import pytest
from desk import Client, Desk

from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import Chain
from shoal.bus.store_protocol import queue_topic
from shoal.testing import rows

KEY, OTHER = "the key of one client", "that of another one"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def send_as(client: Client, publisher: int, number: int, **fields: Any) -> str:
    """Send one message as a publisher; what the store says."""
    record = rows.record(queue_topic("q"), b"%d" % number)
    content = rows.encode(publisher, 5, [(number, client.desk.now.wall_us, record)])
    client.tell("send", publisher=publisher, chain=5, after=0, rows=content, **fields)
    client.desk.run()
    said = [body for body in client.heard if body["op"] in ("stored", "refused")]
    return str(said[-1].get("error", "stored"))


@pytest.mark.parametrize("crashes", [False, True])
def test_a_publisher_that_one_client_began_is_refused_to_others(desk: Desk, crashes: bool) -> None:
    own = desk.client("own", publisher=4711, key=KEY)
    assert send_as(own, 4711, 1) == "stored"
    if crashes:
        desk.crash()
    foreign = desk.client("foreign", publisher=666, key=OTHER)
    assert send_as(foreign, 4711, 1_000_000) == "BAD_REQUEST"
    assert send_as(foreign, 4711, 1_000_000, key=OTHER) == "IN_USE"
    if crashes:
        own = desk.client("again", publisher=4711, key=KEY)
    assert send_as(own, 4711, 2) == "stored"
    assert desk.client("reader").consume("q").bodies() == [b"1", b"2"]


def test_two_clients_that_begin_a_publisher_in_one_turn_are_not_taken_for_one(desk: Desk) -> None:
    one, two = desk.client("one", publisher=1, key=KEY), desk.client("two", publisher=2, key=OTHER)
    for client, number, key in ((one, 5, KEY), (two, 9, OTHER)):
        content = rows.encode(7, 5, [(number, desk.now.wall_us, rows.record("t", b""))])
        client.tell("send", publisher=7, chain=5, after=0, rows=content, key=key)
    desk.run()
    assert one.stored() == [5]
    assert [body["error"] for body in two.refused()] == ["IN_USE"]


def test_a_transaction_is_bound_to_its_client_likewise(desk: Desk) -> None:
    own = desk.client("own", publisher=4711, key=KEY)
    foreign = desk.client("foreign", publisher=666, key=OTHER)
    answers = []
    for client, number, key in ((own, 1, KEY), (foreign, 9, OTHER), (own, 2, KEY)):
        content = rows.encode(4711, 6, [(number, desk.now.wall_us, rows.record("t", b""))])
        fields = {"publisher": 4711, "chain": 6, "rows": content, "key": key}
        answers.append(client.ask("commit", id=f"id-{number}", **fields).get("error"))
    assert answers == [None, "IN_USE", None]


def test_a_session_is_ended_by_its_own_client_alone(desk: Desk) -> None:
    own = desk.client("own", publisher=4711, client_id="c", key=KEY)
    foreign = desk.client("foreign", publisher=4711, key=OTHER)
    assert (foreign.hello["error"], foreign.hello["retry_s"] > 0) == ("IN_USE", True)
    assert desk.client("sly", publisher=4711, client_id="c", key=OTHER, way=1).hello["error"] == "IN_USE"
    assert own.ask("ping")["op"] == "answer"
    again = desk.client("again", publisher=4711, client_id="c", key=KEY)
    assert again.hello["op"] == "answer"
    assert own.ask("ping")["error"] == "NO_SESSION"


def test_a_chain_believes_no_more_stored_than_it_sent() -> None:
    batches = [(b"one", 1, 1), (b"two", 2, 2)]
    chain = Chain(7, 5, lambda: batches.pop(0) if batches else None, lambda: 0)
    assert chain.poll_send() is not None
    chain.on_stored(1_000_000)
    assert chain.stored == 1
    request = chain.poll_send()
    assert request is not None
    assert (request["rows"], request["after"]) == (b"two", 1)


def test_an_outbox_has_the_same_key_whenever_it_is_opened_and_others_have_another(tmp_path: Path) -> None:
    def key_of(name: str) -> object:
        outbox = Outbox.open(tmp_path / name, 1 << 30)
        chain = outbox.chain(5)
        outbox.add("t", b"", bytes_max=1 << 20)
        outbox.sync()
        request = chain.poll_send()
        outbox.close()
        assert request is not None
        return request["key"]

    assert key_of("one") == key_of("one") != key_of("two")
