"""Bodies of every kind arrive as they were published, and what cannot be a body is refused by name."""

import array
import enum
import math
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

import duckdb
import numpy
import pandas
import polars
import pyarrow
import pytest

import shoal


def round_trip(bus: shoal.Bus, body: Any) -> Any:
    with bus.subscribe("body") as subscription:
        bus.publish("body", body)
        message = subscription.receive(5)
        assert message is not None
        return message.body


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"abc",
        bytes(range(256)) * 100,
        "",
        "text",
        "Grüße, 世界 🐟",
        "with\0zero",
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        0.0,
        -1.5,
        1e308,
        math.inf,
        [],
        [1, "two", b"three", None, True, 4.5],
        {},
        {"bid": 10.25, "sizes": [1, 2, 3], "nested": {"deep": {"deeper": [{}, []]}}, "raw": b"\0\xff"},
        {"": "an empty key", 1: "a number", -2.5: "another", b"\0": "bytes", None: "nothing"},
        [[[[[[1]]]]]],
    ],
)
def test_plain_bodies_arrive_as_they_were(bus: shoal.Bus, body: Any) -> None:
    arrived = round_trip(bus, body)
    assert arrived == body
    assert type(arrived) is type(body)


def test_not_a_number_stays_one(bus: shoal.Bus) -> None:
    assert math.isnan(round_trip(bus, math.nan))
    assert math.isnan(round_trip(bus, [math.nan])[0])


def test_a_tuple_arrives_as_a_list(bus: shoal.Bus) -> None:
    assert round_trip(bus, (1, (2, 3))) == [1, [2, 3]]


@pytest.mark.parametrize("body", [OrderedDict(a=1), MappingProxyType({"a": 1})])
def test_any_mapping_arrives_as_a_dict(bus: shoal.Bus, body: Any) -> None:
    assert round_trip(bus, body) == {"a": 1}


def test_an_enumeration_member_arrives_as_its_number(bus: shoal.Bus) -> None:
    class Side(enum.IntEnum):
        BUY = 1

    assert round_trip(bus, [Side.BUY]) == [1]


@pytest.mark.parametrize("body", [bytearray(b"abc"), memoryview(b"abc"), array.array("B", b"abc")])
def test_what_is_like_bytes_arrives_as_bytes(bus: shoal.Bus, body: Any) -> None:
    arrived = round_trip(bus, body)
    assert arrived == b"abc"
    assert type(arrived) is bytes


@pytest.mark.parametrize("make", [lambda: bytearray(b"abc"), lambda: memoryview(bytearray(b"abc"))])
def test_changing_a_body_after_publishing_changes_no_message(bus: shoal.Bus, make: Any) -> None:
    body = make()
    with bus.subscribe("body") as subscription:
        bus.publish("body", body)
        body[0] = ord("x")
        message = subscription.receive(5)
    assert message is not None
    assert message.body == b"abc"


def test_changing_a_received_mapping_changes_no_other_message(bus: shoal.Bus) -> None:
    with bus.subscribe("body") as one, bus.subscribe("body") as two:
        bus.publish("body", {"list": [1]})
        first, second = one.receive(5), two.receive(5)
    assert first is not None
    assert second is not None
    first.body["list"].append(2)
    assert second.body == {"list": [1]}


def test_large_bytes_come_back_whole_inside_the_process(bus: shoal.Bus) -> None:
    body = bytes(range(256)) * 4096
    assert round_trip(bus, body) == body


def test_a_body_is_decoded_anew_but_the_same_every_time(bus: shoal.Bus) -> None:
    with bus.subscribe("body") as subscription:
        bus.publish("body", {"a": [1]})
        message = subscription.receive(5)
    assert message is not None
    assert message.body == message.body == {"a": [1]}


# --- numpy ---


@pytest.mark.parametrize(
    "dtype",
    ["?", "i1", "u1", "<i4", ">i4", "<u8", "<f2", "<f4", ">f8", "<c16", "<M8[ns]", "<m8[s]", "S3", "<U3"],
)
def test_arrays_keep_their_type(bus: shoal.Bus, dtype: str) -> None:
    sent = numpy.zeros(6, dtype="u1").astype(dtype).reshape(2, 3)
    arrived = round_trip(bus, sent)
    assert arrived.dtype == sent.dtype
    assert arrived.shape == (2, 3)
    numpy.testing.assert_array_equal(arrived, sent)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (2, 3, 4), (1, 1)])
def test_arrays_keep_their_shape_and_order(bus: shoal.Bus, order: Any, shape: tuple[int, ...]) -> None:
    sent = numpy.arange(math.prod(shape), dtype="f8").reshape(shape)
    sent = numpy.asarray(sent, order=order)
    arrived = round_trip(bus, sent)
    assert arrived.shape == shape
    assert arrived.flags.f_contiguous == sent.flags.f_contiguous
    assert arrived.flags.c_contiguous == sent.flags.c_contiguous
    numpy.testing.assert_array_equal(arrived, sent)


def test_a_slice_of_an_array_arrives_whole(bus: shoal.Bus) -> None:
    sent = numpy.arange(60).reshape(3, 4, 5)[::2, ::-1, 1:3]
    numpy.testing.assert_array_equal(round_trip(bus, sent), sent)


def test_an_array_that_arrived_cannot_be_written_to(bus: shoal.Bus) -> None:
    arrived = round_trip(bus, numpy.arange(3))
    with pytest.raises(ValueError, match="read-only"):
        arrived[0] = 1


@pytest.mark.parametrize(
    ("scalar", "plain"),
    [
        (numpy.float64(1.5), 1.5),
        (numpy.float32(1.5), 1.5),
        (numpy.int64(-3), -3),
        (numpy.uint8(5), 5),
        (numpy.bool_(True), True),
        (numpy.str_("x"), "x"),
    ],
)
def test_a_numpy_scalar_is_the_number_it_stands_for(bus: shoal.Bus, scalar: Any, plain: Any) -> None:
    arrived = round_trip(bus, scalar)
    assert arrived == plain
    assert round_trip(bus, [scalar]) == [plain]
    assert round_trip(bus, {"value": scalar}) == {"value": plain}


@pytest.mark.parametrize(
    "sent",
    [numpy.array([object()]), numpy.zeros(2, dtype=[("a", "i4"), ("b", "f8")])],
    ids=["objects", "records"],
)
def test_an_array_of_anything_but_numbers_is_refused_with_its_type(bus: shoal.Bus, sent: Any) -> None:
    with pytest.raises(TypeError, match=r"an array of .* cannot be a body"):
        bus.publish("body", sent)


@pytest.mark.parametrize("unit", ["D", "ns"])
def test_a_single_time_of_numpy_is_refused_because_it_would_lose_its_unit(bus: shoal.Bus, unit: Any) -> None:
    for time in (numpy.datetime64(5, unit), numpy.timedelta64(5, unit)):
        for body in (time, [time], {"at": time}):
            with pytest.raises(TypeError, match=type(time).__name__):
                bus.publish("body", body)


def test_a_masked_array_is_refused_because_its_mask_would_be_lost(bus: shoal.Bus) -> None:
    with pytest.raises(TypeError, match="mask"):
        bus.publish("body", numpy.ma.masked_array([1, 2], mask=[True, False]))


# --- Arrow ---


def test_tables_and_batches_arrive_as_tables(bus: shoal.Bus) -> None:
    table = pyarrow.table({"symbol": ["A", None, "C"], "bid": [1.0, 2.0, None], "sizes": [[1], [], None]})
    assert round_trip(bus, table).equals(table)
    batch = table.to_batches()[0]
    assert round_trip(bus, batch).equals(pyarrow.Table.from_batches([batch]))


def test_a_table_without_rows_or_with_many_pieces_arrives(bus: shoal.Bus) -> None:
    empty = pyarrow.schema([("x", pyarrow.int32())]).empty_table()
    assert round_trip(bus, empty).equals(empty)
    pieces = pyarrow.concat_tables([pyarrow.table({"x": [1, 2]}), pyarrow.table({"x": [3]})])
    assert round_trip(bus, pieces).equals(pieces)


# --- refusals ---


def test_frames_of_pandas_polars_and_duckdb_arrive_as_tables(bus: shoal.Bus) -> None:
    frame = pandas.DataFrame({"symbol": ["A", "B"], "bid": [1.5, 2.5]}, index=[7, 9])
    assert round_trip(bus, frame).to_pandas().equals(frame)
    table = pyarrow.table({"x": [1, 2]})
    assert round_trip(bus, polars.from_arrow(table)).equals(table)
    assert round_trip(bus, duckdb.sql("SELECT 1::BIGINT AS x UNION ALL SELECT 2 ORDER BY x")).equals(table)


def test_what_is_no_table_is_refused_with_the_reason(bus: shoal.Bus) -> None:
    with pytest.raises(
        TypeError, match=r"a body of type DataFrame is no table for Arrow: .*Could not convert"
    ):
        bus.publish("a", pandas.DataFrame({"x": [1, "two"]}))
    with pytest.raises(TypeError, match="a body of type ChunkedArray is no table for Arrow"):
        bus.publish("a", pyarrow.chunked_array([[1]]))


@pytest.mark.parametrize(
    ("body", "error", "names"),
    [
        (object(), TypeError, ["object", "bytes, str"]),
        ({1, 2}, TypeError, ["set"]),
        (1j, TypeError, ["complex"]),
        (2**64, ValueError, ["18446744073709551616", "64 bits"]),
        (-(2**63) - 1, ValueError, ["64 bits"]),
        ([object()], TypeError, ["object"]),
        ({"a": {("x",): 1}}, TypeError, ["tuple"]),
        ("\ud800", ValueError, []),
    ],
)
def test_what_cannot_be_a_body_is_refused_by_name(
    bus: shoal.Bus, body: Any, error: type[Exception], names: list[str]
) -> None:
    with bus.subscribe("body") as subscription:
        with pytest.raises(error) as refusal:
            bus.publish("body", body)
        for name in names:
            assert name in str(refusal.value)
        assert subscription.receive(0) is None


def test_bodies_nest_to_a_bound_and_not_for_ever(bus: shoal.Bus) -> None:
    def nested(depth: int) -> list[Any]:
        value: list[Any] = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert round_trip(bus, nested(64)) == nested(64)
    with pytest.raises(ValueError, match="64"):
        bus.publish("body", nested(65))
    endless: list[Any] = []
    endless.append(endless)
    with bus.subscribe("body"), pytest.raises(ValueError, match="64"):
        bus.publish("body", endless)
