from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import DoubleType, FloatType, LongType, StringType

from shoal.selector import Selector
from shoal.spark.filters import Pushed, push

PROPERTIES = {
    "region": StringType(),
    "size": LongType(),
    "px": DoubleType(),
    "f": FloatType(),
    "and": LongType(),
}
NAN = float("nan")
TIME = datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)


@pytest.mark.parametrize(
    ("given", "selector"),
    [
        (EqualTo(("region",), "EU"), "region = 'EU'"),
        (EqualTo(("region",), "it's"), "region = 'it''s'"),
        (Not(EqualTo(("region",), "EU")), "NOT (region = 'EU')"),
        (GreaterThan(("size",), 3), "size > 3L"),
        (LessThanOrEqual(("px",), 1e-7), "px <= 1e-07"),
        (GreaterThanOrEqual(("px",), 3), "px >= 3L"),
        (In(("region",), ("EU", "US")), "region = 'EU' OR region = 'US'"),
        (In(("size",), (1, None, 2)), "size = 1L OR size = 2L"),
        (IsNotNull(("region",)), "region IS NOT NULL"),
        (StringStartsWith(("region",), "E_%!"), "region LIKE 'E!_!%!!%' ESCAPE '!'"),
        (StringEndsWith(("region",), "U"), "region LIKE '%U' ESCAPE '!'"),
        (StringContains(("region",), "U"), "region LIKE '%U%' ESCAPE '!'"),
        (EqualTo(("priority",), 7), "JMSPriority = 7L"),
        (EqualTo(("type",), "quote"), "JMSType = 'quote'"),
        # A selector knows milliseconds: it may select a little more.
        (EqualTo(("timestamp",), TIME), "JMSTimestamp = 1767225600123L"),
        (GreaterThan(("timestamp",), TIME), "JMSTimestamp >= 1767225600123L"),
        (LessThan(("timestamp",), TIME), "JMSTimestamp <= 1767225600123L"),
    ],
)
def test_filters_on_properties_and_headers_become_selectors(given, selector):
    (condition,) = push([given], PROPERTIES).selectors
    assert condition == selector
    Selector(condition)


@pytest.mark.parametrize(
    "given",
    [
        EqualTo(("f",), 0.1),  # rounded on its way: the store would compare with more digits
        IsNull(("region",)),  # a value of another type is null to Spark, and there to the store
        Not(IsNotNull(("region",))),
        EqualTo(("and",), 1),  # a word of the selector language
        EqualTo(("px",), NAN),
        EqualTo(("size",), "3"),
        EqualTo(("properties", "region"), "EU"),
        GreaterThan(("region",), "EU"),
        EqualTo(("size",), 1 << 70),
        EqualTo(("body",), b"x"),
        In(("region",), (None,)),
        Not(EqualNullSafe(("region",), "EU")),  # holds for null, and no NOT of a selector does
        EqualTo(("px",), float(1 << 53)),  # large numbers are rounded when they become DOUBLE
        GreaterThan(("px",), 1 << 53),
        Not(EqualTo(("timestamp",), TIME)),  # more than the filter keeps would become less
        Not(GreaterThan(("stored",), TIME)),
        GreaterThan(("stored",), TIME.replace(tzinfo=None)),
        GreaterThan(("stored",), TIME.replace(year=1969)),
    ],
)
def test_what_the_store_cannot_check_exactly_enough_is_left_to_spark(given):
    assert push([given], PROPERTIES) == Pushed()


def test_filters_on_offsets_become_a_range():
    pushed = push(
        [GreaterThan(("offset",), 9), LessThan(("offset",), 20), LessThanOrEqual(("offset",), 15)], {}
    )
    assert (pushed.first, pushed.end) == (10, 16)
    pushed = push([EqualNullSafe(("offset",), 5)], {})
    assert (pushed.first, pushed.end) == (5, 6)


def test_filters_on_the_time_of_storing_become_a_range():
    time_us = 1767225600123456
    for given, expected in (
        (EqualTo(("stored",), TIME), (time_us, time_us + 1)),
        (GreaterThan(("stored",), TIME), (time_us + 1, None)),
        (GreaterThanOrEqual(("stored",), TIME), (time_us, None)),
        (LessThan(("stored",), TIME), (None, time_us)),
        (LessThanOrEqual(("stored",), TIME), (None, time_us + 1)),
    ):
        pushed = push([given], {})
        assert (pushed.from_us, pushed.to_us) == expected
        assert pushed.selectors == ()
    both = push([GreaterThan(("stored",), TIME), GreaterThan(("stored",), TIME - timedelta(seconds=1))], {})
    assert both.from_us == time_us + 1


def test_filters_on_topics_are_intersected():
    pushed = push([In(("topic",), ("a", "b")), EqualTo(("topic",), "b")], {})
    assert pushed.topics == {"b"}


def test_the_selector_of_the_options_holds_as_well():
    pushed = push([EqualTo(("region",), "EU"), GreaterThan(("size",), 3)], PROPERTIES)
    assert pushed.selector("a = 1 OR b = 2") == "(a = 1 OR b = 2) AND (region = 'EU') AND (size > 3L)"
    assert Pushed().selector("a = 1") == "a = 1"
    assert Pushed().selector(None) is None
