"""Sections 3.4.9, 3.5.11, 6.1.5, 6.2.2, 6.2.7, 7.7, 7.9 and 8.3.3, while programs are killed (`kills.py`)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import kills
import pytest
from conftest import HERE


def test_programs_and_their_store_are_killed_and_all_is_as_it_must_be() -> None:
    ran = subprocess.run(
        [sys.executable, str(HERE / "kills.py"), "--cycles", "3"],
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-3000:]


def got(name: str, at: float, queue: str = "work", **fields: Any) -> dict[str, Any]:
    note = {"what": "got", "queue": queue, "name": name, "at": at, "again": False, "count": 1, "expires": 0}
    return note | fields


AGAIN = {"again": True, "count": 2}


@pytest.mark.parametrize(
    ("notes", "wrong"),
    [
        ([got("a", 1.0), got("a", 2.0, **AGAIN)], None),
        ([got("a", 1.0), got("a", 2.0)], "not marked"),
        ([got("a", 1.0, count=2)], "is marked False and has count 2"),
        ([got("a", 1.0, again=True, count=3)], "was received 0 times before"),
        (
            [got("a", 1.0), {"what": "acknowledged", "name": "a", "at": 1.5}, got("a", 2.0, **AGAIN)],
            "after it was acknowledged",
        ),
        ([got("a", 1.0, "fast"), got("a", 2.0, "fast", **AGAIN)], "its consumer was not killed"),
        ([got("a", 10.0, "fast", expires=5.0)], "after it expired"),
        ([got("a/0", 1.0), got("a/1", 1.0)], "2 of 3 messages came"),
        ([got("a", 5.1, "late")], "0.100 s after it was sent"),
        ([{"what": "wrong", "why": "shared", "at": 1.0}], "shared"),
    ],
)
def test_the_checker_finds_what_is_wrong(
    tmp_path: Path, notes: list[dict[str, Any]], wrong: str | None
) -> None:
    troupe = kills.Troupe(tmp_path)
    (tmp_path / "consumer.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    (tmp_path / "producer.jsonl").write_text(json.dumps({"what": "late", "name": "a", "at": 5.0}) + "\n")
    found = kills.check(troupe)
    assert found == [] if wrong is None else len(found) == 1 and wrong in found[0]


def test_the_checker_finds_what_is_missing(tmp_path: Path) -> None:
    troupe = kills.Troupe(tmp_path)
    lines = [{"what": "sent", "name": "a", "at": 1.0}, {"what": "committed", "name": "b", "at": 1.0}]
    (tmp_path / "producer.jsonl").write_text("".join(json.dumps(note) + "\n" for note in lines))
    assert kills.missing(troupe) == {"a", "b/0", "b/1", "b/2"}
