"""Queues, durable subscriptions, transactions and outboxes with a real store, on real networks."""

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import PATIENCE_S

import shoal
from shoal.bus import store_channel
from shoal.processes.store import StoreProcess


def until(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StoreProcess]:
    with StoreProcess(tmp_path / "data", record="recorded/>") as running:
        yield running


def connect(store: StoreProcess, **options: Any) -> shoal.Bus:
    return shoal.connect(domain=store.domain, interface="lo", **options)


def test_a_store_is_found_and_keeps_queues_and_subscriptions_over_a_kill(store: StoreProcess) -> None:
    with connect(store, client_id="desk") as desk, desk.subscribe("news", durable="all"):
        pass
    bus = connect(store)
    for number in range(300):
        bus.publish("news", number, persistent=True, window=50)
        bus.queue("jobs").send(number, window=50)
    bus.flush(PATIENCE_S)
    store.kill()
    store.start()
    bus.publish("news", 300, persistent=True, timeout_s=PATIENCE_S)
    # The member that was killed answers nobody.
    bus.close(0.0)
    with connect(store, client_id="desk") as desk, desk.subscribe("news", durable="all") as all_news:
        got = [all_news.receive(PATIENCE_S) for _ in range(301)]
        assert [message.body for message in got if message is not None] == list(range(301))
        with desk.queue("jobs").consume() as jobs:
            done = [jobs.receive(PATIENCE_S) for _ in range(300)]
            assert [message.body for message in done if message is not None] == list(range(300))
            assert jobs.receive(0.2) is None


def test_a_worker_that_dies_gives_its_work_to_another(store: StoreProcess) -> None:
    code = (
        "import shoal, time\n"
        f"bus = shoal.connect(domain={store.domain!r}, interface='lo')\n"
        "consumer = bus.queue('jobs').consume(prefetch=5)\n"
        "print(consumer.receive(30).body, flush=True)\n"
        "time.sleep(600)\n"
    )
    bus = connect(store)
    for number in range(20):
        bus.queue("jobs").send(number)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as mortal:
        assert mortal.stdout is not None
        in_hand = int(mortal.stdout.readline())
        mortal.kill()
    with bus.queue("jobs").consume() as consumer:
        got = [consumer.receive(PATIENCE_S) for _ in range(20)]
    # The store may have found before this connection that the worker is dead.
    bus.close(0.0)
    again = {message.body for message in got if message is not None and message.redelivered}
    assert sorted(message.body for message in got if message is not None) == list(range(20))
    assert in_hand in again


def test_an_address_names_a_store_that_cannot_be_heard(tmp_path: Path) -> None:
    domain = secrets.token_hex(8)
    with shoal.connect(domain=domain, interface="lo", store=tmp_path / "data") as keeper:
        (url,) = keeper.store.urls[:1]
        with shoal.connect(f"inproc://{domain}", store=url) as far:
            far.queue("jobs").send("x")
        message = keeper.queue("jobs").receive(PATIENCE_S)
        assert message is not None
        assert message.body == "x"


def test_an_outbox_outlives_its_program_and_drains_once(store: StoreProcess, tmp_path: Path) -> None:
    code = (
        "import os, shoal\n"
        f"domain, outbox = {secrets.token_hex(8)!r}, {str(tmp_path / 'out')!r}\n"
        "bus = shoal.connect(domain=domain, interface='lo', outbox=outbox)\n"
        "for number in range(50):\n"
        "    bus.queue('jobs').send(number)\n"
        "os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 9
    for _ in range(2):
        with connect(store, outbox=tmp_path / "out") as bus:
            bus.queue("jobs").send("more")
            bus.flush(PATIENCE_S)
    with connect(store) as bus:
        waiting = [message.body for message in bus.queue("jobs").browse()]
    assert waiting == [*range(50), "more", "more"]


def test_where_there_is_no_store_one_of_the_members_has_the_queues_in_memory() -> None:
    domain = secrets.token_hex(8)
    with (
        shoal.connect(domain=domain, interface="lo") as bus,
        shoal.connect(domain=domain, interface="lo") as other,
    ):
        got: list[object] = []

        def take() -> None:
            message = other.queue("jobs").receive(PATIENCE_S)
            got.append(message and message.body)

        thread = threading.Thread(target=take)
        thread.start()
        bus.queue("jobs").send("x", persistent=False)
        thread.join(PATIENCE_S)
        assert got == ["x"]
        with pytest.raises(shoal.NoStoreError):
            bus.queue("jobs").send("y")


def test_the_next_member_takes_over_when_the_one_with_the_queues_goes() -> None:
    domain = secrets.token_hex(8)
    buses = [shoal.connect(domain=domain, interface="lo") for _ in range(3)]
    try:
        consumers = [bus.queue("jobs").consume() for bus in buses]
        owner = next(bus for bus in buses if bus._connection.channels[0]._owned is not None)
        owner.close()
        left = [bus for bus in buses if bus is not owner]
        until(lambda: any(bus._connection.channels[0]._owned is not None for bus in left), 60.0)
        left[0].queue("jobs").send("x", persistent=False, timeout_s=PATIENCE_S)

        def received() -> list[object]:
            return [m.body for c in consumers if not c.closed for m in c.receive_nowait()]

        found: list[object] = []
        until(lambda: bool(found) or bool(found.extend(received())) or bool(found))
        assert found == ["x"]
        events = [event for bus in left for event in bus.events(0.0)]
        # It had nothing, and may have said so.
        assert any(isinstance(event, shoal.StoreDown) for event in events)
    finally:
        for bus in buses:
            bus.close(0.0)


def test_a_store_that_appears_takes_over_from_queues_in_memory_that_were_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_channel, "LOOK_S", 0.5)
    domain = f"inproc://{secrets.token_hex(8)}"
    with shoal.connect(domain) as owner, shoal.connect(domain) as other:
        with owner.queue("jobs").consume() as jobs:
            other.queue("jobs").send("light", persistent=False, timeout_s=PATIENCE_S)
            assert jobs.receive(PATIENCE_S) is not None
        with shoal.connect(domain, store=tmp_path):
            other.queue("jobs").send("kept", timeout_s=PATIENCE_S)
            downs = [event for event in other.events(0.0) if isinstance(event, shoal.StoreDown)]
    assert [(event.memory, event.gave_way) for event in downs] == [(True, True)]
    assert "lost" not in caplog.text


def test_queues_in_memory_are_there_as_soon_as_it_is_known_that_nobody_is_a_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Without that knowledge it would look for one for longer than the test waits.
    monkeypatch.setattr(store_channel, "LOOK_S", 10 * PATIENCE_S)
    with shoal.connect(f"inproc://{secrets.token_hex(8)}") as bus:
        bus.queue("jobs").send("light", persistent=False, timeout_s=PATIENCE_S)
        received = bus.queue("jobs").receive(PATIENCE_S)
    assert received is not None
    assert received.body == "light"


def test_nobody_has_queues_in_memory_while_somebody_may_be_a_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_channel, "LOOK_S", 10 * PATIENCE_S)
    monkeypatch.setitem(store_channel.KNOWN_S, "inproc", 0.0)
    domain = f"inproc://{secrets.token_hex(8)}"
    with shoal.connect(domain) as other, shoal.connect(domain) as bus:
        # As a store does that has not answered yet.
        with other.subscribe("_store/who"), pytest.raises(shoal.StoreUnavailableError):
            bus.queue("jobs").send("light", persistent=False, timeout_s=0.3)
        bus.queue("jobs").send("light", persistent=False, timeout_s=PATIENCE_S)
