import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.errors import ProcessFailedError
from shoal.processes.worker import Worker

ROLES = "worker_roles"


@pytest.fixture(autouse=True)
def _roles_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie has ended; only its parent has not asked yet.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_result_and_the_progress_before_it_come_back() -> None:
    with Worker(ROLES, "add", first=2, second=3) as worker:
        worker.wait_ready()
        assert worker.result(timeout_s=20) == {"sum": 5}
        assert worker.progress == 2


def test_what_a_role_says_when_it_fails_is_told() -> None:
    with Worker(ROLES, "fail") as worker, pytest.raises(ProcessFailedError, match="the network is down"):
        worker.result(timeout_s=20)


def test_a_crash_is_told_with_its_traceback() -> None:
    with Worker(ROLES, "crash") as worker, pytest.raises(ProcessFailedError, match="KeyError: 'unexpected'"):
        worker.result(timeout_s=20)


def test_a_process_that_ends_without_a_word_never_was_ready() -> None:
    silent = pytest.raises(ProcessFailedError, match="'stay silent' ended with status 0")
    with Worker(ROLES, "stay silent") as worker, silent:
        worker.result(timeout_s=20)


def test_a_result_that_does_not_come_in_time_is_an_error() -> None:
    with Worker(ROLES, "wait for ever") as worker:
        worker.wait_ready()
        with pytest.raises(ProcessFailedError, match=r"did not finish within 0\.05 s"):
            worker.result(timeout_s=0.05)


def test_leaving_the_context_ends_the_process() -> None:
    with Worker(ROLES, "wait for ever") as worker:
        worker.wait_ready()
        assert is_running(worker.pid)
    assert not is_running(worker.pid)


def test_a_process_does_not_outlive_a_parent_that_was_killed() -> None:
    script = (
        "from shoal.processes.worker import Worker\n"
        f"worker = Worker({ROLES!r}, 'wait for ever')\n"
        "worker.wait_ready()\n"
        "print(worker.pid, flush=True)\n"
        "worker.result(timeout_s=60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline, "the worker is still there"
        time.sleep(0.01)
