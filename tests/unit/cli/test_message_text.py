import json
import math
from typing import Any

import numpy
import pyarrow
import pytest

import shoal
from shoal.cli.message_text import body_from_text, body_text, for_people, for_programs, property_from_text


def received(body: Any, **options: Any) -> shoal.Message:
    with shoal.connect("inproc://message-text") as bus, bus.subscribe("a/b") as subscription:
        bus.publish("a/b", body, **options)
        message = subscription.receive(5)
    assert message is not None
    return message


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("region=EU", ("region", "EU")),
        ("n=3", ("n", 3)),
        ("n=-2.5", ("n", -2.5)),
        ("urgent=true", ("urgent", True)),
        ("note=a=b", ("note", "a=b")),
        ("empty=", ("empty", "")),
        ("list=[1]", ("list", "[1]")),
    ],
)
def test_a_property_is_a_number_or_a_truth_where_it_reads_as_one(text: str, parsed: tuple[str, Any]) -> None:
    assert property_from_text(text) == parsed


@pytest.mark.parametrize("text", ["region", "=EU", ""])
def test_a_property_without_a_name_or_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="NAME=VALUE"):
        property_from_text(text)


def test_a_body_is_text_unless_json_is_asked_for() -> None:
    assert body_from_text("[1]", as_json=False) == "[1]"
    assert body_from_text("[1]", as_json=True) == [1]
    with pytest.raises(ValueError, match="the body is not JSON"):
        body_from_text("{", as_json=True)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("text", "text"),
        (b"bytes", "bytes"),
        (b"\x00\xff", "<2 bytes 00 ff>"),
        (b"", "<0 bytes >"),
        ({"bid": 10.25}, '{"bid": 10.25}'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_a_body_is_shown_on_one_line(body: Any, shown: str) -> None:
    assert body_text(body) == shown


def test_long_binary_bodies_are_cut() -> None:
    assert len(body_text(b"\xff" * 1000)) < 150


@pytest.mark.parametrize(
    "body",
    [
        "two\nlines",
        "\x1b[2J cleared",
        "\x9b2J",
        "turned \u202e round",
        "\u2028",
        {"key\n": "\x1b]0;title\x07", b"\x00": [float("nan"), b"\xff"]},
        b"\x1b[31m",
        [math.inf, None, {1: 2.5, None: True}],
        numpy.array([[1.0, math.nan]]),
        numpy.array(["2026-01-01"], dtype="M8[ns]"),
        pyarrow.table({"x": [1, None]}),
    ],
)
def test_whatever_is_in_a_message_is_one_line_without_control_characters(body: Any) -> None:
    message = received(body, properties={"evil": "\x1b[2J\n", "none": None, "raw": b"\x00"}, type="\x07")
    for line in (for_people(message), for_programs(message)):
        assert line.isprintable(), ascii(line)
    shown = json.loads(for_programs(message), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert shown["topic"] == "a/b"
    assert shown["properties"]["evil"] == "\x1b[2J\n"


def test_text_that_is_not_only_ascii_stays_readable() -> None:
    message = received({"name": "Grüße 世界 🐟"})
    assert "Grüße 世界 🐟" in for_people(message)
    assert "Grüße 世界 🐟" in for_programs(message)


def test_colours_are_for_terminals() -> None:
    message = received("x")
    assert "\x1b" not in for_people(message)
    assert for_people(message, colour=True).count("\x1b") == 4


def test_json_has_what_the_message_has_and_nothing_else() -> None:
    message = received({"bid": 10.25}, properties={"region": "EU"}, priority=7, ttl_s=2.0)
    shown = json.loads(for_programs(message))
    expected = {
        "topic": "a/b",
        "body": {"bid": 10.25},
        "properties": {"region": "EU"},
        "priority": 7,
        "ttl_s": 2.0,
    }
    assert shown | expected == shown
    assert "reply_to" not in shown


@pytest.mark.parametrize(
    ("body", "field", "value"), [(b"abc", "body", "abc"), (b"\xff\x00", "body_base64", "/wA=")]
)
def test_bytes_are_text_in_json_where_they_can_be(body: bytes, field: str, value: str) -> None:
    assert json.loads(for_programs(received(body)))[field] == value
