"""Programs in processes of their own, always bounded in time, and gone when their test is."""

import contextlib
import json
import os
import queue
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
#: What asyncio, watched as scripts are here, says of a step that took long.
SLOW_STEP = re.compile(r"Executing <.* took [\d.]+ seconds$")
#: How long any answer may take unless its test says otherwise: far more than it ever does.
PATIENCE_S = 90.0


class Failure(AssertionError):  # noqa: N818 - reads as what it is in pytest's report
    """A program answered with an error; `name` is the exception's, `answer` all that it said."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__(f"{answer['error']}: {answer.get('message')}")
        self.name, self.answer = answer["error"], answer


class Program:
    """A Python program that answers in lines of JSON."""

    def __init__(
        self, arguments: Sequence[str], *, prefix: Sequence[str] = (), env: dict[str, str] | None = None
    ):
        self.process = subprocess.Popen(
            [*prefix, sys.executable, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=HERE,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})},
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _read_errors(self) -> None:
        assert self.process.stderr is not None
        self._errors.extend(self.process.stderr)

    @property
    def errors(self) -> str:
        """What it wrote to stderr so far."""
        return "".join(self._errors)

    def tell(self, do: str, **order: Any) -> None:
        """Give an order, without waiting for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": do, **order}) + "\n")
        self.process.stdin.flush()

    def answer(self, timeout_s: float = PATIENCE_S) -> dict[str, Any]:
        """The next answer; `Failure` if it is an error."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no answer within {timeout_s} s; stderr: {self.errors}") from None
        if line is None:
            self.process.wait(30)
            raise AssertionError(f"ended with {self.process.returncode}; stderr: {self.errors}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise Failure(answer)
        return answer

    def ask(self, do: str, **order: Any) -> dict[str, Any]:
        """Give an order and return the answer."""
        self.tell(do, **order)
        return self.answer()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    def finish(self, timeout_s: float = 60.0, says: str = "") -> None:
        """Let it end by itself: in time, with success, and with nothing on stderr but what `says` matches."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still there after {timeout_s} s; stderr: {self.errors}") from None
        for reader in self._readers:
            reader.join(5)
        as_wanted = bool(re.search(says, self.errors)) if says else not self.errors
        assert (code, as_wanted) == (0, True), f"ended with {code}; stderr: {self.errors}"

    def kill(self) -> None:
        """End it at once, whatever it does."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        for reader in self._readers:
            reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            # What was not read by a program that is gone cannot be written any more.
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


class Peer(Program):
    """`peer.py` in a process of its own."""

    def __init__(self, url: str, *, prefix: Sequence[str] = (), **options: Any) -> None:
        super().__init__([str(HERE / "peer.py"), url, json.dumps(options)], prefix=prefix)
        self.node = 0

    def connected(self) -> "Peer":
        """Wait until it is."""
        self.node = self.answer()["node"]
        return self

    def freeze(self) -> None:
        """Stop all its threads, and return when they are."""
        self.signal(signal.SIGSTOP)
        deadline = time.monotonic() + 30
        while any(state != "T" for state in self._thread_states()):
            assert time.monotonic() < deadline, "a thread does not stop"
            time.sleep(0.001)

    def _thread_states(self) -> list[str]:
        tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
        return [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks]

    def thaw(self) -> None:
        """Let them go on."""
        self.signal(signal.SIGCONT)


def run_script(source: str, *arguments: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python to their end; a script that hangs is killed, and fails its test."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", source, *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=HERE, start_new_session=True
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"hangs; stdout: {out}; stderr: {err}") from None
    # On a busy machine any step of an event loop takes long, and asyncio says so.
    said = [line for line in err.splitlines(keepends=True) if not SLOW_STEP.match(line)]
    return subprocess.CompletedProcess(command, process.returncode, out, "".join(said))


def unique_group(ipv6: bool = False) -> str:
    """A group and port that no other test uses: `host:port` of a URL."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Two tests that run at once must not meet, so this is not a seed to be reproduced.
    drawn = random.SystemRandom()
    if ipv6:
        return f"[ff15::74:{drawn.randrange(1, 0xFFFF):x}]:{port}"
    return f"239.255.{drawn.randrange(1, 255)}.{drawn.randrange(1, 255)}:{port}"


def loopback_url() -> str:
    """A domain of its own on the loopback interface."""
    return f"norm://{unique_group()}?interface=lo"
