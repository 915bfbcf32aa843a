"""What a real publisher sends, a real store records, and its history gives back."""

import itertools
import json
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_program import StoreProgram
from typer.testing import CliRunner

import shoal
from shoal.cli.app import app
from shoal.config import resolve as resolve_connection
from shoal.errors import HistoryError, StoreUnavailableError
from shoal.history import History, connect
from shoal.store import Store
from shoal.store.committed import ROWS_MAX
from shoal.store.config import resolve


@pytest.fixture(scope="module")
def domain() -> str:
    """A domain of this module's own."""
    return f"history-{os.getpid()}"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, domain: str) -> Iterator[StoreProgram]:
    """A store for all tests, of which each has topics of its own."""
    store = StoreProgram(tmp_path_factory.mktemp("store") / "data", domain)
    yield store
    store.stop()


@pytest.fixture(scope="module")
def bus(domain: str, store: StoreProgram) -> Iterator[shoal.Bus]:
    with shoal.connect(domain=domain, interface="lo") as bus:
        assert bus.wait_for_subscribers("prices/1", 1, 60)
        yield bus


def publish(bus: shoal.Bus, first: int, count: int, topic: str = "prices") -> None:
    for number in range(first, first + count):
        properties = {"region": "EU" if number % 10 == 0 else "US", "number": number}
        bus.publish(f"{topic}/{number % 7}", {"bid": number}, properties=properties)


def numbers(table: pa.Table) -> list[int]:
    return [json.loads(body)["bid"] for body in table.column("body").to_pylist()]


def test_what_was_published_is_read_back_by_offset_by_time_and_in_parallel(
    store: StoreProgram, bus: shoal.Bus
) -> None:
    history = store.history
    began = history.info()["end"]
    publish(bus, 0, 5000)
    store.wait_for_end(began + 5000)
    between = datetime.now(UTC)
    publish(bus, 5000, 5000)
    store.wait_for_end(began + 10_000)
    whole = history.read("prices/*")
    assert numbers(whole) == list(range(10_000))
    assert numbers(history.read(start=began + 100, end=began + 200)) == list(range(100, 200))
    assert numbers(history.read("prices/*", to_time=between)) == list(range(5000))
    assert numbers(history.read("prices/*", from_time=between)) == list(range(5000, 10_000))
    assert numbers(history.read("prices/3", selector="region = 'EU'")) == [
        number for number in range(10_000) if number % 7 == 3 and number % 10 == 0
    ]
    ranges = history.plan("prices/*", partitions=4)
    assert len(ranges) > 1
    with ThreadPoolExecutor() as pool:
        parts = list(pool.map(lambda part: history.read("prices/*", start=part[0], end=part[1]), ranges))
    assert pa.concat_tables(parts).equals(whole)
    assert sum(topic["count"] for topic in history.topics("prices/*")) == 10_000
    row = whole.slice(0, 1).to_pylist()[0]
    assert row["message_id"] == f"ID:{row['publisher']}-{row['chain']}-{row['number']}"
    assert row["timestamp"] <= row["stored"] <= datetime.now(UTC)


def test_a_follower_gets_what_comes_without_asking_and_ends_where_it_is_told(
    store: StoreProgram, bus: shoal.Bus
) -> None:
    began = store.history.info()["end"]
    seen: dict[str, list[int]] = {"limit": [], "end": []}
    queries: dict[str, dict[str, int]] = {"limit": {"limit": 300}, "end": {"end": began + 250}}

    def follow(name: str) -> None:
        with connect(store.endpoint) as history:
            for batch in history.follow("followed/*", start=began, **queries[name]):
                seen[name].extend(numbers(pa.Table.from_batches([batch])))

    following = [threading.Thread(target=follow, args=(name,)) for name in queries]
    for thread in following:
        thread.start()
    for first in (0, 100, 200):
        publish(bus, first, 100, "followed")
        store.wait_for_end(began + first + 100)
    for thread in following:
        thread.join(30)
        assert not thread.is_alive()
    assert seen == {"limit": list(range(300)), "end": list(range(250))}


def test_rows_written_in_are_published_in_order(store: StoreProgram, bus: shoal.Bus) -> None:
    with bus.subscribe("orders/*") as orders:
        store.meet(bus)
        rows = {"topic": [f"orders/{n}" for n in range(100)], "body": [f"order {n}" for n in range(100)]}
        answer = store.history.write(pa.table(rows), scope="job", number=1)
        assert (answer["rows"], answer["repeated"]) == (100, False)
        again = store.history.write(pa.table(rows), scope="job", number=1)
        assert (again["first"], again["end"], again["repeated"]) == (answer["first"], answer["end"], True)
        received = [orders.receive(60) for _ in range(100)]
        assert [message and message.body for message in received] == rows["body"]
        assert orders.receive(0.2) is None
    assert store.history.read("orders/*").num_rows == 100


@pytest.mark.parametrize("seed", [0])
def test_a_commit_is_all_or_nothing_whenever_the_store_is_killed(
    tmp_path: Path, domain: str, seed: int
) -> None:
    chance = random.Random(seed)
    store = StoreProgram(tmp_path / "data", f"{domain}-killed")
    committed = 0
    try:
        for _ in range(3):
            killing = threading.Timer(chance.uniform(0.0, 0.3), store.crash)
            killing.start()
            committed = write_until_it_fails(store, committed + 1)
            killing.join()
            store.start()
            # What a client does that does not know whether its last commit arrived.
            committed += 1
            write(store, committed)
            found = store.history.read("t", columns=["body"]).column("body").to_pylist()
            expected = [f"{number}/{row}".encode() for number in range(1, committed + 1) for row in range(50)]
            assert found == expected, f"seed {seed}"
    finally:
        store.crash()


def test_a_commit_is_published_whole_though_the_store_is_killed_meanwhile(
    tmp_path: Path, domain: str
) -> None:
    count = 40_000
    store = StoreProgram(tmp_path / "data", f"{domain}-published")
    try:
        with (
            shoal.connect(domain=f"{domain}-published", interface="lo") as bus,
            bus.subscribe("rows", queue_bytes_max=64 << 20) as rows,
        ):
            store.meet(bus)
            table = pa.table({"body": [str(row) for row in range(count)]})
            store.history.write(table, topic="rows", scope="job", number=1)
            received = [rows.receive(60) for _ in range(1000)]
            store.crash()
            store.start()
            while not (received[-1] and received[-1].body == str(count - 1)):
                received.append(rows.receive(60))
                assert received[-1] is not None, f"nothing comes behind {received[-2]}"
        seen: dict[str, str] = {}
        again = 0
        for message in received:
            assert message is not None
            if message.message_id in seen:
                again += 1
                assert message.redelivered
            seen.setdefault(str(message.message_id), message.body)
        assert list(seen.values()) == [str(row) for row in range(count)]
        assert again <= ROWS_MAX
        ids = store.history.read("rows", columns=["message_id"]).column("message_id").to_pylist()
        assert list(seen) == ids
    finally:
        store.crash()


def test_rows_are_published_only_when_every_subscriber_has_them(
    tmp_path: Path, store: StoreProgram, bus: shoal.Bus, domain: str
) -> None:
    command = [sys.executable, "-m", "shoal.cli", "sub", "slowly", "--domain", domain, "--interface", "lo"]
    with (tmp_path / "out").open("w") as out:
        reader = subprocess.Popen(command, stdout=out)
    try:
        with bus.subscribe("slowly") as rows:
            store.meet(bus)
            while "known" not in (tmp_path / "out").read_text():
                store.history.write(pa.table({"body": ["known"]}), topic="slowly")
                assert rows.receive(60)
            assert wait_for_unpublished(store, 0)
            reader.send_signal(signal.SIGSTOP)
            store.history.write(pa.table({"body": ["row"] * 500}), topic="slowly")
            for _ in range(500):
                assert rows.receive(60)
            assert wait_for_unpublished(store, 500), (
                "a store that was killed now would not publish them again"
            )
            reader.send_signal(signal.SIGCONT)
            assert wait_for_unpublished(store, 0)
    finally:
        reader.send_signal(signal.SIGCONT)
        reader.terminate()
        reader.wait(60)


def wait_for_unpublished(store: StoreProgram, count: int) -> bool:
    deadline = time.monotonic() + 30
    while store.history.status()["unpublished_rows"] != count:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def write(store: StoreProgram, number: int) -> None:
    rows = pa.table({"body": [f"{number}/{row}" for row in range(50)]})
    store.history.write(rows, topic="t", scope="job", number=number)


def write_until_it_fails(store: StoreProgram, number: int) -> int:
    """The number of the last commit that was answered."""
    for each in itertools.count(number):
        try:
            write(store, each)
        except StoreUnavailableError:
            return each - 1
    raise AssertionError("counting ends")


def test_a_staging_that_nobody_commits_expires(tmp_path: Path) -> None:
    config = resolve(tmp_path / "data", flight="127.0.0.1:0", staging_keep_s=1.0)
    with Store(config, resolve_connection("inproc://", {})) as store, connect(store.endpoint) as history:
        history.stage("s", pa.table({"topic": ["a"]}))
        deadline = time.monotonic() + 30
        while history.status()["stagings"]:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        with pytest.raises(HistoryError) as refused:
            history.commit("job", 1, ["s"])
        assert refused.value.code == "NO-STAGING"


def test_the_command_looks_counts_and_exports(store: StoreProgram, bus: shoal.Bus, tmp_path: Path) -> None:
    began = store.history.info()["end"]
    publish(bus, 0, 100, "shown")
    store.wait_for_end(began + 100)
    path = tmp_path / "shown.parquet"
    command = ["history", "shown/*", "--store", str(store.path)]
    ran = subprocess.run(
        [sys.executable, "-m", "shoal.cli", *command, "--export", str(path)], capture_output=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert numbers(pq.read_table(path)) == list(range(100))

    def run(*options: str) -> str:
        answer = CliRunner().invoke(app, [*command, *options])
        assert answer.exit_code == 0, answer.output
        return answer.stdout

    assert run("--count") == "100\n"
    assert "shown/0" in run("--limit", "1")
    assert len(run("--follow", "--from", str(began), "--to", str(began + 100)).splitlines()) == 100


def test_a_hundred_readers_at_once(store: StoreProgram, bus: shoal.Bus) -> None:
    began = store.history.info()["end"]
    publish(bus, 0, 2000, "crowded")
    store.wait_for_end(began + 2000)

    def read(_: int) -> int:
        with connect(store.endpoint) as history:
            return int(history.read("crowded/*", columns=["offset"]).num_rows)

    with ThreadPoolExecutor(100) as pool:
        assert list(pool.map(read, range(100))) == [2000] * 100


def test_long_rows_are_read_by_many_in_turns(tmp_path: Path) -> None:
    config = resolve(tmp_path / "data", flight="127.0.0.1:0", segment_bytes=16 << 20)
    size = 12 << 20
    with Store(config, resolve_connection("inproc://", {})) as store:
        assert store.endpoint is not None
        with connect(store.endpoint) as history:
            rows = {"topic": ["a", "long", "b"] * 2, "body": [b"1", bytes(size), b"2"] * 2}
            history.write(pa.table(rows))
            assert [row.num_rows for row in history.batches(limit=3)] == [1, 1, 1]

            def read(_: int) -> list[int]:
                return [len(body) for body in history.read(columns=["body"]).column("body").to_pylist()]

            with ThreadPoolExecutor(12) as pool:
                assert list(pool.map(read, range(12))) == [[1, size, 1] * 2] * 12


def test_a_store_without_descriptors_refuses_new_readers_and_says_why(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    store = StoreProgram(tmp_path / "data", f"descriptors-{os.getpid()}")
    readers: list[History] = []
    try:
        used = len(list(Path(f"/proc/{store.process.pid}/fd").iterdir()))
        resource.prlimit(store.process.pid, resource.RLIMIT_NOFILE, (used + 20, limits[1]))
        refusals = []
        for _ in range(30):
            readers.append(connect(store.endpoint))
            try:
                readers[-1].info()
            except HistoryError as error:
                refusals.append(str(error))
        assert len(refusals) >= 10
        assert all("file descriptors in use, and needs the rest itself" in each for each in refusals)
        # Whoever was let in goes on, and whoever goes makes room.
        assert readers[0].info()["end"] == 0
        for reader in readers[1:6]:
            reader.close()
        deadline = time.monotonic() + 20
        while True:
            try:
                assert readers[-1].info()["end"] == 0
                break
            except HistoryError:
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        for reader in readers:
            reader.close()
        store.stop()
