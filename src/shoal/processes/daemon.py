"""A daemon in a process of its own, as an experiment starts it: ready when it says so, never left behind."""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal.errors import ProcessFailedError

READY_S, END_S = 90.0, 60.0


class DaemonProcess:
    """`shoal daemon` with a file of this text; leaving its context ends it."""

    def __init__(self, text: str, *, within: Sequence[str] = ()) -> None:
        """Start it; `within` is a command that runs another, such as `ip netns exec NAME`."""
        self._directory = tempfile.TemporaryDirectory(prefix="shoald")
        self.file = Path(self._directory.name) / "shoald.toml"
        self.file.write_text(text, encoding="utf-8")
        self._log = (Path(self._directory.name) / "log").open("w+", encoding="utf-8")
        self._notified = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notified.bind(f"{self._directory.name}/notify")
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", "shoal.cli", "daemon", str(self.file)],
            stderr=self._log,
            env={**os.environ, "NOTIFY_SOCKET": f"{self._directory.name}/notify"},
        )

    def __enter__(self) -> Self:
        try:
            self.wait_told("READY=1")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def said(self) -> str:
        """What it logged so far."""
        return (Path(self._directory.name) / "log").read_text(encoding="utf-8")

    def wait_told(self, what: str, timeout_s: float = READY_S) -> None:
        """Wait until it tells its parent so, as it tells systemd."""
        deadline = time.monotonic() + timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            if self._process.poll() is not None:
                raise ProcessFailedError(
                    f"the daemon ended with status {self._process.returncode}:\n{self.said}"
                )
            heard = select.select([self._notified], [], [], min(left_s, 0.1))[0]
            if heard and what in self._notified.recv(4096).decode().splitlines():
                return
        raise ProcessFailedError(f"the daemon did not say {what} within {timeout_s:g} s:\n{self.said}")

    def reload(self, text: str) -> None:
        """Change its file, and wait until it was read again."""
        self.file.write_text(text, encoding="utf-8")
        self.signal(signal.SIGHUP)
        self.wait_told("READY=1")

    def signal(self, number: int) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self) -> int:
        """SIGTERM, and wait: its status."""
        self._process.terminate()
        return self._process.wait(END_S)

    def resident_mb(self) -> float:
        """Memory it has now."""
        pages = Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_s(self) -> float:
        """Processor time it took."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        fields = stat.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _remove(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._notified.close()
        self._log.close()
        self._directory.cleanup()
