"""A store in a process of its own says how it is."""

import contextlib
import uuid
from pathlib import Path

import shoal
from shoal.config import ConnectionConfig
from shoal.monitor.answers import TOPIC
from shoal.store import Store
from shoal.store.answering import answer_for
from shoal.store.config import resolve


def test_a_store_answers_who_is_there_with_its_queues(tmp_path: Path) -> None:
    domain = uuid.uuid4().hex
    config = resolve(tmp_path, ("prices/>",), segment_bytes=1 << 20)
    with (
        Store(config, ConnectionConfig(scheme="inproc", domain=domain)) as store,
        contextlib.closing(answer_for(store)),
        shoal.connect(f"inproc://{domain}") as bus,
    ):
        bus.queue("orders").send("one", timeout_s=10.0)
        bus.wait_for_subscribers(TOPIC, timeout_s=10.0)
        (answer,) = bus.request_many(TOPIC, timeout_s=10.0)
    told = answer.body
    assert (told["name"], told["roles"]) == (store.name, ["store"])
    assert told["store"]["record"] == ["prices/>"]
    assert [queue["name"] for queue in told["store"]["queues"]] == ["orders"]
