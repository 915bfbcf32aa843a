"""The audit log shows what was changed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.errors import ConfigError
from shoal.web.audit import Audit, verify


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


def test_a_full_file_is_renamed_and_the_chain_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, lambda: 1e9, bytes_max=2000, syncs=False)
    for number in range(60):
        audit.add(who="ada", target=f"q{number}")
    audit.close()
    older = tmp_path / "audit.jsonl.1"
    assert max(path.stat().st_size, older.stat().st_size) <= 2000
    found = verify(path)
    assert found.wrong_line == 0
    assert 0 < found.lines < 60
    again = Audit(path, lambda: 1e9, bytes_max=2000)
    assert again.add(who="bob")["n"] == 61
    assert [entry["n"] for entry in again.recent(limit=3)] == [61, 60, 59]
    again.close()
    lines = older.read_text().splitlines(keepends=True)
    older.write_text("".join([lines[0], *lines[2:]]))
    assert verify(path).why.startswith("audit.jsonl.1: its number is")
    older.write_text("".join(lines[:-1]))
    assert verify(path).wrong_line == 1, "the end of the file before is missing"


def test_without_a_file_the_newest_lines_are_kept() -> None:
    audit = Audit(None, lambda: 1e9)
    for number in range(1200):
        audit.add(action=f"{number}")
    assert [entry["action"] for entry in audit.recent(limit=2)] == ["1199", "1198"]
    assert len(audit.recent(limit=5000)) == 1000
    audit.close()


def test_what_a_disk_does_not_take_is_an_error_and_the_chain_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, lambda: 1e9)
    before = audit.add(who="ada")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            audit.add(who="eve")
    assert audit.add(who="bob")["prev"] == before["hash"]
    audit.close()
    assert verify(path).lines == 2
