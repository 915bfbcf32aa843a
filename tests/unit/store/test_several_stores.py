"""Several stores in one domain, each of which keeps its own."""

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.bus import store_channel
from shoal.bus.store_protocol import session_topic
from shoal.config import ConnectionConfig
from shoal.store import Store, resolve

PATIENCE_S = 30.0


@pytest.fixture
def domain() -> str:
    return secrets.token_hex(6)


@pytest.fixture
def stores(tmp_path: Path, domain: str) -> Iterator[dict[str, Store]]:
    kept = {"orders": ["orders/>", "orders"], "news": ["news/>", "news"]}
    connection = ConnectionConfig(scheme="inproc", domain=domain)
    opened = {
        name: Store(resolve(tmp_path / name, name=name, patterns=patterns, segment_bytes=1 << 20), connection)
        for name, patterns in kept.items()
    }
    try:
        for store in opened.values():
            assert store.wait_open(PATIENCE_S)
        yield opened
    finally:
        for store in opened.values():
            store.close()


def end_of(store: Store, end: int) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while store.log.durable_end < end and time.monotonic() < deadline:
        time.sleep(0.01)
    return store.log.durable_end == end


@pytest.mark.parametrize("name", ["orders", "news"])
def test_a_connection_speaks_with_the_store_that_keeps_what_it_asks_for_first(
    domain: str, stores: dict[str, Store], name: str
) -> None:
    other = {"orders": "news", "news": "orders"}[name]
    with shoal.connect(f"inproc://{domain}", client_id="me") as bus:
        bus.publish(f"{name}/1", b"x", persistent=True, timeout_s=PATIENCE_S)
        bus.queue(name).send(b"y", timeout_s=PATIENCE_S)
        assert bus.queue(name).receive(PATIENCE_S).body == b"y"  # type: ignore[union-attr]
        with pytest.raises(shoal.StoreRefusedError, match="make another connection"):
            bus.publish(f"{other}/1", b"x", persistent=True, timeout_s=PATIENCE_S)
        with pytest.raises(shoal.StoreRefusedError, match=f"does not keep {other}"):
            bus.queue(other).consume(timeout_s=PATIENCE_S)
    with (
        shoal.connect(f"inproc://{domain}", client_id="you") as bus,
        bus.subscribe(f"{other}/*", durable="s", timeout_s=PATIENCE_S) as subscription,
    ):
        bus.publish(f"{other}/1", b"z", persistent=True, timeout_s=PATIENCE_S)
        assert subscription.receive(PATIENCE_S).body == b"z"  # type: ignore[union-attr]
    assert end_of(stores[name], 2)
    assert end_of(stores[other], 1)


def test_nothing_is_said_to_a_store_before_its_answers_are_subscribed_to(
    domain: str, stores: dict[str, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    with shoal.connect(f"inproc://{domain}") as bus:
        channel = bus._connection.channel()
        topics: list[str] = []

        def topic_of(*arguments: Any, **options: Any) -> str:
            # As a thread does that publishes at this moment.
            with channel._lock:
                channel._pump()
                topics.append(channel._topic)
            return session_topic(*arguments, **options)

        monkeypatch.setattr(store_channel, "session_topic", topic_of)
        bus.publish("orders/1", "x", persistent=True, timeout_s=PATIENCE_S)
        assert topics
        assert not any(topics)


def test_an_outbox_brings_each_store_what_it_keeps_in_order(
    tmp_path: Path, domain: str, stores: dict[str, Store]
) -> None:
    with shoal.connect(f"inproc://{domain}", outbox=tmp_path / "out") as bus:
        for number in range(12):
            bus.publish(f"{'news' if number // 3 % 2 else 'orders'}/1", number, persistent=True)
        bus.flush(PATIENCE_S)
    rows = {name: store.log.rows(0, 100) for name, store in stores.items()}
    assert [row[4] for row in rows["orders"]] == [1, 2, 3, 7, 8, 9]
    assert [row[4] for row in rows["news"]] == [4, 5, 6, 10, 11, 12]
