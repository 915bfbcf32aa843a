"""What a real publisher sends, a real store records, and its history gives back."""

import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from store_program import StoreProgram

import shoal
from shoal.config import resolve as resolve_connection
from shoal.errors import HistoryError, StoreUnavailableError
from shoal.history import connect
from shoal.store import Store
from shoal.store.config import resolve

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
StartStore = Callable[..., StoreProgram]


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    """A domain of the test's own."""
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def start_store(tmp_path: Path, domain: str) -> Iterator[StartStore]:
    running: list[StoreProgram] = []

    def start(*options: str, token: str | None = None) -> StoreProgram:
        running.append(StoreProgram(tmp_path / "data", domain, *options, token=token))
        return running[-1]

    yield start
    for store in running:
        store.stop()


@pytest.fixture
def store(start_store: StartStore) -> StoreProgram:
    return start_store()


@pytest.fixture
def bus(domain: str) -> Iterator[shoal.Bus]:
    with shoal.connect(domain=domain, interface="lo") as bus:
        yield bus


def publish(bus: shoal.Bus, first: int, count: int) -> None:
    for number in range(first, first + count):
        properties = {"region": "EU" if number % 10 == 0 else "US", "number": number}
        bus.publish(f"prices/{number % 7}", {"bid": number}, properties=properties)


def numbers(table: pa.Table) -> list[int]:
    return [json.loads(body)["bid"] for body in table.column("body").to_pylist()]


def test_what_was_published_is_read_back_by_offset_by_time_and_in_parallel(
    store: StoreProgram, bus: shoal.Bus
) -> None:
    assert bus.wait_for_subscribers("prices/1", 1, 20)
    publish(bus, 0, 5000)
    store.wait_for_end(5000)
    between = datetime.now(UTC)
    publish(bus, 5000, 5000)
    store.wait_for_end(10_000)
    history = store.history
    whole = history.read("prices/*")
    assert numbers(whole) == list(range(10_000))
    assert numbers(history.read(start=100, end=200)) == list(range(100, 200))
    assert numbers(history.read(to_time=between)) == list(range(5000))
    assert numbers(history.read(from_time=between)) == list(range(5000, 10_000))
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


def test_a_follower_gets_what_comes_without_asking(store: StoreProgram, bus: shoal.Bus) -> None:
    assert bus.wait_for_subscribers("prices/1", 1, 20)
    seen: list[int] = []

    def follow() -> None:
        with connect(store.endpoint) as history:
            for batch in history.follow("prices/*", start=0, limit=300):
                seen.extend(numbers(pa.Table.from_batches([batch])))

    following = threading.Thread(target=follow)
    following.start()
    for first in (0, 100, 200):
        publish(bus, first, 100)
        store.wait_for_end(first + 100)
    following.join(30)
    assert seen == list(range(300))


def test_rows_written_in_are_published_in_order(store: StoreProgram, bus: shoal.Bus) -> None:
    with bus.subscribe("orders/*") as orders:
        rows = {"topic": [f"orders/{n}" for n in range(100)], "body": [f"order {n}" for n in range(100)]}
        answer = store.history.write(pa.table(rows), scope="job", number=1)
        assert (answer["rows"], answer["repeated"]) == (100, False)
        again = store.history.write(pa.table(rows), scope="job", number=1)
        assert (again["first"], again["end"], again["repeated"]) == (answer["first"], answer["end"], True)
        received = [orders.receive(20) for _ in range(100)]
        assert [message and message.body for message in received] == rows["body"]
        assert orders.receive(0.2) is None
    assert store.history.read("orders/*").num_rows == 100


@pytest.mark.parametrize("seed", [0])
def test_a_commit_is_all_or_nothing_whenever_the_store_is_killed(start_store: StartStore, seed: int) -> None:
    chance = random.Random(seed)
    store = start_store()
    committed = 0
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


def test_a_reader_with_another_token_learns_nothing(start_store: StartStore) -> None:
    store = start_store("--token", "secret", token="secret")
    assert store.history.info()["end"] == 0
    with connect(store.endpoint, token="guess") as history, pytest.raises(HistoryError) as refused:
        history.read()
    assert refused.value.code == "DENIED"


def test_the_command_looks_counts_and_exports(store: StoreProgram, bus: shoal.Bus, tmp_path: Path) -> None:
    assert bus.wait_for_subscribers("prices/1", 1, 20)
    publish(bus, 0, 100)
    store.wait_for_end(100)
    path = tmp_path / "prices.parquet"

    def run(*options: str) -> str:
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "history",
            "prices/*",
            "--store",
            str(store.path),
            *options,
        ]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    assert run("--count") == "100\n"
    assert "prices/0" in run("--limit", "1")
    run("--export", str(path))
    assert numbers(pq.read_table(path)) == list(range(100))


def test_what_the_page_on_reading_history_shows_works(store: StoreProgram, bus: shoal.Bus) -> None:
    assert bus.wait_for_subscribers("prices/1", 1, 20)
    publish(bus, 0, 100)
    store.wait_for_end(100)
    examples = FENCE.findall((ROOT / "docs/how-to/read-history.md").read_text())
    assert len(examples) >= 7
    for number, example in enumerate(examples):
        if ".follow(" in example:
            examples[number] = example.replace(
                '.follow("prices/>")', '.follow("prices/>", start=0, limit=100)'
            )
        elif "prices =" in example and "duckdb" not in example:
            examples[number] += "\nassert len(prices) in (10, 100)\n"
    # The last one writes two orders, once however often it runs.
    program = "\n".join(f"exec({example!r}, {{}})" for example in [*examples, examples[-1]])
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=store.path.parent, timeout=90, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert store.history.read("orders/*").num_rows == 2


def test_two_hundred_readers_at_once(store: StoreProgram, bus: shoal.Bus) -> None:
    assert bus.wait_for_subscribers("prices/1", 1, 20)
    publish(bus, 0, 2000)
    store.wait_for_end(2000)

    def read(_: int) -> int:
        with connect(store.endpoint) as history:
            return int(history.read(columns=["offset"]).num_rows)

    began = time.monotonic()
    with ThreadPoolExecutor(200) as pool:
        assert list(pool.map(read, range(200))) == [2000] * 200
    assert time.monotonic() - began < 60
