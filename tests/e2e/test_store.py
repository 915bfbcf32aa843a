"""`shoal store` and publishers, in processes of their own."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal._core import Log

MESSAGES = 5_000


class Daemon:
    """`shoal store`, ended with its test."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shoal.cli", "store", *arguments], stderr=subprocess.PIPE, text=True
        )
        assert self.process.stderr is not None
        self.lines: list[str] = []
        for line in self.process.stderr:
            self.lines.append(line)
            if "keeping queues and durable subscriptions" in line or "belongs to" in line:
                break

    def end(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        self.process.communicate(timeout=40)
        return self.process.returncode


@pytest.fixture
def daemons() -> Iterator[list[Daemon]]:
    started: list[Daemon] = []
    yield started
    for daemon in started:
        daemon.process.kill()
        daemon.process.communicate()


def status(data: Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", "store", "status", "--data", str(data), "--json"],
        check=True,
        capture_output=True,
        timeout=40,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wait_for_end(data: Path, end: int) -> dict[str, Any]:
    until = time.monotonic() + 40
    while True:
        found = status(data)
        if found["end"] >= end or time.monotonic() > until:
            return found


def publish(url: str, first: int) -> None:
    with shoal.connect(url) as bus:
        assert bus.wait_for_subscribers("prices/ACME", timeout_s=60)
        for number in range(first, first + MESSAGES):
            bus.publish("prices/ACME", number)
            bus.publish("news", number)


def test_a_store_records_goes_on_after_a_restart_and_says_how_it_is(
    tmp_path: Path, url: str, daemons: list[Daemon]
) -> None:
    data = tmp_path / "data"
    options = ("--data", str(data), "--record", "prices/>", "--keep", "7d", "--url", url)
    daemons.append(Daemon(*options))
    publish(url, 0)
    found = wait_for_end(data, MESSAGES)
    assert (found["floor"], found["end"], found["state"]) == (0, MESSAGES, "recording")
    second = Daemon(*options)
    daemons.append(second)
    assert second.process.wait(20) == 1
    assert "belongs to the store 'store' of process" in "".join(second.lines)
    assert daemons[0].end() == 0
    assert status(data)["state"] == "closed"
    daemons.append(Daemon(*options))
    publish(url, MESSAGES)
    found = wait_for_end(data, 2 * MESSAGES)
    assert found["end"] == 2 * MESSAGES
    assert [topic["topic"] for topic in found["topics"]] == ["prices/ACME"]
    assert daemons[-1].end(signal.SIGINT) == 0


def test_a_store_that_is_killed_has_what_it_had_synced_and_goes_on(
    tmp_path: Path, url: str, daemons: list[Daemon]
) -> None:
    data = tmp_path / "data"
    file = tmp_path / "store.toml"
    file.write_text("data = 'data'\n[[record]]\npattern = 'prices/>'\nkeep = '1d'\n")
    daemons.append(Daemon("--config", str(file), "--url", url))
    publish(url, 0)
    wait_for_end(data, MESSAGES)
    daemons[0].end(signal.SIGKILL)
    daemons.append(Daemon("--config", str(file), "--url", url))
    publish(url, MESSAGES)
    found = wait_for_end(data, 2 * MESSAGES)
    assert (found["end"], found["record"][0]["keep_s"]) == (2 * MESSAGES, 86_400)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_every_message_of_a_young_publisher_is_there_once_or_in_a_gap(
    tmp_path: Path, url: str, daemons: list[Daemon], how: int
) -> None:
    data = tmp_path / "data"
    options = ("--data", str(data), "--record", "prices/>", "--url", url)
    daemons.append(Daemon(*options))
    with contextlib.closing(shoal.connect(url)) as bus:
        assert bus.wait_for_subscribers("prices/ACME", timeout_s=60)
        for number in range(50):
            bus.publish("prices/ACME", number)
        assert wait_for_end(data, 50)["end"] == 50
        daemons[-1].end(how)
        for number in range(30):
            bus.publish("prices/ACME", number)
        daemons.append(Daemon(*options))
        # The publisher may still count on the store that is gone: it goes on until the new one has something.
        sent, until = 80, time.monotonic() + 40
        while status(data)["end"] <= 50:
            assert time.monotonic() < until, "the store that was started again records nothing"
            bus.publish("prices/ACME", sent)
            sent += 1
        # One that was killed does not answer.
        with contextlib.suppress(shoal.FlushError):
            bus.flush(timeout_s=60)
        assert daemons[-1].end() == 0
    log = Log(data, store_id=1, incarnation=bytes(16))
    numbers = [row[4] or 0 for row in log.rows(0, 1 << 60)]
    assert numbers == sorted(set(numbers)), "each once, in order"
    gaps = log.gaps(0, 1 << 60)
    missed = [number for gap in gaps for number in range(gap[3] or 0, (gap[4] or 0) + 1)]
    assert sorted({*numbers, *missed}) == list(range(1, sent + 1))
    assert all(gap[7] for gap in gaps), "nothing was lost on its way"
    assert not {*numbers} & {*missed}
