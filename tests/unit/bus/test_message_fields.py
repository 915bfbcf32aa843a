"""Everything a message carries beside its body."""

import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

import shoal
from shoal.errors import ClosedError, ConfigError, InvalidTopicError, MessageTooLongError


def published(bus: shoal.Bus, body: Any = b"", **options: Any) -> shoal.Message:
    with bus.subscribe("field") as subscription:
        bus.publish("field", body, **options)
        message = subscription.receive(5)
        assert message is not None
        return message


def test_a_plain_message_has_its_sender_its_time_and_nothing_else(bus: shoal.Bus) -> None:
    before = time.time()
    message = published(bus)
    assert message.topic == "field"
    assert message.sender == bus.node
    assert message.timestamp is not None
    assert before - 1 <= message.timestamp <= time.time() + 1
    assert message.priority == 4
    assert message.properties == {}
    assert (message.correlation_id, message.reply_to, message.type, message.ttl_s) == (None, None, None, None)
    assert not message.redelivered


def test_what_stores_and_relays_need_is_set_and_read(bus: shoal.Bus, store: object) -> None:
    plain = published(bus)
    assert (plain.persistent, plain.delivery_delay_s) == (False, None)
    assert plain.headers["JMSDeliveryMode"] == "NON_PERSISTENT"
    message = published(bus, persistent=True, delivery_delay_s=1.5, timestamp=1_700_000_000.25)
    assert (message.persistent, message.delivery_delay_s) == (True, 1.5)
    assert message.timestamp == 1_700_000_000.25
    assert message.headers["JMSTimestamp"] == 1_700_000_000_250
    assert message.headers["JMSDeliveryMode"] == "PERSISTENT"
    assert published(bus, persistent=True).persistent, "though there is nothing else in its head"


@pytest.mark.parametrize("timestamp", [-1.0, float("nan"), 1e12])
def test_a_time_that_is_none_is_refused(bus: shoal.Bus, timestamp: float) -> None:
    with pytest.raises(ValueError, match="must be seconds since 1970"):
        bus.publish("field", timestamp=timestamp)


def test_message_ids_are_there_and_differ(bus: shoal.Bus) -> None:
    ids = {published(bus).message_id for _ in range(10)}
    assert len(ids) == 10
    assert all(name is not None and re.fullmatch(r"ID:\S+", name) for name in ids)


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"region": "EU"},
        {
            "text": "ä",
            "number": -5,
            "large": 2**63,
            "share": 0.5,
            "flag": True,
            "raw": b"\0",
            "nothing": None,
        },
        {f"p{number}": number for number in range(1024)},
        MappingProxyType({"region": "EU"}),
    ],
)
def test_properties_arrive_as_they_were(bus: shoal.Bus, properties: Mapping[str, Any]) -> None:
    assert published(bus, properties=properties).properties == properties


@pytest.mark.parametrize(
    ("properties", "error", "names"),
    [
        ({1: 2}, TypeError, ["1", "str"]),
        ({"list": [1]}, TypeError, ["list"]),
        ({"large": 2**64}, ValueError, ["large", "64 bits"]),
        ({"": 1}, ValueError, []),
        ({"x" * 256: 1}, ValueError, ["255"]),
        ({f"p{number}": 1 for number in range(1025)}, ValueError, ["1024"]),
        ({"x": "y" * 70_000}, ValueError, ["65535"]),
        ([("region", "EU")], TypeError, ["mapping"]),
    ],
)
def test_properties_that_cannot_be_are_refused_by_name(
    bus: shoal.Bus, properties: Any, error: type[Exception], names: list[str]
) -> None:
    with pytest.raises(error) as refusal:
        published(bus, properties=properties)
    for name in names:
        assert name in str(refusal.value)


@pytest.mark.parametrize("priority", range(10))
def test_priorities_arrive(bus: shoal.Bus, priority: int) -> None:
    assert published(bus, priority=priority).priority == priority


@pytest.mark.parametrize("priority", [-1, 10, 300])
def test_a_priority_out_of_range_is_refused_with_the_range(bus: shoal.Bus, priority: int) -> None:
    with pytest.raises(ValueError, match=rf"priority is {priority}, and must be 0 to 9"):
        bus.publish("field", priority=priority)


@pytest.mark.parametrize("identity", ["order 5", "ä" * 64, b"\xff\x00", "x" * 128])
def test_a_correlation_id_is_text_or_bytes(bus: shoal.Bus, identity: str | bytes) -> None:
    assert published(bus, correlation_id=identity).correlation_id == identity


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"correlation_id": 5}, ValueError, ["correlation_id", "5"]),
        ({"correlation_id": "x" * 129}, ValueError, ["128"]),
        ({"reply_to": "a/*"}, ValueError, ["reply_to", "'*'"]),
        ({"reply_to": ""}, ValueError, ["reply_to"]),
        ({"type": "x" * 256}, ValueError, ["255"]),
        ({"ttl_s": -1}, ConfigError, ["ttl_s", "-1"]),
        ({"ttl_s": float("nan")}, ConfigError, ["ttl_s", "NaN"]),
        ({"timeout_s": -1}, ConfigError, ["timeout_s", "-1"]),
    ],
)
def test_a_field_that_cannot_be_is_refused_by_name(
    bus: shoal.Bus, options: dict[str, Any], error: type[Exception], names: list[str]
) -> None:
    with bus.subscribe("field") as subscription:
        with pytest.raises(error) as refusal:
            bus.publish("field", b"", **options)
        for name in names:
            assert name in str(refusal.value)
        assert subscription.receive(0) is None


def test_reply_to_and_type_arrive(bus: shoal.Bus) -> None:
    message = published(bus, reply_to="answers/here", type="order")
    assert (message.reply_to, message.type) == ("answers/here", "order")


def test_a_message_that_waits_longer_than_its_time_to_live_is_never_seen(bus: shoal.Bus) -> None:
    with bus.subscribe("field") as subscription:
        bus.publish("field", b"short", ttl_s=0.05)
        bus.publish("field", b"long", ttl_s=60)
        bus.publish("field", b"for ever")
        time.sleep(0.1)
        arrived = [subscription.receive(5) for _ in range(2)]
        assert subscription.receive(0) is None
    assert [(message.body, message.ttl_s) for message in arrived if message] == [
        (b"long", 60.0),
        (b"for ever", None),
    ]


def test_a_message_read_in_time_has_its_time_to_live(bus: shoal.Bus) -> None:
    assert published(bus, ttl_s=30).ttl_s == 30.0


def test_a_message_larger_than_the_bound_is_refused_with_the_bound(domain: str) -> None:
    with shoal.connect(domain, message_bytes_max=1000) as bus, bus.subscribe("field") as subscription:
        bus.publish("field", bytes(900))
        with pytest.raises(MessageTooLongError, match="1000"):
            bus.publish("field", bytes(1001))
        message = subscription.receive(5)
        assert message is not None
        assert len(message.body) == 900
        assert subscription.receive(0) is None


def test_a_message_says_what_it_is(bus: shoal.Bus) -> None:
    assert repr(published(bus, "x" * 100)) == f"<shoal.Message field {('x' * 100)!r:.60}…>"
    with pytest.raises(AttributeError):
        published(bus).body = b""  # type: ignore[misc]


def test_after_close_everything_raises_closed_error(domain: str) -> None:
    bus = shoal.connect(domain)
    subscription = bus.subscribe("a")
    bus.close()
    bus.close()
    assert list(subscription) == []
    for attempt in (
        lambda: bus.publish("a", b""),
        lambda: bus.subscribe("a"),
        lambda: bus.request("a"),
        lambda: bus.flush(),
        lambda: bus.wait_for_subscribers("a", timeout_s=5),
    ):
        with pytest.raises(ClosedError, match="closed"):
            attempt()


def test_topics_that_cannot_be_are_refused_where_they_are_used(bus: shoal.Bus) -> None:
    for attempt in (
        lambda: bus.publish("a/*", b""),
        lambda: bus.publish("", b""),
        lambda: bus.subscribe("a//b"),
        lambda: bus.subscribe(">/a"),
        lambda: bus.request("a/>"),
        lambda: bus.wait_for_subscribers("a/*"),
    ):
        with pytest.raises(InvalidTopicError):
            attempt()


def test_very_long_waits_are_waits(bus: shoal.Bus) -> None:
    with bus.subscribe("field") as subscription:
        bus.publish("field", b"x")
        message = subscription.receive(1e18)
        assert message is not None
    bus.flush(1e18)
