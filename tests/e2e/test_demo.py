"""The demo as a user runs it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest


@pytest.fixture
def demo() -> "Iterator[subprocess.Popen[str]]":
    """The demo in a session of its own, as a terminal would start it."""
    command = [sys.executable, "-m", "shoal.cli", "demo", "--seed", "7"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def group_is_empty(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.timeout(300)
def test_all_parts_are_shown_and_verified_and_it_ends_by_itself(demo: "subprocess.Popen[str]") -> None:
    shown, errors = demo.communicate(timeout=280)
    assert demo.returncode == 0, shown + errors
    # Lines break where the terminal ends.
    shown = " ".join(shown.split())
    assert "nothing lost, nothing twice, order kept (seed 7)" in shown
    assert "Gbit/s, every byte compared" in shown
    assert "3 programs: nothing lost, order kept" in shown
    assert "nothing lost" in shown.split(" 4. ")[1]
    assert "every job done" in shown
    assert "every message counted once" in shown
    assert "Try next shoal sub" in shown
    # Without a terminal, too, what takes longer than two seconds says what it does.
    assert re.search(r"Spark.{0,40}, \d+ s so far", shown.split(" 5. ")[1])
    # Programs are killed on purpose: nothing that is logged of them alarms a reader.
    assert not re.search("lose|slow|member|stopped", errors), errors


def test_ctrl_c_leaves_no_process_behind(demo: "subprocess.Popen[str]") -> None:
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("2."):
            break
    # What a terminal does: everybody in the foreground is interrupted.
    os.killpg(demo.pid, signal.SIGINT)
    _, errors = demo.communicate(timeout=90)
    assert demo.returncode == 130
    assert "Traceback" not in errors
    deadline = time.monotonic() + 60
    while not group_is_empty(demo.pid):
        assert time.monotonic() < deadline, "a process of the demo lives on"
        time.sleep(0.02)
