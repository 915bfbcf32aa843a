"""Processes of an experiment: started, followed while they run, and never left behind.

A worker is a module run with the name of a role and its options as JSON. It answers in lines of JSON: that it
is ready, how far it is, and its result. It ends when the process that started it does, whatever the reason.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from shoal.errors import ProcessFailedError, ShoalError

#: What a role is given: its options, and where to report progress.
Report = Callable[[int], None]
Role = Callable[[dict[str, Any], Report], Mapping[str, Any]]


_told = threading.Event()


class Worker:
    """One process of an experiment; leaving its context ends it."""

    def __init__(self, module: str, role: str, *, within: Sequence[str] = (), **options: object) -> None:
        """Start it; `within` is a command that runs another, such as `ip netns exec NAME`."""
        self.role = role
        #: The last number the process reported.
        self.progress = 0
        self._result: Mapping[str, Any] | None = None
        self._ready = threading.Event()
        self._progressed = threading.Event()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed in __exit__
        self._process = subprocess.Popen(
            [*within, sys.executable, "-m", module, role, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, name=f"reads {role}", daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                # A process that is gone hears nothing.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def wait_ready(self, timeout_s: float = 20.0) -> None:
        """Wait until the process has done its set-up."""
        if not self._ready.wait(timeout_s):
            self._fail(f"did not start within {timeout_s} s")
        if self._process.poll() not in (None, 0):
            self._fail("ended before it was ready")

    def wait_progress(self, timeout_s: float = 20.0) -> None:
        """Wait until the process has reported progress for the first time."""
        if not self._progressed.wait(timeout_s):
            self._fail(f"reported nothing within {timeout_s} s")
        if not self.progress:
            self.result(timeout_s)

    def tell(self) -> None:
        """Let the process go on that waits in `wait_told`."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self._process.wait()
            self._fail(f"ended too early, with status {self._process.returncode}")

    def signal(self, number: int) -> None:
        """Send the process a signal, such as one that stops it."""
        self._process.send_signal(number)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the process to end, but not for longer; true if it has."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def result(self, timeout_s: float = 60.0) -> Mapping[str, Any]:
        """Wait for the process's result; raises what it said if it failed."""
        if not self.wait(timeout_s):
            self._fail(f"did not finish within {timeout_s} s")
        self._process.wait()
        if self._result is None:
            self._fail(f"ended with status {self._process.returncode}")
        assert self._result is not None
        return self._result

    def _fail(self, what: str) -> None:
        self._errors.seek(0)
        said = self._errors.read().strip()
        raise ProcessFailedError(f"the process '{self.role}' {what}" + (f":\n{said}" if said else ""))

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            self.progress = said.get("progress", self.progress)
            self._result = said.get("result", self._result)
            self._ready.set()
            if self.progress:
                self._progressed.set()
        self._ready.set()
        self._progressed.set()


def run_role(roles: Mapping[str, Role]) -> None:
    """Be the process that a `Worker` started: do the role named on the command line."""
    # Ctrl-C reaches every process of a terminal; the process that started this one decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    role, options = roles[sys.argv[1]], json.loads(sys.argv[2])
    _say({"ready": True})
    try:
        result = role(options, lambda count: _say({"progress": count}))
    except (ShoalError, OSError, ValueError) as error:
        sys.exit(f"{error}")
    _say({"result": result})


def _say(what: Mapping[str, object]) -> None:
    print(json.dumps(what), flush=True)


def wait_told(timeout_s: float = 60.0) -> None:
    """In a worker's process: wait for the parent's `Worker.tell`."""
    if not _told.wait(timeout_s):
        raise ProcessFailedError(f"was not told to go on within {timeout_s} s")


def is_told() -> bool:
    """In a worker's process: whether the parent has used `Worker.tell`."""
    return _told.is_set()


def _end_with_parent() -> None:
    """Standard input is a pipe whose other end only the parent holds: it ends when the parent does."""
    while os.read(0, 1):
        _told.set()
    os._exit(1)
