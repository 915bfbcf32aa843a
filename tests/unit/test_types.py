"""Values that keep their type on the way."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import shoal
from shoal.types import Byte, Char, Float, Int, Long, QueueName, Short

_numbers = itertools.count(1)

SIZED = [(Byte, 8), (Short, 16), (Int, 32), (Long, 64)]


@pytest.fixture
def bus() -> Iterator[shoal.Bus]:
    with shoal.connect(f"inproc://types-{next(_numbers)}") as bus:
        yield bus


def sent(bus: shoal.Bus, body: Any = None, **options: Any) -> shoal.Message:
    with bus.subscribe("typed") as subscription:
        bus.publish("typed", body, **options)
        message = subscription.receive(5)
        assert message is not None
        return message


@pytest.mark.parametrize(("kind", "bits"), SIZED)
def test_an_integer_keeps_its_bounds_and_behaves_like_one(kind: type[int], bits: int) -> None:
    limit = 1 << (bits - 1)
    for number in (-limit, 0, limit - 1):
        assert kind(number) == number
        assert eval(repr(kind(number))) == kind(number)
    assert type(kind(5) + 1) is int
    for number in (-limit - 1, limit):
        with pytest.raises(
            ValueError, match=f"{number} does not fit a {kind.__name__}: {-limit} to {limit - 1}"
        ):
            kind(number)


def test_a_float_has_32_bits() -> None:
    assert Float(0.1) != 0.1
    assert Float(Float(0.1)) == Float(0.1)
    assert repr(Float(0.5)) == "Float(0.5)"
    with pytest.raises(ValueError, match="does not fit a Float"):
        Float(1e300)


def test_a_char_is_one_utf_16_unit() -> None:
    assert Char("ä") == "ä"
    assert repr(Char("ä")) == "Char('ä')"
    for text in ("", "ab", "😀"):
        with pytest.raises(ValueError, match="not one character of 16 bits"):
            Char(text)


VALUES = [Byte(-5), Short(300), Int(-70000), Long(5), Float(0.1), Char("ä"), Char("\ud800")]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_property_keeps_its_type(bus: shoal.Bus, value: Any) -> None:
    arrived = sent(bus, properties={"value": value, "plain": 5}).properties
    assert arrived == {"value": value, "plain": 5}
    assert type(arrived["value"]) is type(value)
    assert type(arrived["plain"]) is int


def test_values_inside_bodies_keep_their_types(bus: shoal.Bus) -> None:
    body = {"list": list(VALUES), "map": {"byte": Byte(1)}, "plain": [1, 0.5, "x"]}
    arrived = sent(bus, body).body
    assert arrived == body
    assert [type(value) for value in arrived["list"]] == [type(value) for value in VALUES]
    assert type(arrived["map"]["byte"]) is Byte
    assert [type(value) for value in arrived["plain"]] == [int, float, str]


def test_a_selector_sees_a_typed_number_as_a_number(bus: shoal.Bus) -> None:
    with bus.subscribe("typed", selector="size > 3 AND share = 0.5") as subscription:
        bus.publish("typed", 1, properties={"size": Byte(3), "share": Float(0.5)})
        bus.publish("typed", 2, properties={"size": Byte(4), "share": Float(0.5)})
        message = subscription.receive(5)
        assert message is not None
        assert message.body == 2


def test_a_reply_to_says_whether_it_is_a_queue(bus: shoal.Bus) -> None:
    topic, queue = sent(bus, reply_to="answers").reply_to, sent(bus, reply_to=QueueName("answers")).reply_to
    assert (topic, queue) == ("answers", "answers")
    assert (type(topic), type(queue)) == (str, QueueName)
    assert repr(queue) == "QueueName('answers')"
