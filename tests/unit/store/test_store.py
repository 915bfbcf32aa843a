"""The store role, in one process."""

import errno
import itertools
import logging
import os
import resource
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from staging import commit_below_and_above_a_floor

import shoal
from shoal._core import encode_record
from shoal.bus import store_channel
from shoal.config import ConnectionConfig
from shoal.errors import StoreCorruptError, StoreError, StoreFailedError, StoreFullError, StoreLockedError
from shoal.store import Store, resolve
from shoal.store.recording import Recording
from shoal.store.role import renew
from shoal.store.status import read_status

_names = itertools.count()


@pytest.fixture
def domain() -> str:
    return f"store-{next(_names)}"


@pytest.fixture
def open_store(tmp_path: Path, domain: str) -> Iterator[Callable[..., Store]]:
    """Stores on the test's directory and domain, with small segments."""
    stores: list[Store] = []

    def open_store(*patterns: str, **options: Any) -> Store:
        options.setdefault("segment_bytes", 64 << 10)
        options.setdefault("sync_every_s", 0.0)
        config = resolve(tmp_path / "data", options.pop("record", patterns), **options)
        store = Store(config, ConnectionConfig(scheme="inproc", domain=domain))
        stores.append(store)
        return store

    yield open_store
    for store in stores:
        store.close()


def keep(store: Store, now_s: float | None = None) -> None:
    """What the store does every second, at another time."""
    with store._lock:
        store._keeper.turn(now_s)


def recorded(store: Store, count: int) -> list[bytes]:
    """The records, once there are so many."""
    until = time.monotonic() + 20
    while store.log.durable_end < count and time.monotonic() < until:
        store.log.wait_for(count - 1, 1.0)
    return [row[6] for row in store.log.rows(store.floor, 1 << 60, rows_max=1_000_000)]


def test_a_store_records_its_patterns_each_message_once(
    open_store: Callable[..., Store], domain: str
) -> None:
    store = open_store("prices/>", "prices/ACME", "orders/*")
    with shoal.connect(f"inproc://{domain}") as bus:
        for number in range(100):
            bus.publish("prices/ACME", number)
            bus.publish("orders/1", number)
            bus.publish("news", number)
    assert len(recorded(store, 200)) == 200
    topics = {topic["topic"]: topic["messages"] for topic in store.status()["topics"]}
    assert topics == {"prices/ACME": 100, "orders/1": 100}


def test_an_application_is_a_store_by_one_argument(tmp_path: Path, domain: str) -> None:
    with shoal.connect(f"inproc://{domain}", store=tmp_path / "data", record="a/*", keep="7d") as bus:
        assert bus.store.config.keep_s == 7 * 86_400
        for number in range(10):
            bus.publish("a/b", number)
    with shoal.connect(f"inproc://{domain}", store=tmp_path / "data") as bus:
        assert bus.store.log.durable_end == 10
        # Its own connection tells who published: the same for all of them, and numbered.
        rows = bus.store.log.rows(0, 10)
        assert len({row[2] for row in rows}) == 1
        assert [row[4] for row in rows] == list(range(rows[0][4] or 0, (rows[0][4] or 0) + 10))


def test_an_application_says_what_its_store_keeps_and_where_it_listens(
    tmp_path: Path, domain: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.connect(
        f"inproc://{domain}",
        store=tmp_path / "data",
        store_patterns=["orders/>", "orders"],
        store_listen="127.0.0.1:0",
        store_name="orders",
    ) as bus:
        assert bus.store.config.patterns == ("orders/>", "orders")
        assert bus.store.urls[0].startswith("tcp://127.0.0.1:")
        bus.publish("orders/1", persistent=True)
        monkeypatch.setattr(store_channel, "LOOK_S", 0.2)
        with pytest.raises(shoal.NoStoreError, match="'orders' keeps orders/>, orders"):
            bus.publish("news", persistent=True)


def test_a_second_store_is_refused_and_told_who_has_the_directory(
    open_store: Callable[..., Store],
) -> None:
    open_store("a", name="first")
    with pytest.raises(StoreLockedError, match="belongs to the store 'first' of process"):
        open_store("a", name="second")


def test_the_projection_can_be_removed_at_any_time(
    open_store: Callable[..., Store], tmp_path: Path, domain: str
) -> None:
    with shoal.connect(f"inproc://{domain}") as bus:
        store = open_store("t/>")
        for number in range(3000):
            bus.publish(f"t/{number % 7}", b"x" * 100)
        before = recorded(store, 3000)
        keep(store)
        topics = store.status()["topics"]
        store.close()
    data = tmp_path / "data"
    assert list(data.glob("*.idx"))
    for file in [*data.glob("*.idx"), *data.glob("state.sqlite*")]:
        file.unlink()
    store = open_store()
    assert store._keeper.projection.rebuilt
    assert recorded(store, 3000) == before
    assert store.status()["topics"] == topics
    keep(store)
    segments = store.log.segments()
    assert len(segments) > 3
    assert len(list(data.glob("*.idx"))) == len(segments) - 1


def test_a_projection_that_is_ahead_of_the_log_means_a_restored_copy(
    open_store: Callable[..., Store], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    incarnation = store.log.incarnation
    store.close()
    with sqlite3.connect(tmp_path / "data/state.sqlite") as database:
        database.execute("UPDATE facts SET value = 1000000 WHERE key = 'position'")
    database.close()
    store = open_store()
    assert store.log.incarnation != incarnation
    assert "restored from a copy" in caplog.text
    renewed = store.log.incarnation
    store.close()
    assert open_store().log.incarnation == renewed


def test_what_is_old_goes_and_what_is_held_stays(open_store: Callable[..., Store], domain: str) -> None:
    store = open_store("t", keep="1d")
    with shoal.connect(f"inproc://{domain}") as bus:
        for _ in range(2000):
            bus.publish("t", b"x" * 100)
    recorded(store, 2000)
    store.hold("reader", 1000)
    later = time.time() + 2 * 86_400
    keep(store, later)
    assert 0 < store.floor <= 1000
    held = store.floor
    assert store.holds() == {"reader": 1000}
    assert store.lost_before(["t"]) == held
    assert store.lost_before(["other"]) == 0
    assert store.release("reader")
    assert not store.release("reader")
    keep(store, later)
    assert store.floor > 1000
    assert store.log.end == 2000


def test_a_rule_of_its_own_removes_a_topic_and_leaves_the_others_at_their_offsets(
    open_store: Callable[..., Store],
) -> None:
    store = open_store(record=[{"pattern": "short", "keep": "1h"}, "long"])
    for number in range(0, 2000, 10):
        topics = ("short" if at % 2 else "long" for at in range(number, number + 10))
        store.log.append(1, 1, [(None, 1, encode_record(topic, b"x" * 100)) for topic in topics])
    store.sync()
    # One segment is written anew in a turn, and the last one is sealed first.
    for _ in range(store.status()["segments"] + 1):
        keep(store, time.time() + 7200)
    last = store.log.segments()[-1]["first"]
    offsets = [row[0] for row in store.log.rows(0, last, rows_max=10_000)]
    assert store.floor == 0
    assert last > 1000
    assert offsets == list(range(0, last, 2))
    assert store.lost_before(["short"]) > 0
    assert store.lost_before(["long"]) == 0


def test_a_store_without_room_refuses_says_so_and_goes_on(
    open_store: Callable[..., Store], domain: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    failures: list[BaseException] = []
    recording = Recording(
        store.log, store._bus, ["t"], queue_bytes_max=1 << 20, stored=[], failed=failures.append
    )
    recording.pause("there is no room")
    assert recording.refused == "there is no room"
    recording.start()
    with shoal.connect(f"inproc://{domain}") as bus:
        bus.publish("t", 1)
        store.log.wait_for(0, 0.3)
        assert store.log.durable_end == 0
        recording.resume()
        assert len(recorded(store, 1)) == 1
    recording.stop()
    assert "recording goes on" in caplog.text
    assert failures == []


def test_a_pattern_without_room_is_told_once_while_others_have_nothing_to_record(
    open_store: Callable[..., Store], domain: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    recording = Recording(
        store.log, store._bus, ["a", "b"], queue_bytes_max=1 << 20, stored=[], failed=lambda _: None
    )
    full, idle = recording._recorders
    for _ in range(5):
        recording._refuse(full, "the disk is full")
        recording._goes_on(idle)
        assert recording.refused == "the disk is full"
    recording._goes_on(full)
    assert recording.refused is None
    recording.stop()
    told = [record.message for record in caplog.records if record.name == "shoal.store"]
    assert [line.split()[0] for line in told] == ["SHOAL-3007", "SHOAL-3008"]
    assert "the disk is full" in told[0]


def test_a_store_starts_though_a_commit_below_the_floor_lost_its_rows(
    open_store: Callable[..., Store], tmp_path: Path
) -> None:
    store = open_store("t", keep="1h")
    log = store.log
    floor = commit_below_and_above_a_floor(log, store.commit)
    until = time.monotonic() + 20
    while log.unpublished() and time.monotonic() < until:
        store.wait(0.02)
    assert log.trim(floor) == (floor, [1])
    store.close()
    data = tmp_path / "data"
    for file in [*data.glob("*.idx"), *data.glob("state.sqlite*")]:
        file.unlink()
    store = open_store("t", keep="1h")
    keep(store)
    assert store.failure is None
    assert store.status()["topics"] == [{"topic": "t", "messages": 4, "first": floor, "last": floor + 3}]
    # What is old goes, though the oldest segments tell nothing of what is in them.
    keep(store, time.time() + 7200)
    assert store.floor == floor + 4


def test_a_store_that_cannot_write_its_files_beside_the_log_goes_on_and_tries_again(
    open_store: Callable[..., Store],
    domain: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = open_store("t", keep="1d")

    def fails(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store._keeper.projection, "update", fails)
        patch.setattr("shoal.store.role.write_status", full)
        with shoal.connect(f"inproc://{domain}") as bus:
            for _ in range(2000):
                bus.publish("t", b"x" * 100)
        recorded(store, 2000)
        until = time.monotonic() + 20
        while "Maintenance of the store failed: [Errno 28]" not in caplog.text and time.monotonic() < until:
            store.wait(0.05)
        assert "The projection is behind: database or disk is full" in caplog.text
        assert "Maintenance of the store failed: [Errno 28]" in caplog.text
        assert store.failure is None
        # Nothing is removed because it is not known what it is; what is old by the store's own rule goes.
        keep(store)
        assert store.floor == 0
        with pytest.raises(sqlite3.OperationalError):
            keep(store, time.time() + 2 * 86_400)
        assert store.floor > 0
    keep(store)
    assert store._keeper.projection.segments()


def test_trouble_that_lasts_is_said_once_until_it_is_over(
    open_store: Callable[..., Store], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store("t")
    keeper = store._keeper

    class Full:
        def __getattr__(self, name: str) -> object:
            return getattr(store.log, name)

        def build_next_index(self) -> bool:
            raise StoreFullError("the disk is full")

    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(keeper, "_log", Full())
            for _ in range(3):
                keep(store)
        keep(store)
    assert caplog.text.count("Cannot write an index") == 2


def test_a_store_without_descriptors_waits_for_one_and_loses_nothing(
    open_store: Callable[..., Store], domain: str
) -> None:
    store = open_store("t")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with shoal.connect(f"inproc://{domain}") as bus:
        bus.publish("t", 0)
        recorded(store, 1)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            # More than a segment, and the next one needs a descriptor.
            for _ in range(2000):
                bus.publish("t", b"x" * 100)
            until = time.monotonic() + 20
            while store._recording.refused is None and time.monotonic() < until:
                store.wait(0.02)
            assert "Too many open files" in (store._recording.refused or "")
            assert store.failure is None
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert len(recorded(store, 2001)) == 2001
        while store.status()["state"] != "recording" and time.monotonic() < until:
            store.wait(0.02)
        assert store.status()["state"] == "recording"


def test_a_damaged_old_segment_does_not_stop_the_store(
    open_store: Callable[..., Store], domain: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store("t", keep="1d")
    with shoal.connect(f"inproc://{domain}") as bus:
        for _ in range(2000):
            bus.publish("t", b"x" * 100)
        recorded(store, 2000)
        store.close()
        data = tmp_path / "data"
        for file in [*data.glob("*.idx"), *data.glob("state.sqlite*")]:
            file.unlink()
        with (data / "0000000002.log").open("r+b") as segment:
            segment.seek(20_000)
            segment.write(b"damage")
        store = open_store("t", keep="1d")
        keep(store)
        assert "0000000002.log is damaged" in caplog.text
        bus.publish("t", b"still")
        store.log.wait_for(2000, 20.0)
        assert store.log.durable_end == 2001
        # What lies before and behind can be read, and retention leaves it all alone.
        segments = store.log.segments()
        assert store.floor == 0
        assert len(store.log.rows(0, segments[1]["first"], rows_max=10_000)) == segments[1]["first"]
        assert store.log.rows(segments[2]["first"], 2001, rows_max=10_000)[-1][0] == 2000
        with pytest.raises(StoreCorruptError, match=f"offsets [0-9]+ to {segments[1]['end']}"):
            store.log.rows(0, 2001, rows_max=10_000)


def test_a_nearly_full_disk_is_warned_of_once_and_then_refused(
    open_store: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store("t", warn_free_bytes=1 << 60, min_free_bytes=0)
    for _ in range(2):
        store._look_at_disk()
    assert caplog.text.count("bytes left; below 0 the store records nothing more") == 1
    store.close()
    full = open_store("t", warn_free_bytes=1 << 60, min_free_bytes=1 << 60)
    full._look_at_disk()
    assert full.status()["state"].startswith("full: the disk of")


def test_the_status_is_there_for_other_processes(open_store: Callable[..., Store], tmp_path: Path) -> None:
    store = open_store("t", keep="1d")
    store.close()
    status = read_status(tmp_path / "data")
    assert status["state"] == "closed"
    assert status["keep_s"] == 86_400
    assert not status["stale"]


def test_a_store_that_failed_says_so_and_takes_nothing_more(
    open_store: Callable[..., Store], caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store("t")
    store._fail(StoreFailedError("the sync failed"))
    with pytest.raises(StoreFailedError, match="the sync failed"):
        store.wait(1.0)
    assert store.status()["state"] == "failed: the sync failed"
    assert [record.levelno for record in caplog.records if "stopped" in record.message] == [logging.CRITICAL]


def test_closing_ends_every_thread(open_store: Callable[..., Store]) -> None:
    before = threading.active_count()
    open_store("a", "b").close()
    assert threading.active_count() == before


def test_a_restored_store_can_be_told_so(open_store: Callable[..., Store], tmp_path: Path) -> None:
    store = open_store()
    store.close()
    former, renewed = renew(tmp_path / "data")
    assert former == store.log.incarnation != renewed
    assert open_store().log.incarnation == renewed
    with pytest.raises(StoreLockedError):
        renew(tmp_path / "data")
    with pytest.raises(StoreError, match="has no log"):
        renew(tmp_path / "nothing")


def test_a_store_whose_connection_ends_stops_and_says_so(open_store: Callable[..., Store]) -> None:
    store = open_store("t")
    store._bus.close(0.0)
    with pytest.raises(StoreError, match="connection ended, and nothing more is recorded"):
        store.wait(20.0)


NONSENSE: list[tuple[str, Any]] = [
    ("_store/here", {"patterns": [">"], "since": None, "run": None}),
    ("_store/here", {"patterns": ["a//b", ""], "since": 1, "run": "x"}),
    ("_store/here", {"patterns": [[], {}], "since": [], "run": []}),
    ("_store/here", {"patterns": [">"], "since": -1, "run": "x"}),
    ("_store/here", 7),
    ("in", {"op": "hello", "session": "*", "n": 1, "version": 1, "publisher": 5}),
    ("in", {"op": "ping", "session": "\U0001f600" * 64, "n": 1}),
    ("in", {"op": ["ping"], "session": ["a"], "n": []}),
    ("in", "hello"),
]


@pytest.mark.parametrize("number", range(len(NONSENSE)))
def test_nobody_stops_a_store_by_talking_nonsense(
    open_store: Callable[..., Store], domain: str, number: int
) -> None:
    store = open_store()
    store.wait_open(10)
    topic, body = NONSENSE[number]
    with shoal.connect(f"inproc://{domain}") as bus:
        bus.publish(f"_store/{store.log.store_id:016x}/in" if topic == "in" else topic, body)
        bus.queue("orders").send("tea", timeout_s=30)
        found = bus.subscribe("_store/here")
        bus.publish("_store/who", {})
        assert found.receive(30) is not None
    assert store.failure is None


def test_a_store_starts_again_after_many_messages_were_given_back(
    open_store: Callable[..., Store], domain: str
) -> None:
    store = open_store()
    with shoal.connect(f"inproc://{domain}") as bus:
        queue, between = bus.queue("q"), bus.queue("between")
        for number in range(1500):
            queue.send(number, window=500)
            between.send(number, window=500)
        bus.flush(20)
        with queue.consume(ack="manual", prefetch=500) as consumer:
            for _ in range(1500):
                assert consumer.receive(20) is not None
        used, most = store.log.state_bytes
        assert used < most / 2
    store.close()
    open_store()
    with shoal.connect(f"inproc://{domain}") as bus, bus.queue("q").consume(ack="manual") as consumer:
        message = consumer.receive(20)
        assert message is not None
        assert (message.body, message.delivery_count) == (0, 2)
