"""A publisher dies before everybody has its messages: the store has them, and publishes them again."""

import secrets
from pathlib import Path

import pytest
from desk import Desk

import shoal
import shoal.store.machine
from shoal._core import Log, pass_on, read_rows
from shoal.bus.inside import node_of
from shoal.bus.store_protocol import LEASE_S
from shoal.testing import rows

PATIENCE_S = 60.0


def test_the_machine_tells_who_went_without_a_word_and_not_who_said_goodbye() -> None:
    desk = Desk()
    for name in ("silent", "polite", "reader"):
        desk.client(name)
    for name in ("silent", "polite"):
        desk.clients[name].send("news", b"x")
    heard_us = desk.now.wall_us
    desk.clients["polite"].ask("bye")
    assert desk.silent == []
    desk.wait(LEASE_S + 1)
    ((publisher, chain, last_us),) = desk.silent
    assert (publisher, chain) == (desk.clients["silent"].publisher, 5)
    assert abs(last_us - heard_us) <= 1_000_000


def test_the_log_finds_the_messages_of_one_chain_in_parts() -> None:
    log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=16 << 20, segment_bytes=1 << 20)
    for number in range(1, 41):
        for publisher in (7, 8):
            log.append(publisher, 5, [(number, number, rows.record("news", bytes(1000)))])
    log.sync()
    found: list[int] = []
    at: int | None = 20
    while at is not None:
        part, at = log.rows_of_chain((7, 5), at, 10_000)
        found += [int(message.message_id.rpartition("-")[2]) for message in read_rows(part)]
    assert found == list(range(11, 41))


def test_whoever_read_a_message_does_not_read_it_again_and_who_did_not_does() -> None:
    domain = f"inproc://{secrets.token_hex(8)}"
    records = [(number, 1, rows.record("news", str(number).encode())) for number in range(1, 6)]
    with shoal.connect(domain) as bus, shoal.connect(domain) as other, other.subscribe("news") as reader:
        bus.wait_for_subscribers("news")
        for part in (records[:3], records):
            pass_on(node_of(bus), rows.encode(9, 5, part), PATIENCE_S, redelivered=part is records)
        got = [reader.receive(PATIENCE_S) for _ in range(5)]
        assert [message.body for message in got if message] == [b"1", b"2", b"3", b"4", b"5"]
        assert [message.redelivered for message in got if message] == [False] * 3 + [True] * 2
        # Somebody who says nothing of it may publish the same again.
        pass_on(node_of(bus), rows.encode(9, 5, records[:1]), PATIENCE_S)
        again = reader.receive(PATIENCE_S)
        assert again is not None
        assert (again.body, again.redelivered) == (b"1", False)


def test_a_live_subscriber_gets_what_only_the_store_had_when_the_publisher_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shoal.store.machine, "LEASE_S", 0.5)
    name = secrets.token_hex(8)
    domain = f"inproc://{name}"
    with (
        shoal.connect(domain, store=tmp_path, store_listen="127.0.0.1:0") as keeper,
        shoal.connect(domain) as bus,
        bus.subscribe("news") as news,
    ):
        near = shoal.connect(domain)
        near.publish("news", "near", persistent=True)
        first = news.receive(PATIENCE_S)
        # Nobody hears this one but the store.
        far = shoal.connect(domain=name, interface="lo", store=keeper.store.urls[0])
        far.publish("news", "far", persistent=True)
        for dead in (near, far):
            channel = dead._connection.ready_channel("test", PATIENCE_S)
            channel.stop()
        second = news.receive(PATIENCE_S)
        assert first is not None
        assert second is not None
        assert (first.body, first.redelivered) == ("near", False)
        assert (second.body, second.redelivered) == ("far", True), "and the near one comes once"
        near.close(0)
        far.close(0)
