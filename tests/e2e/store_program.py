"""A store in a process of its own, as its command starts it."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from programs import PATIENCE_S

import shoal
from shoal.history import History, connect


class StoreProgram:
    """`shoal store`, recording everything, with its history on a free port."""

    def __init__(self, path: Path, domain: str, *options: str) -> None:
        self.path, self.domain, self._options = path, domain, options
        self.process: subprocess.Popen[str]
        self.start()

    def start(self) -> None:
        """Start it, or start it again."""
        (self.path / "endpoint.json").unlink(missing_ok=True)
        where = ["--domain", self.domain, "--interface", "lo"]
        command = [
            "store",
            "--data",
            str(self.path),
            "--record",
            ">",
            "--flight",
            "127.0.0.1:0",
            *where,
            *self._options,
        ]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shoal.cli", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.endpoint = self._wait_for_endpoint()
        self.history: History = connect(self.endpoint)

    def _wait_for_endpoint(self) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, KeyError):
                return str(json.loads((self.path / "endpoint.json").read_text())["flight"])
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.01)
        raise AssertionError("the store does not say where its history is")

    def wait_for_end(self, end: int) -> None:
        """Return when so many messages are durable."""
        deadline = time.monotonic() + PATIENCE_S
        while (reached := self.history.info()["end"]) < end:
            assert time.monotonic() < deadline, f"{reached} of {end} messages are stored"
            self.history.wait(start=end - 1, timeout_s=1.0)

    def meet(self, bus: shoal.Bus) -> None:
        """Return when it knows what `bus` subscribed to: it publishes nothing that nobody wants."""
        assert bus.wait_for_subscribers("met", 1, PATIENCE_S)
        end = self.history.info()["end"]
        bus.publish("met", "")
        self.wait_for_end(end + 1)

    def crash(self) -> None:
        """Kill it where it stands."""
        self.history.close()
        self.process.kill()
        self.process.communicate()

    def stop(self) -> None:
        """Ask it to end; it must do so, and with success."""
        self.history.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                errors = self.process.communicate(timeout=90)[1]
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise AssertionError(f"does not end; {self.process.communicate()[1]}") from None
            assert self.process.returncode == 0, errors
