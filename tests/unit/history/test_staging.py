"""Rows written in: what a table may look like, what becomes of it, and the bounds."""

import json
import threading
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from memory_store import MemoryStore
from pyarrow import flight
from serving import Serve
from test_server import refusal

from shoal._core import HistoryScan, Log, StagedRows
from shoal.history import History, connect, incoming
from shoal.history.schema import DEFAULT_COLUMNS, record_batch, schema_of


def staged(batch: pa.RecordBatch, topic: str | None = None) -> list[dict[str, Any]]:
    """What is read back of rows that were written in."""
    incoming.check_schema(batch.schema, topic)
    rows = StagedRows(timestamp_us=1, default_topic=topic, **incoming.columns_of(batch))
    assert rows.count == batch.num_rows
    with TemporaryDirectory() as path:
        log = Log(path, store_id=1, incarnation=bytes(16), segment_bytes=1 << 20)
        log.stage("s", rows)
        log.commit(None, 0, ["s"])
        scan = HistoryScan(log, 0, log.durable_end, [], None, list(DEFAULT_COLUMNS), [])
        found = scan.next(1000, 1 << 20)
        log.close()
    assert found is not None
    return list(record_batch(schema_of(DEFAULT_COLUMNS, {}), found[1]).to_pylist())


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


def test_every_column_reaches_the_message() -> None:
    [row, plain] = staged(
        batch(
            topic=["prices/A", None],
            body=["10", None],
            priority=pa.array([7, None], pa.int8()),
            ttl_ms=[1500, None],
            correlation_id=["c", None],
            type=["quote", None],
            reply_to=["answers", None],
            properties=pa.array([[("region", "EU"), ("x", None)], None], pa.map_(pa.string(), pa.string())),
        ),
        topic="default",
    )
    assert (row["topic"], row["body"], row["body_kind"]) == ("prices/A", b"10", "text")
    assert (row["priority"], row["correlation_id"], row["type"]) == (7, "c", "quote")
    assert (row["reply_to"], row["properties"]) == ("answers", [("region", "EU"), ("x", None)])
    assert (plain["topic"], plain["body"], plain["body_kind"]) == ("default", None, "empty")
    assert (plain["priority"], plain["properties"]) == (4, [])


def test_nothing_can_be_written_and_committed_too(history: History) -> None:
    empty = pa.table({"topic": pa.array([], pa.string())})
    answer = history.write(empty, scope="job", number=1)
    assert (answer["rows"], answer["repeated"]) == (0, False)
    assert history.write(empty, scope="job", number=1)["repeated"]
    assert history.info()["end"] == 0


def test_bodies_are_text_bytes_or_what_their_kind_says() -> None:
    assert [row["body_kind"] for row in staged(batch(body=["x", None]), "a")] == ["text", "empty"]
    assert [row["body_kind"] for row in staged(batch(body=[b"x"]), "a")] == ["bytes"]
    kinds = ["mapping", "list", "scalar", "text", "bytes", "empty", None]
    bodies = ['{"b": [1, null], "a": {}}', "[1.5, true]", "-7", "t", "b", "left out", "t"]
    rows = staged(batch(body=bodies, body_kind=kinds), "a")
    assert [row["body_kind"] for row in rows] == [*kinds[:-1], "text"]
    assert json.loads(rows[0]["body"]) == {"b": [1, None], "a": {}}
    assert [row["body"] for row in rows[1:]] == [b"[1.5,true]", b"-7", b"t", b"b", None, b"t"]


def test_a_struct_becomes_typed_properties() -> None:
    properties = [{"region": "EU", "size": 7, "weight": 1.5, "live": True}, {"region": None, "size": 8}]
    rows = staged(batch(body=["x", "y"], properties=properties), "a")
    assert rows[0]["properties"] == [("region", "EU"), ("size", "7"), ("weight", "1.5"), ("live", "true")]
    assert rows[1]["properties"] == [("size", "8")]


def test_slices_dictionaries_and_large_types_are_read_at_the_right_place() -> None:
    columns = {
        "topic": pa.array(["a", "b", "c", "d"]).dictionary_encode(),
        "body": pa.array([b"0", b"1", None, b"3"], pa.large_binary()),
        "priority": pa.array([1, 2, None, 4], pa.int64()),
        "properties": pa.array([[("n", str(n))] for n in range(4)], pa.map_(pa.string(), pa.string())),
    }
    rows = staged(pa.RecordBatch.from_pydict(columns).slice(1, 3))
    assert [(row["topic"], row["body"], row["priority"]) for row in rows] == [
        ("b", b"1", 2),
        ("c", None, 4),
        ("d", b"3", 4),
    ]
    assert [row["properties"] for row in rows] == [[("n", "1")], [("n", "2")], [("n", "3")]]
    typed = pa.RecordBatch.from_pydict({"properties": [{"n": n, "f": n % 2 == 0} for n in range(4)]}).slice(
        1, 2
    )
    assert [row["properties"] for row in staged(typed, "a")] == [
        [("n", "1"), ("f", "false")],
        [("n", "2"), ("f", "true")],
    ]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            {"colour": ["red"], "topic": ["a"]},
            "rows to be published have no column 'colour'; they have topic",
        ),
        ({"body": ["x"]}, "there is no topic: give a column topic, or a topic for all rows"),
        ({"topic": ["a", None]}, "row 1: there is no topic"),
        ({"topic": ["a", "b//c"]}, "row 1: topic: the level at position 2 is empty"),
        ({"topic": ["a/*"]}, "row 0: topic: '*' at position 2"),
        ({"topic": [1]}, "the column topic is int64, and must be string: it is no text"),
        ({"topic": ["a"], "priority": [10]}, "row 0: priority is 10, and must be 0 to 9"),
        ({"topic": ["a"], "priority": ["high"]}, "the column priority is string, and must be int32"),
        ({"topic": ["a"], "ttl_ms": [0]}, "row 0: ttl_ms is 0, and must be above 0"),
        (
            {"topic": ["a"], "body": ["x"], "body_kind": ["xml"]},
            'row 0: body_kind is "xml", and must be empty',
        ),
        (
            {"topic": ["a"], "body": ["{"], "body_kind": ["mapping"]},
            "row 0: the body is to be a mapping, and EOF",
        ),
        (
            {"topic": ["a"], "body": ["[]"], "body_kind": ["mapping"]},
            "row 0: the body is to be a mapping, and it is",
        ),
        ({"topic": ["a"], "body": [b"\xff"], "body_kind": ["text"]}, "row 0: body is not UTF-8 text"),
        ({"topic": ["a"], "body": [[1]]}, "the column body is list"),
        ({"topic": ["a"], "reply_to": ["x/"]}, "row 0: reply_to: the level at position 2 is empty"),
        ({"topic": ["a"], "correlation_id": ["x" * 129]}, "row 0: the correlation id"),
        (
            {"topic": ["a"], "properties": ["x"]},
            "the column properties is string, and must be map<string, string>",
        ),
        ({"topic": ["a"], "properties": [{"d": [1]}]}, "the property 'd' is list"),
    ],
)
def test_a_mistake_names_its_row_or_column(columns: dict[str, Any], sentence: str, history: History) -> None:
    error = refusal(lambda: history.stage("s", pa.table(columns)), "BAD-QUERY")
    assert sentence in str(error)


def test_staged_rows_are_invisible_until_their_commit(store: MemoryStore, history: History) -> None:
    answer = history.stage("one", pa.table({"topic": ["a", "b"], "body": ["x", "y"]}))
    assert answer["rows"] == 2
    assert answer["bytes"] > 0
    assert history.read().num_rows == 0
    history.stage("two", pa.table({"body": ["z"]}), topic="c")
    commit = history.commit("job", 1, ["two", "one"])
    assert commit == {"first": 0, "end": 3, "rows": 3, "repeated": False}
    assert history.commit("job", 1, ["two", "one"]) == {**commit, "repeated": True}
    assert history.read().num_rows == 3
    assert store.log.stagings() == []


def test_a_commit_of_what_is_not_there_is_refused(history: History) -> None:
    error = refusal(lambda: history.commit("job", 1, ["nothing"]), "NO-STAGING")
    assert error.detail == {"stagings": ["nothing"]}
    refusal(lambda: history._act("commit", scope="job"), "BAD-QUERY")
    history.stage("s", pa.table({"topic": ["a"]}))
    assert "named twice" in str(refusal(lambda: history.commit("job", 1, ["s", "s"]), "BAD-QUERY"))


def test_a_staging_begins_anew_and_a_discarded_one_is_gone(store: MemoryStore, history: History) -> None:
    history.stage("s", pa.table({"topic": ["a", "b"]}))
    history.stage("s", pa.table({"topic": ["a"]}))
    assert [rows for _, rows, *_ in store.log.stagings()] == [1]
    assert history.discard(["s", "t"]) == 1
    assert store.log.stagings() == []


def test_a_refused_batch_leaves_nothing_of_those_before_it(store: MemoryStore, history: History) -> None:
    good, bad = pa.table({"topic": ["a"]}).to_batches()[0], pa.table({"topic": ["b//"]}).to_batches()[0]
    refusal(lambda: history.stage("s", iter([good, good, bad, good])), "BAD-QUERY")
    assert store.log.stagings() == []


def test_writing_is_staging_and_committing(store: MemoryStore, history: History) -> None:
    rows = pa.table({"body": ["x"]})
    assert history.write(rows, topic="a", scope="job", number=1)["repeated"] is False
    assert history.write(rows, topic="a", scope="job", number=1)["repeated"] is True
    assert history.write(rows, topic="a")["first"] == 1
    assert store.log.stagings() == []
    assert history.read().num_rows == 2


def test_a_scope_that_is_forgotten_begins_anew(history: History) -> None:
    rows = pa.table({"body": ["x"]})
    history.write(rows, topic="a", scope="job", number=5)
    assert history.forget("job") is True
    assert history.forget("job") is False
    assert history.write(rows, topic="a", scope="job", number=1)["repeated"] is False
    refusal(lambda: history._act("forget"), "BAD-QUERY")


def test_frames_of_pandas_and_polars_are_written_as_they_are(history: History) -> None:
    frame = {"topic": ["a", "b"], "body": ["x", "y"], "priority": [1, 9]}
    assert history.write(pa.Table.from_pandas(pd.DataFrame(frame), preserve_index=False))["rows"] == 2
    assert history.write(pl.DataFrame(frame).to_arrow())["rows"] == 2


def test_no_more_is_staged_than_the_bounds_say(store: MemoryStore, serve: Serve) -> None:
    rows = pa.table({"topic": ["a"], "body": [b"x" * 1000]})
    server = serve(staged_bytes_per_client_max=2500, staged_bytes_max=4500, stagings_max=5)
    with connect(server.endpoint) as one:
        one.stage("1", rows)
        one.stage("2", rows)
        assert "this client has" in str(refusal(lambda: one.stage("3", rows), "FULL"))
        # Another connection is another client.
        other = History(server.endpoint)
        apart = [("grpc.use_local_subchannel_pool", 1)]
        other._client = flight.FlightClient(server.endpoint, generic_options=apart)
        other.stage("4", rows)
        other.stage("5", rows)
        assert "this client has" in str(refusal(lambda: other.stage("6", rows), "FULL"))
        other.close()
        assert "this client has" in str(refusal(lambda: one.stage("7", rows), "FULL"))
        third = History(server.endpoint)
        third._client = flight.FlightClient(server.endpoint, generic_options=apart)
        assert "all clients have" in str(refusal(lambda: third.stage("8", rows), "FULL"))
        third.close()
        one.discard(["1", "2"])
    small = pa.table({"topic": ["a"]})
    with connect(server.endpoint) as one:
        for name in ("a", "b", "c"):
            one.stage(name, small)
        assert "there are 5 stagings" in str(refusal(lambda: one.stage("d", small), "FULL"))
    assert len(store.log.stagings()) == 5


def test_a_staging_that_expires_while_it_is_written_is_not_half_there(
    store: MemoryStore, serve: Serve
) -> None:
    stage = store.log.stage

    def late_stage(id: str, rows: Any) -> None:
        store.log.discard([id])
        stage(id, rows)

    store.log.stage = late_stage  # type: ignore[method-assign]
    batch = pa.table({"topic": ["a"]}).to_batches()[0]
    with connect(serve().endpoint) as history:
        error = refusal(lambda: history.stage("s", iter([batch, batch])), "NO-STAGING")
        assert "expired while it was written" in str(error)
    assert store.log.stagings() == []


def test_a_staging_that_is_being_written_can_be_neither_committed_nor_written_twice(
    store: MemoryStore, serve: Serve
) -> None:
    entered, go_on = threading.Event(), threading.Event()
    stage = store.log.stage

    def slow_stage(id: str, rows: Any) -> None:
        entered.set()
        assert go_on.wait(20)
        stage(id, rows)

    store.log.stage = slow_stage  # type: ignore[method-assign]
    with connect(serve().endpoint) as history:
        rows = pa.table({"topic": ["a"]})
        writing = threading.Thread(target=lambda: history.stage("s", rows))
        writing.start()
        assert entered.wait(20)
        for call in (
            lambda: history.commit("job", 1, ["s"]),
            lambda: history.discard(["s"]),
            lambda: history.stage("s", rows),
        ):
            assert "being written" in str(refusal(call, "BAD-QUERY"))
        go_on.set()
        writing.join(20)
        assert history.commit("job", 1, ["s"])["rows"] == 1


def test_names_have_a_bound(history: History) -> None:
    assert "at most 255" in str(
        refusal(lambda: history.stage("s" * 256, pa.table({"topic": ["a"]})), "BAD-QUERY")
    )
    assert "at most 255" in str(refusal(lambda: history.commit("s" * 256, 1, []), "BAD-QUERY"))
    assert 'staging is ""' in str(refusal(lambda: history.stage("", pa.table({"topic": ["a"]})), "BAD-QUERY"))
    refusal(lambda: history._act("release"), "BAD-QUERY")
