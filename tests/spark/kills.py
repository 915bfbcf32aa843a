"""Kills the driver, workers and the store of a job that copies messages, and counts what arrived.

    python kills.py --kills 30 --rows 60000     (make kill-tests)

Every message must have been copied once, whatever was killed when. A failing run prints its seed; the same
seed kills the same kinds at the same numbers of copied messages.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa

from shoal import history
from shoal.errors import HistoryError
from shoal.processes.store import StoreProcess

#: A JVM may need minutes to start on a busy machine.
PATIENCE_S = 300.0


class Job:
    """The copying job in a process group of its own."""

    def __init__(self, store: str, checkpoint: Path, rows: int) -> None:
        self._command = [
            sys.executable,
            str(Path(__file__).with_name("copy_job.py")),
            store,
            str(checkpoint),
            str(rows),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, start_new_session=True)

    def ended(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def kill(self) -> None:
        """The driver, its JVM and all workers at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_worker(self) -> bool:
        """One Python worker that runs tasks; false if there is none at the moment."""
        assert self._process is not None
        workers = [pid for pid, parent_is_daemon in _workers(self._process.pid) if parent_is_daemon]
        for pid in workers[:1]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                return False
        return bool(workers)


def _workers(session: int) -> Iterator[tuple[int, bool]]:
    """Processes of a session that Spark runs tasks in, and whether each is a child of their daemon."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            parent = (Path("/proc") / stat[1] / "cmdline").read_bytes()
        except OSError:
            continue
        if int(stat[3]) == session and b"pyspark.worker" in words:
            yield int(entry.name), b"pyspark.worker" in parent.split(b"\0")


def copied(client: history.History) -> int | None:
    """How many messages arrived; none while the store is away."""
    try:
        return int(client.latest("out/>")["rows"])
    except HistoryError:
        client.close()
        return None


def run(kinds: list[str], rows: int, seed: int, directory: Path) -> None:
    """Kill as `kinds` says while `rows` messages are copied; fails if one is lost or doubled."""
    chance = random.Random(seed)
    points = sorted(chance.randrange(rows * 95 // 100) for _ in kinds)
    with StoreProcess(directory / "store") as store, history.connect(store.address) as client:
        for first in range(0, rows, 10_000):
            bodies = [str(number).encode() for number in range(first, min(first + 10_000, rows))]
            client.write(pa.table({"body": bodies}), topic="in/all")
        job = Job(store.address, directory / "checkpoint", rows)
        job.start()
        try:
            for kind, point in zip(kinds, points, strict=True):
                _wait_for(client, job, point)
                print(f"kill {kind} after {point} messages", flush=True)
                if kind == "store":
                    store.kill()
                    store.start()
                elif kind == "driver":
                    job.kill()
                    job.start()
                else:
                    _wait_until(job.kill_worker, "no worker ran")
            _wait_until(lambda: job.ended() is not None, "the job did not end")
            assert job.ended() == 0, f"the job failed with status {job.ended()} (seed {seed})"
        finally:
            job.kill()
        check(client, rows, seed)


def check(client: history.History, rows: int, seed: int) -> None:
    """Every message once."""
    arrived = [int(body) for body in client.read("out/>", columns=["body"])["body"].to_pylist()]
    lost, doubled = rows - len(set(arrived)), len(arrived) - len(set(arrived))
    assert (lost, doubled) == (0, 0), f"{lost} lost, {doubled} doubled (seed {seed})"


def _wait_for(client: history.History, job: Job, point: int) -> None:
    def reached() -> bool:
        assert job.ended() in (None, 0), f"the job failed with status {job.ended()}"
        count = copied(client)
        return count is not None and count >= point

    _wait_until(reached, f"{point} messages were not reached")


def _wait_until(reached: Callable[[], object], otherwise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert time.monotonic() < deadline, f"{otherwise} within {PATIENCE_S} s"
        time.sleep(0.02)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=None)
    chosen = parser.parse_args()
    number = random.SystemRandom().randrange(1 << 31) if chosen.seed is None else chosen.seed
    print(f"seed {number}", flush=True)
    which = random.Random(number).choices(["driver", "worker", "store"], k=chosen.kills)
    with tempfile.TemporaryDirectory(prefix="shoal-kills-") as place:
        run(which, chosen.rows, number, Path(place))
    killed = ", ".join(f"{which.count(kind)} {kind}" for kind in sorted(set(which)))
    print(f"{chosen.rows} messages copied once; killed: {killed}")
