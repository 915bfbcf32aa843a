"""Clients of a store that stand still, are cut off, or die: what they had is redelivered, and soon."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import PATIENCE_S

import shoal
from shoal.processes.store import StoreProcess

#: Receives and acknowledges until nothing comes any more. What it does in between is told by the test.
WORKER = """
import sys, time, shoal
bus = shoal.connect(domain=sys.argv[1], interface="lo")
consumer = bus.queue("jobs").consume(prefetch=int(sys.argv[2]), ack="manual")
print("ready", flush=True)
while (message := consumer.receive(90)) is not None:
    time.sleep(0.001)
    consumer.ack(message)
    print(message.body[:8].decode(), flush=True)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "data", record="none") as running:
        yield running


def connect(store: StoreProcess, **options: Any) -> shoal.Bus:
    return shoal.connect(domain=store.domain, interface="lo", **options)


@contextlib.contextmanager
def program(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def in_flight(store: StoreProcess, name: str = "jobs") -> int:
    """Messages of a queue that consumers have, as the store writes down every second."""
    status = json.loads((store.directory / "status.json").read_text())
    return sum(each["in_flight"] + each["ready"] for each in status["queues"] if each["name"] == name)


def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> float:
    """How long it took until something was true."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < patience_s
        time.sleep(0.02)
    return time.monotonic() - began


def test_nothing_sticks_at_a_consumer_that_stood_still(store: StoreProcess) -> None:
    with (
        program(WORKER, store.domain, 2000) as stopped,
        program(WORKER, store.domain, 10),
        connect(store) as bus,
    ):
        os.kill(stopped.pid, signal.SIGSTOP)
        for number in range(1500):
            # More than the link to one of them may hold, while the other one gets on.
            bus.queue("jobs").send(b"%08d" % number + bytes(4000), window=100)
        time.sleep(2.0)
        os.kill(stopped.pid, signal.SIGCONT)
        bus.flush(PATIENCE_S)
        until(lambda: in_flight(store) == 0, 30.0)


HOLDER = """
import sys, time, shoal
bus = shoal.connect(domain=sys.argv[1], interface="lo")
consumer = bus.queue("jobs").consume(ack="manual")
held = [consumer.receive(30) for _ in range(5)]
print("ready", flush=True)
{then}
"""


def filled(bus: shoal.Bus) -> None:
    for number in range(5):
        bus.queue("jobs").send(number)


def test_what_a_killed_consumer_had_is_redelivered_at_once(store: StoreProcess) -> None:
    with connect(store) as bus:
        filled(bus)
        with (
            program(HOLDER.format(then="time.sleep(600)"), store.domain) as holder,
            bus.queue("jobs").consume() as consumer,
        ):
            assert consumer.receive(0.5) is None
            holder.kill()
            began = time.monotonic()
            got = [consumer.receive(PATIENCE_S) for _ in range(5)]
            took_s = time.monotonic() - began
        assert all(message is not None and message.redelivered for message in got)
        # Half a second and a look; a busy machine takes its time as well.
        assert took_s < 3.0, took_s


def test_a_consumer_whose_python_code_holds_the_lock_of_the_interpreter_loses_nothing(
    store: StoreProcess,
) -> None:
    # One call of the interpreter: no thread of Python runs meanwhile, so nobody answers but the link itself.
    then = "began = time.monotonic(); sum(range(10 ** 9)); print(time.monotonic() - began, flush=True)"
    then += "\n[consumer.ack(message) for message in held]\nprint('done', flush=True)\ntime.sleep(600)"
    with connect(store) as bus:
        filled(bus)
        with program(HOLDER.format(then=then), store.domain) as holder:
            assert holder.stdout is not None
            assert float(holder.stdout.readline()) > 4.0
            assert holder.stdout.readline() == "done\n", "its lease was not over"


def test_a_consumer_that_waits_for_a_stopped_one_logs_why(
    store: StoreProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(store) as bus:
        filled(bus)
        with program(HOLDER.format(then="time.sleep(600)"), store.domain) as holder:
            os.kill(holder.pid, signal.SIGSTOP)
            with bus.queue("jobs").consume() as consumer:
                began = time.monotonic()
                got = [consumer.receive(PATIENCE_S) for _ in range(5)]
                took_s = time.monotonic() - began
        assert all(message is not None and message.redelivered for message in got)
        assert took_s < 6.0, took_s
        assert f"in flight at process {holder.pid}" in caplog.text
        assert caplog.text.count("in flight at") == 1


def test_a_store_that_stood_still_ends_nobodys_session(store: StoreProcess) -> None:
    then = "sys.stdin.readline()\n[consumer.ack(message) for message in held]\nprint('done', flush=True)"
    with connect(store) as bus:
        filled(bus)
        with program(HOLDER.format(then=then), store.domain) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            assert store._process is not None
            os.kill(store._process.pid, signal.SIGSTOP)
            time.sleep(6.0)
            os.kill(store._process.pid, signal.SIGCONT)
            holder.stdin.write("go on\n")
            holder.stdin.flush()
            assert holder.stdout.readline() == "done\n", "its lease was not over"
