"""Each program in `examples/` does what it says."""

import itertools
import os
import re
import secrets
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal

EXAMPLES = Path(__file__).parents[2] / "examples"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environment(port: int) -> dict[str, str]:
    """A domain of the test's own, on this machine alone."""
    return {
        "SHOAL_URL": "norm://?interface=lo",
        "SHOAL_DOMAIN": secrets.token_hex(8),
        "SHOAL_INTERFACE": "lo",
        "SHOAL_PORT": str(port),
    }


@pytest.fixture
def start(environment: dict[str, str]) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(name: str, *arguments: object) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-u", EXAMPLES / name, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=10)


#: Said of a member that does not get to run for long on a busy machine, or whose goodbye was not heard, and
#: of a listener that has all it wanted and is gone before the other end has closed.
SLOW = re.compile(r"^SHOAL-(2107|2023) .*\n", re.MULTILINE)


def finish(process: "subprocess.Popen[str]") -> str:
    output, errors = process.communicate(timeout=90)
    assert (process.returncode, SLOW.sub("", errors)) == (0, "")
    return output


def test_the_ticker_shows_the_region_that_was_asked_for(start: Start) -> None:
    watching = start("ticker.py", "watch", "EU", 10)
    publishing = start("ticker.py", "publish", 200)
    lines = finish(watching).splitlines()
    assert len(lines) == 10
    assert all(re.fullmatch(r"prices/(ACME|MACE) 1[01]\.\d+", line) for line in lines)
    finish(publishing)


def test_the_pool_does_all_of_the_work(start: Start, environment: dict[str, str]) -> None:
    workers = [start("worker_pool.py", "work") for _ in range(3)]
    with shoal.connect("norm://?interface=lo", domain=environment["SHOAL_DOMAIN"]) as bus:
        # One that comes when all is done waits for the next pool.
        joined = (event for event in bus.events(90) if isinstance(event, shoal.MemberJoined))
        assert len(list(itertools.islice(joined, len(workers)))) == len(workers)
    assert finish(start("worker_pool.py", "submit", 200)) == "46 primes below 200\n"
    for worker in workers:
        finish(worker)


def test_a_browser_gets_what_is_published(start: Start, environment: dict[str, str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    feed = start("web_feed.py", port)
    assert feed.stdout is not None
    url = feed.stdout.readline().strip()
    assert b"<h1>" in urllib.request.urlopen(url, timeout=20).read()
    options = {"domain": environment["SHOAL_DOMAIN"]}
    with (
        urllib.request.urlopen(f"{url}/events", timeout=20) as events,
        shoal.connect(environment["SHOAL_URL"], domain=options["domain"]) as bus,
    ):
        assert bus.wait_for_subscribers("news/today", timeout_s=60)
        bus.publish("news/today", "hello")
        assert events.readline() == b'data: {"topic": "news/today", "body": "hello"}\n'


def test_every_block_of_every_sensor_is_collected(start: Start) -> None:
    collecting = start("sensors.py", "collect", 3)
    assert collecting.stdout is not None
    assert collecting.stdout.readline() == "collecting\n"
    sensors = [start("sensors.py", "sense", name, 20) for name in ("attic", "cellar", "roof")]
    output = finish(collecting)
    assert sorted(re.sub(r"mean .*", "", line) for line in output.splitlines()) == [
        f"{name}: 20 of 20 blocks, " for name in ("attic", "cellar", "roof")
    ]
    for sensor in sensors:
        finish(sensor)


def test_a_file_is_dropped_to_everybody(start: Start, tmp_path: Path) -> None:
    sent = tmp_path / "report.bin"
    sent.write_bytes(os.urandom(300_000))
    boxes = [tmp_path / "one", tmp_path / "two"]
    receivers = [start("file_drop.py", "receive", box, 1) for box in boxes]
    for receiver in receivers:
        assert receiver.stdout is not None
        assert receiver.stdout.readline() == "listening\n"
    finish(start("file_drop.py", "send", sent))
    for receiver, box in zip(receivers, boxes, strict=True):
        assert finish(receiver) == "report.bin 300000 bytes\n"
        assert (box / "report.bin").read_bytes() == sent.read_bytes()


def test_a_link_of_ones_own_carries_messages_through_a_directory(start: Start, tmp_path: Path) -> None:
    listening = start("shared_directory.py", "listen", tmp_path / "exchange")
    assert listening.stdout is not None
    assert listening.stdout.readline() == "listening\n"
    finish(start("shared_directory.py", "send", tmp_path / "exchange", 200))
    expected = [f"orders/new {{'number': {number}}}" for number in range(200)]
    assert finish(listening).splitlines() == expected


def test_every_example_is_listed_and_tested() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    tested = Path(__file__).read_text()
    for path in EXAMPLES.glob("*.py"):
        assert f"({path.name})" in listed
        assert f'"{path.name}"' in tested
