"""Types of a program's own as bodies, and inside them."""

import dataclasses
import datetime
import subprocess
import sys
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy
import pytest

import shoal
from shoal import codecs
from shoal.errors import ConfigError, MessageFormatError


@dataclasses.dataclass
class Order:
    symbol: str
    price: Decimal
    legs: "list[Order]" = dataclasses.field(default_factory=list)


class Point:
    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Point) and (self.x, self.y) == (other.x, other.y)

    __hash__ = None  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def own() -> Iterator[None]:
    codecs.register_dataclass(Order, name="order")
    codecs.register(Point, lambda point: [point.x, point.y], lambda parts: Point(*parts), name="point")
    yield
    codecs.unregister(Order)
    codecs.unregister(Point)


def round_trip(body: Any) -> Any:
    with shoal.connect("inproc://codecs") as bus, bus.subscribe("a") as subscription:
        bus.publish("a", body)
        message = subscription.receive(5)
    assert message is not None
    return message.body


ORDER = Order("ACME", Decimal("10.25"), [Order("EMCA", Decimal(1))])


@pytest.mark.parametrize(
    "body",
    [
        ORDER,
        Point(1, 2),
        [ORDER, Point(3, 4), None],
        {"deep": {"deeper": [ORDER]}, "plain": 1},
        {"$shoal": "order", "value": 1},
        {"$shoal": "order", "value": 1, "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 678)},
        datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC),
        [datetime.date(2026, 1, 2), datetime.time(3, 4), datetime.timedelta(days=-1, microseconds=5)],
        {"id": uuid.UUID(int=5), "amount": Decimal("0.1")},
    ],
)
def test_it_arrives_as_it_was(body: Any) -> None:
    arrived = round_trip(body)
    assert arrived == body
    assert type(arrived) is type(body)


def test_arrays_travel_inside_other_things() -> None:
    arrived = round_trip({"samples": [numpy.arange(6).reshape(2, 3).T, numpy.zeros(0)], "name": "x"})
    numpy.testing.assert_array_equal(arrived["samples"][0], numpy.arange(6).reshape(2, 3).T)
    assert arrived["samples"][1].shape == (0,)


def test_a_type_that_is_not_registered_here_is_told_when_the_body_is_asked_for() -> None:
    with shoal.connect("inproc://codecs") as bus, bus.subscribe("a") as subscription:
        bus.publish("a", [ORDER])
        bus.publish("a", ORDER)
        bus.publish("a", "next")
        codecs.unregister(Order)
        for _ in range(2):
            message = subscription.receive(5)
            assert message is not None
            with pytest.raises(MessageFormatError, match="'order', which is not registered here: call"):
                _ = message.body
            assert "cannot be read here" in repr(message)
        last = subscription.receive(5)
        assert last is not None
        assert last.body == "next"


def test_a_type_that_cannot_be_made_of_what_came_is_told_with_the_reason() -> None:
    codecs.register(Point, lambda point: {"x": point.x}, lambda parts: Point(*parts["no"]), name="point")
    with pytest.raises(MessageFormatError, match="a 'point' that cannot be made: 'no'"):
        round_trip(Point(1, 2))
    codecs.register(Order, lambda order: {"symbol": "x"}, codecs.find(Order).decode, name="order")  # type: ignore[union-attr]
    with pytest.raises(MessageFormatError, match="made of symbol, price, legs"):
        round_trip(ORDER)


def test_a_dataclass_needs_no_functions() -> None:
    codecs.register(Order, name="order")
    assert round_trip(ORDER) == ORDER


@pytest.mark.parametrize(
    ("register", "error", "names"),
    [
        (lambda: codecs.register(5, str, str), TypeError, ["kind is 5"]),
        (lambda: codecs.register(Point, 5, str), TypeError, ["encode is 5"]),
        (lambda: codecs.register(Point), TypeError, ["encode is None"]),
        (lambda: codecs.register(Order, str), TypeError, ["decode is None"]),
        (lambda: codecs.register(Point, str, str, name=""), ConfigError, ["name is ''"]),
        (lambda: codecs.register(Point, str, str, name="order"), ConfigError, ["'order'", "Order"]),
        (lambda: codecs.register_dataclass(Point), TypeError, ["dataclass"]),
    ],
)
def test_a_codec_that_cannot_be_is_refused_by_name(register: Any, error: Any, names: list[str]) -> None:
    with pytest.raises(error) as refusal:
        register()
    for name in names:
        assert name in str(refusal.value)


@pytest.mark.parametrize("body", [{"a": {1, 2}}, [object()], {"a": {("x",): 1}}])
def test_what_has_no_codec_is_refused_as_before(body: Any) -> None:
    with pytest.raises(TypeError):
        round_trip(body)


def test_a_missing_library_is_told_when_the_body_is_asked_for_and_not_before() -> None:
    program = """
import pickle, sys
import shoal
sys.modules["numpy"] = None
with shoal.connect("inproc://x") as bus, bus.subscribe("a") as subscription:
    record = bytes.fromhex(sys.argv[1])
    from shoal.bus import bodies
    try:
        bodies.decode(bodies.ARRAY, b"C\\x03<i8\\x03", b"")
    except shoal.MessageFormatError as error:
        print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program, "00"], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ("the body is a numpy array: install numpy to read it\n", "")
