"""Daemons of one directory as child processes, `python -m shoal.daemon FILE`, each in a session of its own.

They go on when the host's daemon ends, and the next one finds them by their pid files. The standard error of
each goes into NAME.log beside its file.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from shoal.config.orders import OrderRefusedError

#: How long a daemon may take to end before it is killed, and to fail after its start.
END_S, START_S = 10.0, 0.7
#: Lines of a log that an answer has, bytes that are read for them, and the size at which a start begins a new
#: log.
LOG_LINES, LOG_READ, LOG_BYTES_MAX = 200, 32 << 10, 10 << 20


class Children:
    """The processes of the daemons of one directory. For one thread at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def about(self, name: str) -> dict[str, Any]:
        """How a daemon is."""
        pid, child = self._pid(name), self._children.get(name)
        status = None if child is None else child.poll()
        began = None
        if pid is not None:
            with contextlib.suppress(OSError):
                began = self._file(name, "pid").stat().st_mtime
        return {"running": pid is not None, "pid": pid, "since": began, "ended_with": status}

    def start(self, name: str) -> None:
        """Start a daemon.

        Raises:
            OrderRefusedError: it ended at once.
        """
        said = self._file(name, "log")
        if said.exists() and said.stat().st_size > LOG_BYTES_MAX:
            said.replace(said.with_suffix(".log.1"))
        with said.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "shoal.daemon", str(self._file(name, "toml"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._directory,
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"},
            )
        self._children[name] = child
        self._file(name, "pid").write_text(str(child.pid), encoding="ascii")
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(START_S)
            raise OrderRefusedError(f"{name} ended at once with status {status}: see its log")

    def stop(self, name: str) -> None:
        """End a daemon, and wait until it has."""
        pid = self._pid(name)
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + END_S
        while self._pid(name) is not None:
            if time.monotonic() > until:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.02)

    def reload(self, name: str) -> None:
        """Have a daemon read its file again."""
        pid = self._pid(name)
        if pid is not None:
            os.kill(pid, signal.SIGHUP)

    def log(self, name: str) -> list[str]:
        """The last lines that a daemon logged."""
        try:
            with self._file(name, "log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LOG_READ))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return lines[-LOG_LINES:]

    def _file(self, name: str, ending: str) -> Path:
        return self._directory / f"{name}.{ending}"

    def _pid(self, name: str) -> int | None:
        """The process of a daemon, if it runs: a child, or one that an earlier run of the host started."""
        child = self._children.get(name)
        if child is not None and child.poll() is None:
            return child.pid
        try:
            pid = int(self._file(name, "pid").read_text(encoding="ascii"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        # A number of a process is used again.
        return pid if str(self._file(name, "toml")).encode() in command else None
