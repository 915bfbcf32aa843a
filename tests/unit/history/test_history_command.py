"""`shoal history`: looking, counting, following, listing and exporting."""

import json
import os
import socket
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from memory_store import MemoryStore
from serving import Serve
from test_server import prices
from twin import Stored
from typer.testing import CliRunner, Result

import shoal
from shoal import history
from shoal.cli.app import app

runner = CliRunner()


def run(serve: Serve, *arguments: str) -> Result:
    return runner.invoke(app, ["history", *arguments, "--store", serve().endpoint], env={"COLUMNS": "200"})


def test_the_first_messages_are_shown_as_a_table(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(30))
    result = run(serve, "prices/A")
    lines = result.stdout.splitlines()
    assert result.exit_code == 0, result.stderr
    assert lines[0].split() == ["offset", "stored", "topic", "body", "properties"]
    assert len(lines) == 11
    assert "prices/A" in lines[2]
    assert '{"bid":3}' in lines[2]
    assert "region=EU size=3" in lines[2]
    assert "the first 20" in run(serve).stderr


def test_nothing_is_said_to_be_nothing(serve: Serve) -> None:
    assert run(serve).stdout == "nothing matches\n"


def test_messages_are_counted(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(30))
    assert run(serve, "prices/A", "--count").stdout == "10\n"
    assert run(serve, "--selector", "region = 'EU'", "--count", "--from", "10").stdout == "10\n"
    assert json.loads(run(serve, "--count", "--json", "--to", "7").stdout)["rows"] == 7
    assert run(serve, "--count", "--from", "1970-01-01T00:00:10+00:00", "--to", "20").stdout == "10\n"
    assert run(serve, "--count", "--from", "10m").stdout == "0\n"


def test_json_lines_have_bodies_as_they_were(store: MemoryStore, serve: Serve) -> None:
    store.log.append(
        Stored(topic="a", body={"bid": 1}, properties={"region": "EU"}, number=7),
        Stored(topic="a", body=b"\xff"),
        Stored(topic="a", body="text"),
        Stored(topic="a", body=None),
    )
    rows = [json.loads(line) for line in run(serve, "--json").stdout.splitlines()]
    assert [row.get("body") for row in rows] == [{"bid": 1}, None, "text", None]
    assert rows[0]["properties"] == {"region": "EU"}
    assert rows[0]["message_id"] == "ID:0000000000000000-0-7"
    assert rows[1]["body_base64"] == "/w=="
    assert "body" not in rows[3]


def test_columns_and_typed_properties_are_chosen(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(2))
    result = run(serve, "--json", "--columns", "topic,offset", "--property", "size:int64")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"topic": "prices/A", "offset": 0, "size": 0},
        {"topic": "prices/B", "offset": 1, "size": 1},
    ]


def test_following_ends_with_its_limit(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(5))
    result = run(serve, "--follow", "--from", "earliest", "--limit", "5", "--columns", "offset")
    assert result.stdout.split() == ["0", "1", "2", "3", "4"]


def test_topics_are_listed(store: MemoryStore, serve: Serve) -> None:
    store.log.append(*prices(9))
    lines = run(serve, "--topics").stdout.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["prices/A", "3", "0", "6"],
        ["prices/B", "3", "1", "7"],
        ["prices/C", "3", "2", "8"],
    ]
    assert json.loads(run(serve, "prices/B", "--topics", "--json").stdout)["first"] == 1


def test_an_export_is_a_parquet_file_with_every_row(store: MemoryStore, serve: Serve, tmp_path: Path) -> None:
    store.log.append(*prices(100))
    path = tmp_path / "prices.parquet"
    result = run(serve, "prices/*", "--from", "10", "--limit", "50", "--export", str(path))
    assert result.exit_code == 0, result.stderr
    assert "50 messages are in" in result.stderr
    assert pq.read_table(path).column("offset").to_pylist() == list(range(10, 60))
    assert [entry.name for entry in tmp_path.iterdir()] == ["prices.parquet"]
    empty = tmp_path / "empty.parquet"
    assert run(serve, "news", "--export", str(empty)).exit_code == 0
    assert pq.read_table(empty).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--count", "--follow"], "--count and --follow do not go together"),
        (["--from", "yesterday"], "--from is 'yesterday', and must be an offset, a time such as"),
        (["--to", "latest"], "--to is 'latest', and must be an offset"),
        (["--property", "size"], "a property is given as NAME:TYPE"),
        (["--columns", "colour"], "there is no column 'colour'"),
    ],
)
def test_a_mistake_is_said_in_one_line(serve: Serve, arguments: list[str], sentence: str) -> None:
    result = run(serve, *arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_wrong_selector_is_shown_with_a_caret_where_it_is_wrong(serve: Serve) -> None:
    result = run(serve, "--selector", "region =")
    assert result.exit_code == 2
    first, text, caret = result.stderr.splitlines()
    assert first.startswith("shoal history: the selector is wrong at position 8")
    assert (text.strip(), caret.index("^") - text.index("region")) == ("region =", 8)


def test_what_the_store_missed_is_told(
    store: MemoryStore, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.log.append(*prices(3))
    assert "about 5 messages are missing" in run(serve).stderr
    away = [(0, 7, 1, 3, 9, 7, 1_000_000, True)]
    monkeypatch.setattr(store.log, "gaps", lambda start, end: away)
    assert run(serve).stderr == "7 messages may be missing: the store was not there\n"


def test_a_directory_without_a_store_is_named(tmp_path: Path) -> None:
    result = runner.invoke(app, ["history", "--store", str(tmp_path)])
    assert result.exit_code == 1
    assert "no store serves the history in" in result.stderr
    assert f"Start one: shoal store --data {tmp_path} --flight" in result.stderr


def test_a_store_that_runs_and_serves_no_history_is_named(tmp_path: Path) -> None:
    with shoal.connect("inproc://unserved", store=str(tmp_path)):
        while not (tmp_path / "status.json").exists():
            time.sleep(0.01)
        result = runner.invoke(app, ["history", "--store", str(tmp_path)])
    assert result.exit_code == 1
    assert f"(process {os.getpid()}) serves no history. Stop it, and start it with --flight" in result.stderr


def test_an_address_where_no_store_is_is_told_in_few_words() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
    result = runner.invoke(app, ["history", "--store", f"grpc://{place}"])
    assert result.exit_code == 1
    assert result.stderr == (
        f"shoal history: no store serves history at grpc://{place}: Connection refused. "
        f"Start one: shoal store --data ./data --flight {place}\n"
    )


def test_the_absence_of_a_store_has_one_name(tmp_path: Path) -> None:
    with pytest.raises(shoal.StoreUnavailableError):
        history.connect(tmp_path)
    assert issubclass(shoal.StoreUnavailableError, shoal.StoreError)
    assert issubclass(shoal.NoStoreError, shoal.StoreUnavailableError)


def test_a_store_that_is_named_wrongly_is_said_to_be(tmp_path: Path) -> None:
    with pytest.raises(shoal.ConfigError, match="none', which does not exist: give the directory of a store"):
        history.connect(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(shoal.ConfigError, match="file', which is no directory"):
        history.connect(tmp_path / "file")
    with pytest.raises(shoal.StoreUnavailableError, match="is not the directory of a store"):
        history.connect(tmp_path)
    with pytest.raises(shoal.ConfigError, match=r"did you mean grpc://localhost:7475\?"):
        history.connect("localhost:7475")
    with pytest.raises(shoal.ConfigError, match="must be grpc://"):
        history.connect("tcp://localhost:7475")
