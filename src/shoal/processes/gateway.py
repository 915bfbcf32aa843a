"""A gateway in a process of its own, as `shoal gateway` runs it: it can be killed and started again."""

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Self

from shoal.errors import ProcessFailedError
from shoal.processes.children import ending_with_us

#: A gateway is up within this time, also on a busy machine.
PATIENCE_S = 60.0


class GatewayProcess:
    """Starts a gateway for STOMP over TCP and WebSocket; ends it with the block.

    Args:
        domain: the domain it joins, over `lo`.
        options: further options of `shoal gateway`.
    """

    def __init__(self, domain: str, *, options: tuple[str, ...] = ()) -> None:
        self._domain, self._options = domain, options
        #: The same after a restart.
        self.port, self.web_port = _free_port(), _free_port()
        self._process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        """Where it serves STOMP over TCP."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def web_url(self) -> str:
        """The same over WebSocket."""
        return f"ws://127.0.0.1:{self.web_port}/stomp"

    def start(self) -> None:
        """Start it, and return when it listens."""
        command = [
            sys.executable,
            "-m",
            "shoal.cli",
            "gateway",
            "--domain",
            self._domain,
            "--interface",
            "lo",
        ]
        command += ["--stomp", self.url, "--stomp", self.web_url, *self._options]
        self._process = subprocess.Popen(
            ending_with_us(command), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + PATIENCE_S
        assert self._process.stderr is not None
        said = []
        while time.monotonic() < deadline:
            line = self._process.stderr.readline()
            said.append(line)
            if "ready at" in line:
                return
            if not line:
                break
        raise ProcessFailedError(f"the gateway did not start: {''.join(said)}")

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """Processor time it took."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as file:  # noqa: PTH123 — no file of ours
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it as a power cut would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as its user would."""
        self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stderr is not None:
            process.stderr.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
