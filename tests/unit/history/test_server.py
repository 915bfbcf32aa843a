"""Questions to a history server, and its answers."""

import json
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from memory_store import MemoryScan, MemoryStore
from pyarrow import flight
from serving import Serve
from twin import Stored

from shoal._core import StagedRows
from shoal.config.tokens import Principal, Principals, Token, write_principals
from shoal.errors import ConfigError, HistoryError, LinkError, StoreUnavailableError
from shoal.history import History, connect
from shoal.history.options import ServerOptions
from shoal.history.query import Query
from shoal.history.reader import Reader
from shoal.history.schema import COLUMN_TYPES, DEFAULT_COLUMNS, SCHEMA_VERSION
from shoal.history.server import HistoryServer


def prices(count: int) -> list[Stored]:
    """Messages on three topics, stored a second apart."""
    return [
        Stored(
            topic=f"prices/{'ABC'[n % 3]}",
            body={"bid": n},
            properties={"region": "EU" if n % 2 else "US", "size": n},
            number=n,
            publisher=7,
            stored_us=n * 1_000_000,
            timestamp_us=n * 1_000_000 + 1,
        )
        for n in range(count)
    ]


def offsets(table: pa.Table) -> list[int]:
    return list(table.column("offset").to_pylist())


def refusal(call: Any, code: str) -> HistoryError:
    with pytest.raises(HistoryError) as caught:
        call()
    assert caught.value.code == code, str(caught.value)
    return caught.value


def test_everything_is_read_back_in_the_order_of_offsets(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(100))
    table = history.read()
    assert tuple(table.column_names) == DEFAULT_COLUMNS
    assert offsets(table) == list(range(100))
    assert json.loads(table.column("body")[7].as_py()) == {"bid": 7}
    assert table.schema.metadata[b"shoal.history.schema"] == str(SCHEMA_VERSION).encode()


def test_topics_selector_columns_range_and_limit_are_pushed_down(
    store: MemoryStore, history: History
) -> None:
    store.log.append(*prices(100))
    table = history.read(
        ["prices/A", "prices/B"],
        selector="region = 'EU'",
        columns=["topic", "offset"],
        properties={"size": "int64"},
        start=10,
        end=50,
        limit=5,
    )
    assert table.column_names == ["topic", "offset", "size"]
    expected = [n for n in range(10, 50) if n % 3 != 2 and n % 2 == 1][:5]
    assert offsets(table) == table.column("size").to_pylist() == expected


def test_a_range_may_be_given_by_the_time_of_storing(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(100))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    table = history.read(from_time=epoch + timedelta(seconds=20), to_time=30_000_000)
    assert offsets(table) == list(range(20, 30))
    assert history.offset_at(epoch + timedelta(seconds=20)) == 20
    assert history.offset_at(20_000_001, by="published") == 20
    with pytest.raises(ConfigError, match="no time zone"):
        history.read(from_time=datetime(2026, 1, 1))


def test_many_small_batches_are_the_whole(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(100))
    with connect(serve(batch_rows_max=7).endpoint) as history:
        batches = list(history.batches(columns=["offset"]))
        assert [batch.num_rows for batch in batches] == [7] * 14 + [2]
        assert offsets(pa.Table.from_batches(batches)) == list(range(100))
        assert history.reader(columns=["offset"]).read_all().num_rows == 100


def test_a_plan_divides_the_whole(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(100))
    ranges = history.plan("prices/*", partitions=7)
    assert len(ranges) == 7
    parts = [offsets(history.read("prices/*", start=first, end=end)) for first, end, _ in ranges]
    assert [offset for part in parts for offset in part] == list(range(100))
    assert sum(rows for _, _, rows in ranges) == pytest.approx(100, abs=7)
    assert len(history.plan(rows_max=10)) == 10


def test_latest_ends_after_the_last_match_within_its_limits(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(100))
    answer = history.latest("prices/A", start=1, max_rows=2)
    assert (answer["end"], answer["rows"], answer["more"], answer["high"]) == (7, 2, True, 100)
    nothing = history.latest("news", start=40)
    assert (nothing["end"], nothing["rows"], nothing["more"]) == (40, 0, False)


def test_a_wait_ends_when_something_matches_and_not_before(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(10))
    answers: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: answers.append(history.wait("news", timeout_s=30)))
    waiting.start()
    store.log.append(*prices(10))
    assert not answers
    store.log.append(Stored(topic="news", body=None))
    waiting.join(20)
    assert (answers[0]["rows"], answers[0]["end"], answers[0]["from"]) == (1, 21, 0)


def test_a_wait_far_behind_counts_only_the_next_rows(
    store: MemoryStore, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shoal.history.reader.WAIT_ROWS_MAX", 4)
    store.log.append(*prices(10))
    answer = history.wait(start=0)
    assert (answer["rows"], answer["end"], answer["more"]) == (4, 4, True)
    followed = [
        row for batch in history.follow(start=0, limit=10) for row in batch.column("offset").to_pylist()
    ]
    assert followed == list(range(10))


def test_a_wait_that_is_over_says_that_there_is_nothing(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(10))
    answer = history.wait("news", start=3, timeout_s=0.05)
    assert (answer["rows"], answer["end"]) == (0, 3)
    assert history.wait("news", start=3, end=8, timeout_s=60)["rows"] == 0


def test_following_gives_what_was_there_and_what_comes(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(10))
    seen: list[int] = []

    def follow() -> None:
        for batch in history.follow("prices/A", start="earliest", limit=7):
            seen.extend(batch.column("offset").to_pylist())
            if len(seen) == 4:
                store.log.append(*prices(10))

    following = threading.Thread(target=follow)
    following.start()
    following.join(20)
    assert seen == [0, 3, 6, 9, 10, 13, 16]


def test_topics_gaps_status_and_holds_are_told(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(9))
    assert history.topics("prices/A") == [{"topic": "prices/A", "count": 3, "first": 0, "last": 6}]
    assert len(history.topics()) == 3
    [gap] = history.gaps()
    assert gap["publisher"] == "000000000000beef"
    assert (gap["first"], gap["last"], gap["count"]) == (10, None, 5)
    assert history.status() == {"topics": 3}
    assert history.info()["end"] == 9
    history.hold("spark", 5)
    assert history.holds() == {"spark": 5}
    assert history.release("spark")
    assert not history.release("spark")


def test_offsets_of_another_incarnation_are_refused(store: MemoryStore, history: History) -> None:
    error = refusal(lambda: history.read(incarnation="f" * 32), "INCARNATION")
    assert error.detail == {"incarnation": store.log.incarnation}
    assert history.read(incarnation=store.log.incarnation).num_rows == 0


def test_what_retention_took_is_named(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(10))
    store.log.floor = 4
    error = refusal(lambda: history.read(start=3), "TRIMMED")
    assert (error.detail["floor"], error.detail["lost_before"]) == (4, 4)
    refusal(lambda: history.read("prices/A", start=3), "TRIMMED")
    # Of this topic, nothing from offset 3 on was removed.
    assert offsets(history.read("prices/C", start=3)) == [5, 8]
    assert offsets(history.read(start="earliest")) == [4, 5, 6, 7, 8, 9]


def test_a_range_that_begins_behind_the_end_is_a_mistake_unless_it_is_waited_for(
    store: MemoryStore, history: History
) -> None:
    store.log.append(*prices(10))
    assert history.read(start=10).num_rows == 0
    for call in (
        lambda: history.read(start=11),
        lambda: history.plan(start=11),
        lambda: history.latest(start=11),
        lambda: history.gaps(start=11),
    ):
        error = refusal(call, "BAD-QUERY")
        assert "begins at offset 11, and history ends at 10" in str(error)
        assert error.detail["end"] == 10
    assert history.wait(start=11, timeout_s=0.0)["rows"] == 0
    following = history.follow(start=12, limit=1)
    store.log.append(*prices(3))
    assert offsets(pa.Table.from_batches([next(following)])) == [12]


def test_a_token_is_asked_for_where_there_is_one(store: MemoryStore, serve: Serve, tmp_path: Path) -> None:
    token = Token.new("desk")
    write_principals(tmp_path / "tokens", [Principal("desk", "client", token.verifier)])
    endpoint = serve(principals=Principals(tmp_path / "tokens")).endpoint
    for other, what in ((None, "missing"), (Token.new("desk").text, "wrong"), (Token.new("x").text, "wrong")):
        with connect(endpoint, token=other) as history:
            for call in (
                history.info,
                history.read,
                lambda h=history: h.stage("s", pa.table({"topic": ["a"]})),
            ):
                assert what in str(refusal(call, "DENIED"))
    with connect(endpoint, token=token.text) as history:
        assert history.info()["end"] == 0


def test_nobody_there_is_an_error_of_its_own(serve: Serve) -> None:
    server = serve()
    with connect(server.endpoint) as history:
        assert history.info()["end"] == 0
        server.close()
        with pytest.raises(StoreUnavailableError, match=r"no store serves history at|cannot be reached"):
            history.info()


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(LinkError, match="cannot be served"):
            serve_at(taken.getsockname()[1])


def serve_at(port: int) -> None:
    HistoryServer(MemoryStore(), ServerOptions(port=port), open_scan=MemoryScan, make_rows=StagedRows).close()


def test_one_read_too_many_is_refused_and_the_next_finds_a_place(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*(Stored(topic="a", body=bytes(1 << 20)) for _ in range(100)))
    with connect(serve(streams_max=1, batch_rows_max=1).endpoint) as history:
        reading = history.batches()
        next(reading)
        assert refusal(history.read, "FULL").detail == {"most": 1}
        assert sum(batch.num_rows for batch in reading) == 99
        assert history.read(limit=1).num_rows == 1


def test_a_read_that_never_began_gives_its_place_back(store: MemoryStore) -> None:
    reader = Reader(store, ServerOptions(streams_max=1), MemoryScan)
    store.log.append(*prices(3))
    for _ in range(3):
        batches = reader.batches(Query())
        with pytest.raises(HistoryError, match="1 reads are running already"):
            reader.batches(Query())
        del batches
    assert [batch.num_rows for batch in reader.batches(Query())] == [3]


def test_a_client_that_reads_no_more_does_not_hold_up_closing(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*(Stored(topic="a", body=bytes(1 << 20)) for _ in range(200)))
    server = serve(batch_rows_max=1)
    threads = set(threading.enumerate())
    history = connect(server.endpoint)
    first = next(iter(history.batches()))
    assert first.num_rows == 1
    began = time.monotonic()
    server.close()
    assert time.monotonic() - began < 20
    assert not [thread for thread in threads if thread.name.startswith("shoal-history") and thread.is_alive()]


def test_any_flight_client_can_ask_for_schema_and_endpoints(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(5))
    descriptor = flight.FlightDescriptor.for_command(b'{"v": 1, "columns": ["offset", "body_detail"]}')
    with flight.connect(history.endpoint) as client:
        info = client.get_flight_info(descriptor)
        assert info.schema.names == ["offset", "body_detail"]
        assert client.get_schema(descriptor).schema.equals(info.schema)
        assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == 5
        assert {"plan", "commit"} <= {action.type for action in client.list_actions()}


def test_every_column_can_be_asked_for(store: MemoryStore, history: History) -> None:
    store.log.append(*prices(3))
    assert history.read(columns=list(COLUMN_TYPES)).column_names == list(COLUMN_TYPES)
