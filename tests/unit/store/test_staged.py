"""Rows that history clients stage: destinations, backlogs, and totals after a kill."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from desk import Desk
from staging import stage

import shoal
from shoal import history
from shoal.config import ConnectionConfig
from shoal.errors import BacklogError, HistoryError, StoreFullError, StoreRefusedError
from shoal.history.incoming import destinations
from shoal.store import Store, resolve
from shoal.store.staged import Staged

_names = itertools.count()


class DeskServing:
    """What `Serving` is to stagings, on a desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        #: The store is killed before it counts what was committed.
        self.is_killed = False

    def check_destinations(self, destinations: Iterable[str]) -> None:
        self.desk.machine.check_destinations(self.desk.now, destinations)
        self.desk.run()

    def expect_rows(self, sizes: Mapping[str, tuple[int, int]]) -> None:
        if self.desk.machine.expect_rows(self.desk.now, sizes):
            assert self.desk.machine.append(self.desk.now)
            self.desk.log.sync()

    def took(self, first: int, end: int, **more: Any) -> None:
        if not self.is_killed:
            self.desk.machine.took(self.desk.now, first, end, **more)
            self.desk.run()


def staged_in(desk: Desk) -> tuple[Staged, DeskServing]:
    serving = DeskServing(desk)
    return Staged(desk.log, serving), serving  # type: ignore[arg-type]


def put(desk: Desk, staged: Staged, staging: str, topic: str, bodies: list[bytes]) -> None:
    staged.expect(staging, {topic: (len(bodies), sum(map(len, bodies)))}, more=False)
    stage(desk.log, staging, topic, bodies)


def totals(desk: Desk) -> dict[str, int]:
    return {each["name"]: each["messages"] for each in desk.machine.status()["queues"]}


@pytest.mark.parametrize("is_killed", [True, False])
def test_totals_are_exact_after_a_kill(is_killed: bool) -> None:
    desk = Desk()
    desk.client("a").put("q", b"before")
    staged, serving = staged_in(desk)
    put(desk, staged, "s", "_queue/q", [b"%d" % number for number in range(200)])
    serving.is_killed = is_killed
    staged.commit("scope", 1, ["s"])
    desk.crash()
    assert totals(desk) == {"q": 201}
    client = desk.client("b")
    assert client.ask("delete", queue="q", if_empty=True)["error"] == "IN_USE"
    client.put("q", b"after")
    desk.crash()
    assert totals(desk) == {"q": 202}
    assert len(desk.client("c").consume("q").bodies()) == 202
    assert not desk.log.items("counting/")
    staged_in(desk)
    assert not desk.log.items("staged/")


def test_a_repeated_or_refused_commit_counts_nothing() -> None:
    desk = Desk()
    staged, _ = staged_in(desk)
    put(desk, staged, "s", "_queue/q", [b"x"])
    assert staged.commit("scope", 1, ["s"])[2] is False
    assert staged.commit("scope", 1, ["s"])[2] is True
    put(desk, staged, "s", "_queue/q", [b"x"])
    with pytest.raises(StoreRefusedError):
        staged.commit("scope", 2, ["s", "missing"])
    assert totals(desk) == {"q": 1}
    desk.crash()
    assert totals(desk) == {"q": 1}


def test_a_commit_needs_room_in_every_backlog() -> None:
    desk = Desk()
    client = desk.client("a")
    client.ask("declare", queue="q", backlog_max_bytes=500)
    client.subscribe("t", name="s", shared=True, durable=True, backlog_max_bytes=500, messages=0)
    staged, _ = staged_in(desk)
    for topic in ("_queue/q", "t"):
        put(desk, staged, "fits", topic, [bytes(300)])
        staged.commit(None, 0, ["fits"])
        put(desk, staged, "not", topic, [bytes(300)])
        with pytest.raises(BacklogError):
            staged.commit(None, 0, ["not"])
    client.send("t", bytes(300))
    client.number = 0
    client.put("q", bytes(300))
    assert [body["error"] for body in client.heard if body["op"] == "refused"] == ["BACKLOG", "BACKLOG"]
    desk.crash()
    staged, _ = staged_in(desk)
    with pytest.raises(BacklogError):
        staged.commit(None, 0, ["not"])
    desk.machine.set_space("the disk is full", None)
    with pytest.raises(StoreFullError, match="the disk is full"):
        staged.commit(None, 0, ["not"])


@pytest.mark.parametrize("topic", ["_store/here", "_shoal/x", "other/topic", "_queue/other"])
def test_what_clients_may_not_send_they_may_not_stage(topic: str) -> None:
    desk = Desk(patterns=("mine/>",))
    staged, _ = staged_in(desk)
    with pytest.raises((StoreRefusedError, LookupError)):
        staged.expect("s", {topic: (1, 1)}, more=False)


def test_a_flight_client_is_refused_what_others_are(tmp_path: Path) -> None:
    domain = f"staged-{next(_names)}"
    config = resolve(tmp_path / "data", (), flight="127.0.0.1:0", patterns=["mine/>"])
    with (
        Store(config, ConnectionConfig(scheme="inproc", domain=domain)) as store,
        shoal.connect(f"inproc://{domain}") as bus,
    ):
        store.wait_open(30)
        assert store.endpoint is not None
        bus.queue("mine/q").declare(backlog_max_bytes=500)
        with history.connect(store.endpoint) as reader:
            for topic in ("_store/here", "other"):
                with pytest.raises(HistoryError, match=r"reserved|does not keep"):
                    reader.write(pa.table({"body": [b"x"]}), topic=topic)
            rows = pa.table({"topic": ["_queue/mine/q", "mine/t"], "body": [bytes(300), bytes(9000)]})
            reader.write(rows)
            with pytest.raises(HistoryError, match="no room"):
                reader.write(rows)
        message = bus.queue("mine/q").receive(10)
        assert message is not None
        assert message.body == bytes(300)


def test_sizes_of_a_batch_are_those_of_its_destinations() -> None:
    batch = pa.record_batch({"topic": ["a", None, "a"], "body": pa.array([b"xx", b"yyy", b""])})
    assert destinations(batch, "b", 35) == {"a": (2, 22), "b": (1, 13)}
    assert destinations(pa.record_batch({"body": ["x"]}), "b", 10) == {"b": (1, 10)}
    assert destinations(pa.record_batch({"topic": ["c"]}), None, 10) == {"c": (1, 10)}


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("goes", ["deleted", "expires"])
def test_a_queue_that_went_after_staging_gets_what_is_committed(goes: str, is_killed: bool) -> None:
    desk = Desk()
    client = desk.client("a", lease_s=3600)
    staged, serving = staged_in(desk)
    put(desk, staged, "s", "_queue/q", [b"1", b"2"])
    if goes == "deleted":
        assert client.ask("delete", queue="q", if_empty=True)["op"] == "answer"
    else:
        client.ask("declare", queue="q", expires_after_s=5)
        desk.wait(10)
    assert "q" not in totals(desk)
    serving.is_killed = is_killed
    staged.commit("scope", 1, ["s"])
    if is_killed:
        desk.crash()
    assert totals(desk)["q"] == 2
    assert desk.client("b").consume("q").bodies() == [b"1", b"2"]


def test_room_that_a_commit_took_stays_taken_when_the_queue_is_measured() -> None:
    desk = Desk()
    client = desk.client("a")
    client.ask("declare", queue="q", backlog_max_bytes=2000)
    client.put("q", bytes(900))
    stage(desk.log, "s", "_queue/q", [bytes(300)] * 2)
    sizes = {"_queue/q": (2, 700)}
    desk.machine.expect_rows(desk.now, sizes)
    client.put("q", bytes(900))
    assert [each["error"] for each in client.refused()] == ["BACKLOG"], "it was measured"
    first, end, _ = desk.log.commit("scope", 1, ["s"])
    desk.machine.took(desk.now, first, end, sizes)
    desk.run()
    assert totals(desk)["q"] == 3
    client.put("q", bytes(900), after=1)
    assert len(client.refused()) == 2


def test_rows_that_are_measured_before_they_are_counted_count_once() -> None:
    desk = Desk()
    client = desk.client("a")
    client.ask("declare", queue="q", backlog_max_bytes=2000)
    stage(desk.log, "s", "_queue/q", [bytes(300)] * 2)
    sizes = {"_queue/q": (2, 700)}
    desk.machine.expect_rows(desk.now, sizes)
    first, end, _ = desk.log.commit("scope", 1, ["s"])
    client.put("q", bytes(1900))
    assert [each["error"] for each in client.refused()] == ["BACKLOG"], "it was measured"
    desk.machine.took(desk.now, first, end, sizes)
    desk.run()
    assert totals(desk)["q"] == 2


def test_room_of_a_commit_that_failed_is_free_again() -> None:
    desk = Desk()
    client = desk.client("a")
    client.ask("declare", queue="q", backlog_max_bytes=2000)
    sizes = {"_queue/q": (2, 1900)}
    desk.machine.expect_rows(desk.now, sizes)
    desk.machine.took(desk.now, 0, 0, sizes)
    client.put("q", bytes(900))
    assert totals(desk)["q"] == 1
    assert client.refused() == []
