"""Rows that are committed to a store are published once they are durable, in order, also after a crash."""

import contextlib
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from staging import stage

import shoal
from shoal._core import encode_record, publish_rows
from shoal.bus.inside import node_of
from shoal.config import ConnectionConfig
from shoal.errors import StoreRefusedError
from shoal.store import Store, resolve
from shoal.store.committed import ROWS_MAX

_names = itertools.count()


@pytest.fixture
def domain() -> str:
    return f"commits-{next(_names)}"


@pytest.fixture
def bus(domain: str) -> Iterator[shoal.Bus]:
    with shoal.connect(f"inproc://{domain}") as bus:
        yield bus


def open_store(path: Path, domain: str, *patterns: str) -> Store:
    config = resolve(path / "data", patterns, segment_bytes=64 << 10, staging_keep_s=60.0)
    return Store(config, ConnectionConfig(scheme="inproc", domain=domain))


def keep(store: Store, now_s: float | None = None) -> None:
    """What the store does every second, at another time."""
    with store._lock:
        store._keeper.turn(now_s)


def bodies(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def receive(subscription: shoal.Subscription, count: int) -> list[bytes]:
    found = []
    while len(found) < count and (message := subscription.receive(20.0)) is not None:
        found.append(message.body)
    return found


def test_committed_rows_are_published_in_order_and_not_recorded_again(
    tmp_path: Path, domain: str, bus: shoal.Bus
) -> None:
    subscription = bus.subscribe("s/>")
    with open_store(tmp_path, domain, ">") as store:
        stage(store.log, "a", "s/a", bodies(0, 1000))
        stage(store.log, "b", "s/b", bodies(1000, 1000))
        stage(store.log, "a", "s/a", bodies(500, 10))
        assert subscription.pending == 0
        assert store.commit("q", 1, ["b", "a"]) == (0, 2010, False)
        assert store.commit("q", 1, ["b", "a"]) == (0, 2010, True)
        wanted = bodies(1000, 1000) + bodies(0, 1000) + bodies(500, 10)
        assert receive(subscription, 2010) == wanted
        until = time.monotonic() + 20
        while store.log.unpublished() and time.monotonic() < until:
            time.sleep(0.01)
        assert store.log.unpublished() == []
        bus.publish("s/c", b"recorded")
        store.log.wait_for(2010, 20.0)
        assert [row[0] for row in store.log.rows(2010, 1 << 60)] == [2010]
        assert store.log.durable_end == 2011


def test_what_a_crash_left_unpublished_is_published_by_the_next_start(
    tmp_path: Path, domain: str, bus: shoal.Bus
) -> None:
    store = open_store(tmp_path, domain)
    # As if the store had been killed behind the commit and after 300 rows: nobody is told of it.
    stage(store.log, "a", "s/a", bodies(0, 1000))
    store._publishing.stop()
    store.log.commit("q", 1, ["a"])
    store.log.set_published(300)
    store.close()
    subscription = bus.subscribe("s/>")
    with open_store(tmp_path, domain) as store:
        assert receive(subscription, 700) == bodies(300, 700)
        assert store.commit("q", 1, ["a"]) == (0, 1000, True)
        assert subscription.receive(0.5) is None


def test_a_closed_store_has_no_spare_segments_open(tmp_path: Path, domain: str) -> None:
    """They would take room on the disk, though the directory is removed, until nobody knows the store."""
    store = open_store(tmp_path, domain)
    assert any("spare" in name for name in open_files(tmp_path))
    store.close()
    assert not any("spare" in name for name in open_files(tmp_path))


def open_files(path: Path) -> list[str]:
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [name for name in found if name.startswith(str(path))]


def test_only_rows_that_are_visible_are_published(tmp_path: Path, domain: str, bus: shoal.Bus) -> None:
    with open_store(tmp_path, domain) as store:
        stage(store.log, "a", "s/a", bodies(0, 10))
        store.commit("q", 1, ["a"])
        assert publish_rows(store.log, node_of(bus), 5, 20, 100, 0, 1.0) == (10, None)
        assert publish_rows(store.log, node_of(bus), 10, 20, 100, 0, 1.0) == (10, None)


def test_a_row_is_published_as_history_has_it_and_says_whether_it_may_come_twice(
    tmp_path: Path, domain: str, bus: shoal.Bus
) -> None:
    store = open_store(tmp_path, domain)
    stage(store.log, "a", "s/a", bodies(0, ROWS_MAX + 100))
    store._publishing.stop()
    store.log.commit("q", 1, ["a"])
    store.close()
    subscription = bus.subscribe("s/>")
    other = Store(resolve(tmp_path / "other", ">"), ConnectionConfig(scheme="inproc", domain=domain))
    with other, open_store(tmp_path, domain) as store:
        # The store before may have been killed in the midst of them.
        first = [message for _ in range(ROWS_MAX) if (message := subscription.receive(20.0))]
        assert len(first) == ROWS_MAX
        assert all(message.redelivered for message in first)
        stage(store.log, "b", "s/b", bodies(0, 10))
        store.commit("q", 2, ["b"])
        later = [message for _ in range(110) if (message := subscription.receive(20.0))]
        assert len(later) == 110
        assert not any(message.redelivered for message in later)
        received = first + later
        rows = store.log.rows(0, 1 << 60, rows_max=2 * ROWS_MAX)
        assert [message.message_id for message in received] == [
            f"ID:{row[2]:016x}-{row[3]}-{row[4]}" for row in rows
        ]
        assert [message.timestamp for message in received] == [row[5] / 1e6 for row in rows]
        # Whoever records them elsewhere has the same identity and time.
        other.log.wait_for(len(rows) - 1, 20.0)
        recorded = other.log.rows(0, 1 << 60, rows_max=2 * ROWS_MAX)
        assert [row[2:6] for row in recorded] == [row[2:6] for row in rows]


def test_a_row_that_nobody_can_be_sent_is_kept_and_the_rest_is_published(
    tmp_path: Path, domain: str, bus: shoal.Bus, caplog: pytest.LogCaptureFixture
) -> None:
    subscription = bus.subscribe("s/>")
    connection = ConnectionConfig(scheme="inproc", domain=domain, message_bytes_max=1000)
    with Store(resolve(tmp_path / "data"), connection) as store:
        stage(store.log, "a", "s/a", [b"one", b"x" * 2000, b"three"])
        store.commit("q", 1, ["a"])
        assert receive(subscription, 2) == [b"one", b"three"]
        assert "The row at offset 1 is stored but not published" in caplog.text
        assert store.failure is None
        assert len(store.log.rows(0, 10)) == 3


def test_stagings_expire_and_a_commit_of_one_is_refused(tmp_path: Path, domain: str) -> None:
    with open_store(tmp_path, domain) as store:
        stage(store.log, "old", "s", bodies(0, 3))
        keep(store, time.time() + 30)
        assert [staging[:2] for staging in store.log.stagings()] == [("old", 3)]
        keep(store, time.time() + 120)
        assert store.log.stagings() == []
        with pytest.raises(StoreRefusedError, match="or expired"):
            store.commit("q", 1, ["old"])


def test_what_was_staged_and_discarded_gives_its_room_back(tmp_path: Path, domain: str) -> None:
    with open_store(tmp_path, domain) as store:
        for number in range(20):
            stage(store.log, "dead", "s", [b"x" * 1000] * 10)
            store.log.append(1, 1, [(None, 1, encode_record("t", b"%d" % number))])
        stage(store.log, "live", "s", [b"live"])
        store.log.discard(["dead"])
        store.commit("q", 1, ["live"])
        store.log.seal()
        store.sync()
        before = [row[6] for row in store.log.rows(0, 100)]
        for _ in range(len(store.log.segments())):
            keep(store)
        sealed = store.log.segments()[:-1]
        assert len(sealed) > 2
        # The one that a later commit refers to stays as it is.
        assert sum(segment["bytes"] for segment in sealed) < 100_000
        assert [row[6] for row in store.log.rows(0, 100)] == before
        assert len(before) == 21


def test_retention_waits_until_commits_are_published(tmp_path: Path, domain: str) -> None:
    config = resolve(tmp_path / "data", segment_bytes=64 << 10, keep="1d")
    with Store(config, ConnectionConfig(scheme="inproc", domain=domain)) as store:
        store._publishing.stop()
        for number in range(20):
            stage(store.log, "a", "s", [b"x" * 1000] * 10)
            store.commit("q", number, ["a"])
        later = time.time() + 2 * 86_400
        keep(store, later)
        assert store.floor == 0
        store.log.set_published(200)
        keep(store, later)
        assert store.floor > 0


def test_a_scope_that_is_forgotten_stays_so_after_a_crash_and_leaves_the_projection(
    tmp_path: Path, domain: str
) -> None:
    with open_store(tmp_path, domain) as store:
        for number in range(100):
            stage(store.log, "s", "a", [b"x"])
            store.commit(f"once-{number}", 0, ["s"])
            assert store.log.forget(f"once-{number}")
        stage(store.log, "s", "a", [b"x"])
        store.commit("kept", 7, ["s"])
        assert not store.log.forget("never")
        keep(store)
    with open_store(tmp_path, domain) as store:
        assert [(scope, number) for scope, number, *_ in store.log.scopes()] == [("kept", 7)]
        keep(store)
        database = store._keeper.projection._database
        assert database.execute("SELECT scope FROM commits").fetchall() == [("kept",)]
