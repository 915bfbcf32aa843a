"""Messages that programs make: compared, copied, pickled, and read as received ones are."""

import copy
import pickle
from typing import Any

import numpy
import pytest

import shoal

FIELDS: dict[str, Any] = {
    "properties": {"region": "EU", "size": 5},
    "priority": 7,
    "ttl_s": 2.0,
    "correlation_id": "order 5",
    "reply_to": "answers/here",
    "type": "order",
    "persistent": True,
    "timestamp": 1.7e9,
    "redelivered": True,
    "sender": 12,
}


def received(bus: shoal.Bus, body: Any, **options: Any) -> shoal.Message:
    with bus.subscribe("a") as subscription:
        bus.publish("a", body, **options)
        message = subscription.receive(5)
    assert message is not None
    return message


def test_a_message_has_what_it_was_made_of() -> None:
    message = shoal.Message("prices/ACME", {"bid": 10.25}, **FIELDS)
    assert (message.topic, message.body) == ("prices/ACME", {"bid": 10.25})
    assert {name: getattr(message, name) for name in FIELDS} == FIELDS
    assert shoal.Message("a").body is None


def test_a_message_that_was_made_equals_one_that_was_received(bus: shoal.Bus) -> None:
    options = {"properties": {"region": "EU"}, "priority": 7, "correlation_id": b"\xff"}
    message = received(bus, {"a": 1, "b": [2]}, **options)
    assert message == shoal.Message("a", {"b": [2], "a": 1}, **options)
    assert hash(message) == hash(shoal.Message("a", {"b": [2], "a": 1}, **options))
    assert message != shoal.Message("a", {"a": 1, "b": [3]}, **options)
    assert message != shoal.Message("b", {"a": 1, "b": [2]}, **options)
    assert message != shoal.Message("a", {"a": 1, "b": [2]})
    assert message != "a"
    assert shoal.Message("a", 1) != shoal.Message("a", True)
    array = numpy.arange(3)
    assert received(bus, array) == shoal.Message("a", array)
    assert received(bus, array) != shoal.Message("a", array + 1)


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
@pytest.mark.parametrize("body", [b"x", "x", None, 5, {"a": [1, {}]}, numpy.arange(3)], ids=repr)
def test_a_message_can_be_copied_and_pickled(bus: shoal.Bus, again: Any, body: Any) -> None:
    for message in (shoal.Message("a", body, **FIELDS), received(bus, body, properties={"n": 1})):
        twin = again(message)
        assert twin == message
        for name in (*FIELDS, "message_id", "publisher"):
            assert getattr(twin, name) == getattr(message, name), name


def test_a_body_is_decoded_once(bus: shoal.Bus) -> None:
    message = received(bus, {"a": [1]})
    assert message.body is message.body
    message.body["a"].append(2)
    assert message.body == {"a": [1, 2]}


@pytest.mark.parametrize(
    ("arguments", "error", "names"),
    [
        ((5,), TypeError, ["topic is 5", "str"]),
        (("a/*",), shoal.InvalidTopicError, ["*"]),
        (("a", object()), TypeError, ["object", "codecs"]),
    ],
)
def test_what_cannot_be_published_cannot_be_made(arguments: Any, error: Any, names: list[str]) -> None:
    with pytest.raises(error) as refusal:
        shoal.Message(*arguments)
    for name in names:
        assert name in str(refusal.value)
