"""Last values that a store keeps beyond the life of their publishers."""

import asyncio
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import shoal
from shoal import _core, aio, jms
from shoal.bus.store_protocol import RETAIN
from shoal.config import resolve
from shoal.errors import StoreFullError
from shoal.store import Store, retained
from shoal.store.config import resolve as store_config
from shoal.store.core import Core, Now
from shoal.store.requests import RequestError
from shoal.store.retained import Values

PATIENCE_S = 10.0


_numbers = itertools.count(1)


@pytest.fixture
def domain() -> str:
    return f"inproc://values-{next(_numbers)}"


@pytest.fixture
def store(domain: str, tmp_path: Path) -> Iterator[shoal.Bus]:
    with shoal.connect(domain, store=tmp_path / "data") as bus:
        yield bus


def last(domain: str, pattern: str = ">") -> dict[str, object]:
    with shoal.connect(domain) as bus, bus.subscribe(pattern, retained=True) as values:
        return {message.topic: message.body for message in values.receive_nowait()}


def publish(domain: str, topic: str, body: object, **options: object) -> None:
    with shoal.connect(domain) as bus:
        bus.publish(topic, body, retain=True, persistent=True, timeout_s=PATIENCE_S, **options)


def test_a_store_gives_the_last_value_of_a_publisher_that_is_gone(domain: str, store: shoal.Bus) -> None:
    publish(domain, "prices/ACME", 10.25)
    publish(domain, "prices/ACME", 10.5)
    publish(domain, "prices/OTHER", 7)
    assert last(domain) == {"prices/ACME": 10.5, "prices/OTHER": 7}
    assert last(domain, "prices/ACME") == {"prices/ACME": 10.5}


def test_values_survive_a_restart_of_the_store(domain: str, tmp_path: Path) -> None:
    for number in range(2):
        with shoal.connect(domain, store=tmp_path / "data"):
            if not number:
                publish(domain, "a", "kept", properties={"region": "EU"})
                publish(domain, "b", "deleted")
                publish(domain, "b", None)
            with shoal.connect(domain) as bus, bus.subscribe("*", retained=True) as values:
                (message,) = values.receive_nowait()
                assert (message.topic, message.body, message.properties["region"]) == ("a", "kept", "EU")


def test_a_living_publisher_and_the_store_give_a_value_once(domain: str, store: shoal.Bus) -> None:
    with shoal.connect(domain) as publisher, shoal.connect(domain) as other:
        publisher.publish("a", 1, retain=True, persistent=True, timeout_s=PATIENCE_S)
        with other.subscribe("a", retained=True) as values:
            assert [message.body for message in values.receive_nowait()] == [1]
            publisher.publish("a", 2, retain=True, persistent=True, timeout_s=PATIENCE_S)
            message = values.receive(PATIENCE_S)
            assert message is not None
            assert message.body == 2
            assert values.receive(0.05) is None


@pytest.mark.parametrize("empty", [None, b"", ""])
def test_an_empty_body_deletes_a_stored_value(domain: str, store: shoal.Bus, empty: object) -> None:
    publish(domain, "a", 1)
    publish(domain, "a", empty)
    assert last(domain) == {}


def test_a_stored_value_expires(domain: str, store: shoal.Bus) -> None:
    publish(domain, "a", 1, ttl_s=0.05)
    deadline = time.monotonic() + PATIENCE_S
    while last(domain) and time.monotonic() < deadline:
        pass
    assert last(domain) == {}


def test_without_retain_or_persistent_a_store_keeps_no_value(domain: str, store: shoal.Bus) -> None:
    with shoal.connect(domain) as bus:
        bus.publish("a", 1, persistent=True, timeout_s=PATIENCE_S)
        bus.publish("b", 2, retain=True)
    assert last(domain) == {}


def test_at_the_bound_publish_raises_and_deleting_makes_room(
    domain: str, store: shoal.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "TOPICS_MAX", 2)
    publish(domain, "a", 1)
    publish(domain, "b", 2)
    with pytest.raises(shoal.StoreFullError, match="the store retains at most 2 topics: delete some"):
        publish(domain, "c", 3)
    publish(domain, "b", 4)
    publish(domain, "a", None)
    publish(domain, "c", 3)
    assert last(domain) == {"b": 4, "c": 3}


def test_values_that_expired_make_room(
    domain: str, store: shoal.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "TOPICS_MAX", 2)
    publish(domain, "a", 1, ttl_s=0.05)
    publish(domain, "b", 2, ttl_s=0.05)
    deadline = time.monotonic() + PATIENCE_S
    while last(domain):
        assert time.monotonic() < deadline
    publish(domain, "c", 3)
    assert last(domain) == {"c": 3}


def test_a_value_that_the_store_refuses_reaches_no_live_subscriber(
    domain: str, store: shoal.Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retained, "TOPICS_MAX", 1)
    with store.subscribe(">", wait=True) as live, shoal.connect(domain) as bus:
        bus.publish("a", 1, retain=True, persistent=True, timeout_s=PATIENCE_S)
        with pytest.raises(StoreFullError):
            bus.publish("b", 2, retain=True, persistent=True, timeout_s=PATIENCE_S)
        bus.publish("a", 3, retain=True, persistent=True, timeout_s=PATIENCE_S)
        assert [message.body for message in (live.receive(PATIENCE_S) for _ in range(2)) if message] == [1, 3]


def test_a_jms_program_leaves_a_last_value_with_a_property(domain: str, store: shoal.Bus) -> None:
    with jms.ConnectionFactory(domain).create_context() as context:
        producer = context.create_producer().set_property(RETAIN, True)
        producer.send(context.create_topic("prices/ACME"), "10.25")
    assert last(domain) == {"prices/ACME": "10.25"}


def test_a_message_in_a_queue_is_no_last_value(domain: str, store: shoal.Bus) -> None:
    store.queue("orders").send("tea", properties={RETAIN: True}, timeout_s=PATIENCE_S)
    assert last(domain) == {}


def test_asyncio_leaves_a_last_value(domain: str, store: shoal.Bus) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            await bus.publish("a", 1, retain=True, persistent=True, timeout_s=PATIENCE_S)

    asyncio.run(main())
    assert last(domain) == {"a": 1}


def test_an_outbox_leaves_a_last_value(domain: str, store: shoal.Bus, tmp_path: Path) -> None:
    with shoal.connect(domain, outbox=tmp_path / "outbox") as bus:
        bus.publish("a", 1, retain=True, persistent=True)
        bus.flush(PATIENCE_S)
        with shoal.connect(domain) as other, other.subscribe("a", retained=True) as values:
            assert [message.body for message in values.receive_nowait()] == [1], "once"
    assert last(domain) == {"a": 1}


def rows(*values: tuple[str, object]) -> bytes:
    builder = _core.RowsBuilder(7, 1)
    for topic, body in values:
        builder.add(topic, body, properties={RETAIN: True})
    taken = builder.take()
    assert taken is not None
    return taken[0]


@pytest.fixture
def values() -> Values:
    core = Core(_core.Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=1 << 26), (">",), 1000)
    core.now = Now(0.0, 1)
    return Values(core)


def test_a_turn_that_is_refused_leaves_the_values_as_they_were(values: Values) -> None:
    values.take(rows(("a", 1), ("b", 2)), 0)
    values._core.appended(None)
    before = values.matching(">")
    values.take(rows(("a", 3), ("a", 4), ("b", None), ("c", 5)), 0)
    values._core.appended("the disk is full")
    assert sorted(values.matching(">")) == sorted(before)
    assert values._bytes == sum(map(len, before)) + 8 * len(before)


def test_rows_that_are_stored_already_change_nothing(values: Values) -> None:
    values.take(rows(("a", 1), ("b", 2)), 1)
    assert [message.topic for row in values.matching(">") for message in _core.read_rows(row)] == ["b"]


def test_bytes_are_bounded(values: Values, monkeypatch: pytest.MonkeyPatch) -> None:
    values._bytes_max = 300
    values.check(rows(("a", "x" * 100)), 0)
    with pytest.raises(RequestError, match="retains at most 300 bytes"):
        values.check(rows(("a", "x" * 100), ("b", "y" * 150)), 0)


def test_a_store_with_tokens_gives_values_to_nobody_and_keeps_none() -> None:
    log = _core.Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=64 << 20)
    core = Core(log, (">",), 100)
    builder = _core.RowsBuilder(7, 5)
    builder.add("a", b"value", persistent=True, bytes_max=1 << 20, properties={RETAIN: True})
    taken = builder.take()
    assert taken is not None
    for is_secured in (False, True):
        values = Values(core, is_secured=is_secured)
        values.check(taken[0], 0)
        values.take(taken[0], 0)
        assert len(values) == (not is_secured)


def test_a_store_that_connects_to_a_router_gives_values_to_programs_there(tmp_path: Path) -> None:
    with shoal.listen("tcp://127.0.0.1:0", router=True) as router:
        url = router.links[0].url
        with Store(store_config(tmp_path / "data"), resolve(url, {})):
            with shoal.connect(url) as ticker:
                ticker.publish("prices/ACME", 10, retain=True, persistent=True, timeout_s=PATIENCE_S)
                ticker.publish("prices/OTTO", 11, retain=True, persistent=True, timeout_s=PATIENCE_S)
                ticker.publish("prices/OTTO", None, retain=True, persistent=True, timeout_s=PATIENCE_S)
            with shoal.connect(url) as desk, desk.subscribe("prices/*", retained=True) as prices:
                value = prices.receive(PATIENCE_S)
                assert value is not None
                assert (value.topic, value.body) == ("prices/ACME", 10)
                assert prices.receive(0.2) is None
