"""A store in a process of its own says how it is."""

import contextlib
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

import shoal
from shoal.config import ConnectionConfig
from shoal.monitor.answers import TOPIC
from shoal.monitor.capacity import CapacityWatch
from shoal.store import Store
from shoal.store.answering import StoreAnswers
from shoal.store.config import resolve


def test_a_store_answers_who_is_there_with_its_queues(tmp_path: Path) -> None:
    domain = uuid.uuid4().hex
    config = resolve(tmp_path, ("prices/>",), segment_bytes=1 << 20)
    with (
        Store(config, ConnectionConfig(scheme="inproc", domain=domain)) as store,
        contextlib.closing(StoreAnswers(store)) as answers,
        shoal.connect(f"inproc://{domain}") as bus,
    ):
        bus.queue("orders").send("one", timeout_s=10.0)
        bus.wait_for_subscribers(TOPIC, timeout_s=10.0)
        answers.turn()
        (answer,) = bus.request_many(TOPIC, timeout_s=10.0)
    told = answer.body
    assert (told["name"], told["roles"]) == (store.name, ["store"])
    assert told["store"]["record"] == ["prices/>"]
    assert "capacity" in told
    assert [queue["name"] for queue in told["store"]["queues"]] == ["orders"]


def test_a_store_serves_its_metrics_where_it_is_asked_to(tmp_path: Path) -> None:
    domain = uuid.uuid4().hex
    with (
        Store(resolve(tmp_path, name="desk"), ConnectionConfig(scheme="inproc", domain=domain)) as store,
        contextlib.closing(StoreAnswers(store, "127.0.0.1:0")) as answers,
        shoal.connect(f"inproc://{domain}") as bus,
    ):
        bus.queue("orders").send("one", timeout_s=10.0)
        with urllib.request.urlopen(f"{answers.metrics_url}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        assert 'shoal_queue_messages{queue="orders"} 1' in lines
        assert any(line.startswith('shoal_info{name="desk"') for line in lines)
        assert urllib.request.urlopen(f"{answers.metrics_url}/health", timeout=10).read() == b"ok\n"
        store._error = OSError("the disk is gone")
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{answers.metrics_url}/health", timeout=10)
        store._error = None
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{answers.metrics_url}/health", timeout=10)


def test_a_load_that_is_high_for_long_is_an_event_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    low = shoal.CapacityLow("desk", 0.93, 120_000.0)
    monkeypatch.setattr(CapacityWatch, "turn", lambda *_: low)
    config = resolve(tmp_path, name="desk")
    connection = ConnectionConfig(scheme="inproc", domain=uuid.uuid4().hex)
    with Store(config, connection) as store, contextlib.closing(StoreAnswers(store)) as answers:
        answers.turn()
        assert low in list(store._bus.events(timeout_s=0))
    assert "SHOAL-5008" in caplog.text
