"""The audit log shows what was changed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.console.audit import Audit, verify
from shoal.errors import ConfigError


def filled(path: Path, count: int = 5) -> list[str]:
    audit = Audit(path, lambda: 1e9)
    for number in range(count):
        audit.add(who="ada", act="purge", target=f"q{number}", result="done", messages=number)
    audit.close()
    return path.read_text().splitlines(keepends=True)


def test_a_log_that_nobody_touched_is_whole_and_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.jsonl"
    filled(path)
    before = verify(path)
    assert (before.lines, before.wrong_line) == (5, 0)
    audit = Audit(path, lambda: 2e9)
    audit.add(who="bob", act="login", target="bob", result="done")
    assert [entry["n"] for entry in audit.recent(limit=2)] == [6, 5]
    assert [entry["n"] for entry in audit.recent(before=3)] == [2, 1]
    audit.close()
    after = verify(path)
    assert (after.lines, after.wrong_line) == (6, 0)
    assert after.last_hash != before.last_hash
    assert path.stat().st_mode & 0o077 == 0


def changed(lines: list[str]) -> list[str]:
    entry = json.loads(lines[2]) | {"who": "eve"}
    return [*lines[:2], json.dumps(entry) + "\n", *lines[3:]]


CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "changed": changed,
    "removed": lambda lines: lines[:2] + lines[3:],
    "swapped": lambda lines: [*lines[:2], lines[3], lines[2], lines[4]],
    "doubled": lambda lines: [*lines[:3], lines[2], *lines[3:]],
    "no JSON": lambda lines: [*lines[:2], "hello\n", *lines[3:]],
    "no object": lambda lines: [*lines[:2], "[1]\n", *lines[3:]],
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_line_that_was_tampered_with_is_found(tmp_path: Path, how: str) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("".join(CHANGES[how](filled(path))))
    assert verify(path).wrong_line in (3, 4)


def test_half_a_line_of_a_crash_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    lines = filled(path)
    path.write_text("".join(lines) + lines[0][:30])
    Audit(path, lambda: 1e9).close()
    assert path.read_text() == "".join(lines)


def test_a_log_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text("hello\n")
    with pytest.raises(ConfigError, match="cannot be read"):
        Audit(path, lambda: 1e9)
    with pytest.raises(ConfigError, match="cannot be read"):
        verify(tmp_path / "none.jsonl")


def test_long_texts_are_shortened(tmp_path: Path) -> None:
    audit = Audit(tmp_path / "audit.jsonl", lambda: 1e9)
    audit.add(who="ada", act="publish", target="t" * 100_000, result="done", before=["x" * 9000])
    audit.close()
    assert (tmp_path / "audit.jsonl").stat().st_size < 4000
    assert verify(tmp_path / "audit.jsonl").wrong_line == 0
