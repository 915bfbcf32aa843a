"""The conversion tables of Jakarta Messaging, 3.5.4 and 3.11.3, for any value."""

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal import jms
from shoal.errors import MessageFormatError, NumberFormatError
from shoal.jms import values
from shoal.types import Byte, Char, Float, Int, Long, Short

KINDS = ["boolean", "byte", "short", "char", "int", "long", "float", "double", "String", "byte[]"]

#: The specification's table: a row may be read as the columns marked with an X.
TABLE = """
          boolean byte short char int long float double String byte[]
boolean      X     .     .    .    .    .    .      .      X      .
byte         .     X     X    .    X    X    .      .      X      .
short        .     .     X    .    X    X    .      .      X      .
char         .     .     .    X    .    .    .      .      X      .
int          .     .     .    .    X    X    .      .      X      .
long         .     .     .    .    .    X    .      .      X      .
float        .     .     .    .    .    .    X      X      X      .
double       .     .     .    .    .    .    .      X      X      .
String       X     X     X    .    X    X    X      X      X      .
byte[]       .     .     .    .    .    .    .      .      .      X
"""


def table() -> dict[tuple[str, str], bool]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return {(row[0], column): mark == "X" for row in rows for column, mark in zip(head, row[1:], strict=True)}


ALLOWED = table()
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "byte": st.integers(-(2**7), 2**7 - 1).map(Byte),
    "short": st.integers(-(2**15), 2**15 - 1).map(Short),
    "char": st.characters(max_codepoint=0xFFFF).map(Char),
    "int": st.integers(-(2**31), 2**31 - 1).map(Int),
    "long": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1).map(Long)),
    "float": st.floats(width=32, allow_nan=False).map(Float),
    "double": st.floats(allow_nan=False),
    "String": st.text(),
    "byte[]": st.binary(),
}
TYPED = st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind]))


@settings(deadline=None)
@given(TYPED, st.sampled_from(KINDS))
def test_a_value_can_be_read_as_what_the_table_says_and_as_nothing_else(
    typed: tuple[str, Any], wanted: str
) -> None:
    kind, value = typed
    if not ALLOWED[kind, wanted]:
        with pytest.raises(MessageFormatError):
            values.converted(value, wanted, "x")
    elif kind == "String" and wanted not in ("String", "boolean"):
        try:
            values.converted(value, wanted, "x")
        except NumberFormatError:
            return
    else:
        found = values.converted(value, wanted, "x")
        if kind == "String" and wanted == "boolean":
            assert found == (value.lower() == "true")
        elif wanted == "String":
            assert isinstance(found, str)
        else:
            assert found == value


@settings(deadline=None)
@given(st.sampled_from(["byte", "short", "int", "long"]), st.integers(-(2**70), 2**70))
def test_a_text_is_read_as_a_whole_number_within_its_range(kind: str, number: int) -> None:
    bits = {"byte": 8, "short": 16, "int": 32, "long": 64}[kind]
    text = str(number)
    if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        assert values.converted(text, kind, "x") == number
        assert values.converted("+" + text.lstrip("-"), kind, "x") == abs(number) if number > 0 else True
    else:
        with pytest.raises(NumberFormatError):
            values.converted(text, kind, "x")


@pytest.mark.parametrize("text", ["", " 5", "5 ", "1_000", "0x10", "1.0", "five", "+", "--5", "5L"])
def test_a_text_that_java_takes_for_no_whole_number_is_refused(text: str) -> None:
    for kind in ("byte", "short", "int", "long"):
        with pytest.raises(NumberFormatError, match="is no"):
            values.converted(text, kind, "x")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1.0),
        (" 1.5 ", 1.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.5f", 1.5),
        ("1.5D", 1.5),
        ("0x1.8p1", 3.0),
        ("-0x10p-4", -1.0),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ("1e400", math.inf),
        ("1e-400", 0.0),
    ],
)
def test_a_text_is_read_as_java_reads_a_number(text: str, number: float) -> None:
    assert values.converted(text, "double", "x") == number
    assert values.converted(text, "float", "x") == number


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "1e", "nan", "inf", "infinity", "0x1.8", "1_0", "1.5L", "0x"]
)
def test_a_text_that_java_takes_for_no_number_is_refused(text: str) -> None:
    for kind in ("float", "double"):
        with pytest.raises(NumberFormatError):
            values.converted(text, kind, "x")


def test_a_float_is_rounded_once() -> None:
    # By way of a double it would be rounded up twice.
    text = "1.00000017881393421514957253748434595763683319091796875001"
    assert values.converted(text, "float", "x") == struct.unpack(">f", bytes.fromhex("3f800001"))[0]


@settings(deadline=None)
@given(st.one_of(st.booleans(), st.text()))
def test_true_is_true_in_any_case_and_all_else_is_false(value: bool | str) -> None:
    assert values.converted(value, "boolean", "x") == (str(value).lower() == "true")


@settings(deadline=None)
@given(st.floats())
def test_a_double_is_written_so_that_it_is_read_again(number: float) -> None:
    text = values.text_of(number)
    again = values.converted(text, "double", "x")
    assert again == number or (math.isnan(again) and math.isnan(number))
    assert "e" not in text
    assert "inf" not in text


@settings(deadline=None)
@given(st.floats(width=32))
def test_so_is_a_float_with_as_few_digits_as_that_takes(number: float) -> None:
    text = values.text_of(Float(number))
    again = values.converted(text, "float", "x")
    assert again == number or (math.isnan(again) and math.isnan(number))
    assert len(text) <= 16


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1.0, "1.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (1.5e300, "1.5E300"),
        (-0.0, "-0.0"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (100.0, "100.0"),
        (123456.789, "123456.789"),
        (True, "true"),
        (Byte(-5), "-5"),
        (Float(0.1), "0.1"),
        (Float(3.4028234663852886e38), "3.4028235E38"),
    ],
)
def test_a_number_is_written_as_java_writes_it(number: Any, text: str) -> None:
    assert values.text_of(number) == text


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.one_of(st.none(), st.integers(), st.text(), st.floats(), st.binary(), st.booleans()),
)
def test_what_is_kept_as_a_type_is_of_that_type(kind: str, value: Any) -> None:
    try:
        kept = values.accepted(kind, value)
    except MessageFormatError:
        return
    assert kept is None or values.kind_of(kept) == kind


@settings(deadline=None)
@given(TYPED)
def test_map_and_stream_bodies_give_back_what_was_written(typed: tuple[str, Any]) -> None:
    _, value = typed
    stream, mapping = jms.StreamMessage([value]), jms.MapMessage({"x": value})
    stream.reset()
    assert stream.read_object() == mapping.get_object("x") == value


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["short", "int", "long", "utf"]), st.integers(-(2**15), 2**15 - 1)),
        max_size=20,
    )
)
def test_bytes_are_read_as_they_were_written(writes: list[tuple[str, int]]) -> None:
    message = jms.BytesMessage()
    for kind, number in writes:
        getattr(message, f"write_{kind}")(str(number) if kind == "utf" else number)
    message.reset()
    for kind, number in writes:
        assert getattr(message, f"read_{kind}")() == (str(number) if kind == "utf" else number)
    assert message.read_bytes() is None


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())))
def test_javas_utf_brings_any_text_back(text: str) -> None:
    message = jms.BytesMessage()
    message.write_utf(text)
    message.reset()
    assert message.read_utf() == text
