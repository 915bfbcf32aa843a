"""A few kills of publishers, store, subscriber and workers; `make kill-tests` has hundreds."""

from functools import partial
from pathlib import Path

import kill_queues
import pytest


# Longer than everything that `kill_queues` waits for: what is missing is told there.
@pytest.mark.timeout(5 * kill_queues.PATIENCE_S)
def test_nothing_promised_is_lost_whoever_is_killed() -> None:
    messages, _ = kill_queues.run(4, 0.5)
    assert messages > 0


def numbers(folder: Path, name: str) -> int:
    return sum("number" in line for line in kill_queues.read(folder / f"{name}.notes"))


def has(folder: Path, name: str, count: int) -> bool:
    return numbers(folder, name) >= count


@pytest.mark.timeout(5 * kill_queues.PATIENCE_S)
def test_while_programs_live_a_killed_store_marks_only_what_they_had_in_hand(tmp_path: Path) -> None:
    programs = kill_queues.Programs(tmp_path)
    (tmp_path / "slowly").touch()
    try:
        for name in ("store", "subscriber"):
            programs.start(name)
        programs.wait_for("subscriber", "began")
        programs.start("publisher")
        programs.wait_for("publisher", "promised")
        workers = ("worker-1", "worker-2")
        for name in workers:
            programs.start(name)
            programs.wait_for(name, "number")
        for _ in range(3):
            programs.kill("store")
            enough = {name: numbers(tmp_path, name) + 30 for name in workers}
            programs.start("store")
            for name in workers:
                kill_queues.wait_until(partial(has, tmp_path, name, enough[name]))
        (tmp_path / "slowly").unlink()
        programs.start("boxed")
        programs.finish()
        assert kill_queues.needless_marks(tmp_path) == 0
    finally:
        programs.stop()
