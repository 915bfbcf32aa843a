"""`shoal store verify` says whether a log is whole, and otherwise what is damaged."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal._core import Log, encode_record
from shoal.cli.app import app
from shoal.errors import StoreError, StoreLockedError
from shoal.store.verifying import verify


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A log of 300 messages in several segments."""
    log = Log(tmp_path / "data", store_id=7, incarnation=bytes(16), segment_bytes=16 << 10)
    for number in range(300):
        log.append(1, 1, [(number, 1, encode_record("t", b"%d" % number * 50))])
    log.close()
    return tmp_path / "data"


def files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir() if file.name != "LOCK"}


def test_a_whole_log_is_whole_and_is_left_as_it_was(closed: Path) -> None:
    before = files(closed)
    found = verify(closed)
    assert (found["whole"], found["messages"], found["first"], found["end"]) == (True, 300, 0, 300)
    assert files(closed) == before
    answer = CliRunner().invoke(app, ["store", "verify", "--data", str(closed)])
    assert answer.exit_code == 0
    assert answer.stdout.splitlines()[-1] == "whole"


def test_damage_is_named_by_file_bytes_and_offsets(closed: Path) -> None:
    with (closed / "0000000002.log").open("r+b") as segment:
        segment.seek(5000)
        segment.write(b"damage")
    (closed / "0000000003.log").unlink()
    answer = CliRunner().invoke(app, ["store", "verify", "--data", str(closed), "--json"])
    assert answer.exit_code == 1
    found = json.loads(answer.stdout)
    [damage] = found["damages"]
    assert damage["file"] == "0000000002.log"
    assert damage["from"] <= 5000 < damage["to"]
    assert damage["end"] == damage["first"] + 1
    assert found["missing"] == [3]
    lost = sum(one["end"] - one["first"] for one in found["segments"]) - found["messages"]
    assert lost == 1
    shown = CliRunner().invoke(app, ["store", "verify", "--data", str(closed)])
    assert shown.exit_code == 1
    assert f"0000000002.log, bytes {damage['from']} to {damage['to']}: wrong checksum" in shown.stdout
    assert "missing      0000000003.log" in shown.stdout


def test_what_a_crash_left_is_no_damage(closed: Path) -> None:
    newest = max(closed.glob("0*.log"))
    content = bytearray(newest.read_bytes())
    end = len(bytes(content).rstrip(b"\0"))
    content[end + 100 : end + 200] = b"torn" * 25
    newest.write_bytes(content)
    found = verify(closed)
    assert found["whole"]
    assert 0 < found["torn_bytes"] <= 208


def test_a_store_that_is_open_is_not_verified(closed: Path) -> None:
    log = Log(closed, store_id=7, incarnation=bytes(16), holder="a store")
    with pytest.raises(StoreLockedError, match="belongs to a store"):
        verify(closed)
    log.close()


def test_a_directory_without_a_log_is_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has no log"):
        verify(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
