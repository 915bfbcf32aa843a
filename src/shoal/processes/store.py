"""A store in a process of its own, as `shoal store` runs it, on a free port and a domain of its own."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

from shoal.errors import ProcessFailedError
from shoal.processes.children import ending_with_us

#: A store is up within this time, also on a busy machine.
PATIENCE_S = 60.0
#: What `shoal store` prints when it answers.
_READY = b"keeping queues and durable subscriptions"


class StoreProcess:
    """Starts a store; ends it with the block. It can be killed and started again in between.

    Args:
        directory: where it keeps what it has.
        domain: the domain it joins; one of its own by default.
        record: patterns of what it records.
        options: further options of `shoal store`.
        within: a command that runs another, such as `prlimit --nofile=64`.
        flight: whether it serves history, which needs pyarrow.
    """

    def __init__(
        self,
        directory: Path,
        *,
        domain: str | None = None,
        record: str = ">",
        options: tuple[str, ...] = (),
        within: tuple[str, ...] = (),
        flight: bool = True,
    ) -> None:
        self.directory = directory
        self.domain = domain or f"store-{secrets.token_hex(4)}"
        self.record = record
        self.options = options
        self.within = within
        self.flight = flight
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> "StoreProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def address(self) -> str:
        """Where it serves history: the same after a restart."""
        return f"grpc://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        told = self.directory / "endpoint.json"
        told.unlink(missing_ok=True)
        self.directory.parent.mkdir(parents=True, exist_ok=True)
        command = [*self.within, sys.executable, "-m", "shoal.cli", "store", "--data", str(self.directory)]
        command += ["--record", self.record]
        command += ["--flight", f"127.0.0.1:{self._port}"] if self.flight else []
        command += ["--domain", self.domain, "--interface", "lo", *self.options]
        log = self.directory.with_name(self.directory.name + ".log")
        with log.open("ab") as output:
            earlier = output.tell()
            self._process = subprocess.Popen(
                ending_with_us(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not (told.exists() if self.flight else _READY in log.read_bytes()[earlier:]):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ProcessFailedError(f"the store did not start: {log.read_text()[-2000:]}")
            time.sleep(0.02)
        if self.flight:
            self._port = int(json.loads(told.read_text())["flight"].rpartition(":")[2])

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
        if process.poll() is None:
            os.kill(process.pid, how)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def cpu_s(self) -> float:
        """Processor time so far."""
        assert self._process is not None
        times = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mb(self) -> float:
        """Memory of its own that it has now: files that the kernel keeps are not counted."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        fields = dict(line.split(":", 1) for line in status.splitlines())
        return int(fields["RssAnon"].split()[0]) / 1000
