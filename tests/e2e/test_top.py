"""`shoal top` as a user runs it: once, for programs, and on a terminal."""

import contextlib
import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import shoal

SHOAL = [sys.executable, "-m", "shoal.cli", "top"]


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def publisher(domain: str) -> Iterator[shoal.Bus]:
    """A program that answers, and publishes a thousand messages a second."""
    with shoal.connect(domain=domain, interface="lo", answer=True) as bus:
        ended = threading.Event()

        def publish() -> None:
            while not ended.wait(0.01):
                for _ in range(10):
                    bus.publish("prices", 1)

        thread = threading.Thread(target=publish)
        # Somebody wants them: otherwise nothing is sent.
        with shoal.connect(domain=domain, interface="lo") as reads, reads.subscribe("prices", lambda _: None):
            assert bus.wait_for_subscribers("prices", 1, 30)
            thread.start()
            yield bus
            ended.set()
            thread.join()
            bus.flush()


def options(domain: str) -> list[str]:
    return ["--domain", domain, "--interface", "lo"]


def test_once_as_json_it_has_rates(publisher: shoal.Bus, domain: str) -> None:
    done = subprocess.run(
        [*SHOAL, "--once", "--json", *options(domain)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    (node,) = told["nodes"]
    assert (node["node"], node["pid"]) == (publisher.node, os.getpid())
    assert 50 < node["messages_per_s"] < 5000
    assert told["links"][0]["name"].startswith("norm://")
    assert told["queues"] == []


def test_without_a_terminal_it_prints_all_pages_and_ends(publisher: shoal.Bus, domain: str) -> None:
    done = subprocess.run([*SHOAL, *options(domain)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0
    assert {"NAME", "LINK", "QUEUE"} <= set(done.stdout.split())


def test_if_nobody_answers_it_says_what_to_do(domain: str) -> None:
    done = subprocess.run(
        [*SHOAL, "--once", *options(domain)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "answer=True" in done.stderr
    wrong = subprocess.run([*SHOAL, "--json"], capture_output=True, text=True, timeout=60, check=False)
    assert (wrong.returncode, wrong.stderr) == (2, "shoal top: --json needs --once\n")


class Terminal:
    """A terminal of a program's own."""

    def __init__(self, command: list[str]) -> None:
        self._own, other = pty.openpty()
        os.set_blocking(self._own, False)
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200", "LINES": "40"}
        self.process = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
        os.close(other)
        self._text = ""

    def press(self, keys: str) -> None:
        self._text = ""
        os.write(self._own, keys.encode())

    def wait_for(self, words: str) -> str:
        """The screen, once it shows a text."""
        deadline = time.monotonic() + 60
        while words not in self._text:
            assert time.monotonic() < deadline, f"{words!r} is not in {self._text[-2000:]!r}"
            if select.select([self._own], [], [], 1)[0]:
                shown = os.read(self._own, 65_536).decode(errors="replace")
                self._text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
        return self._text

    def wait_ended(self) -> int:
        """The status of the program; what it still prints is read, or it would wait."""
        deadline = time.monotonic() + 60
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            if select.select([self._own], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):
                    os.read(self._own, 65_536)
        return self.process.returncode

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._own)


def test_on_a_terminal_keys_change_what_it_shows(publisher: shoal.Bus, domain: str) -> None:
    terminal = Terminal([*SHOAL, "--every", "0.2", *options(domain)])
    try:
        assert "MSG/S" in terminal.wait_for("nodes, 1 rows")
        terminal.press("p")
        terminal.wait_for("links, 1 rows")
        terminal.press("/nothing-like-it\r")
        terminal.wait_for("links, 0 rows")
        terminal.press("q")
        assert terminal.wait_ended() == 0
    finally:
        terminal.close()
