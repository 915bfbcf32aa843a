"""Turns Spark's filters into what a store can check: ranges of offsets and times, topics, and a selector.

Spark checks every filter again on the rows it gets. So the question to the store may select more than the
filters do, and must never select less: a filter that cannot be told exactly enough is left to Spark.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, ShortType, StringType

from shoal.errors import ShoalError
from shoal.selector import Selector

#: Header fields that are columns, by the names they have in selectors.
_HEADERS = {"priority": "JMSPriority", "type": "JMSType", "message_id": "JMSMessageID"}

#: Whole numbers from here on are rounded when they become floats, as a column of type DOUBLE makes them.
_EXACT_BELOW = 1 << 53

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_COMPARISONS: dict[type[Filter], str] = {
    EqualTo: "=",
    EqualNullSafe: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


@dataclass(frozen=True)
class Pushed:
    """The question to the store, as far as filters say it.

    Attributes:
        first: the first offset that can match.
        end: the offset after the last that can match; none for no bound.
        from_us: nothing stored before this time matches, in microseconds since 1970; none for no bound.
        to_us: nothing stored at this time or later matches; none for no bound.
        topics: the only topics that can match; none for no bound.
        selectors: conditions, all of which must hold.
    """

    first: int = 0
    end: int | None = None
    from_us: int | None = None
    to_us: int | None = None
    topics: frozenset[str] | None = None
    selectors: tuple[str, ...] = ()

    def with_end(self, end: int) -> "Pushed":
        """The same, and no offset from `end` on."""
        return replace(self, end=end if self.end is None else min(self.end, end))

    def stored_from(self, time_us: int) -> "Pushed":
        """The same, and nothing that was stored before."""
        return replace(self, from_us=time_us if self.from_us is None else max(self.from_us, time_us))

    def stored_before(self, time_us: int) -> "Pushed":
        """The same, and nothing that was stored at this time or later."""
        return replace(self, to_us=time_us if self.to_us is None else min(self.to_us, time_us))

    def with_topics(self, topics: Iterable[str]) -> "Pushed":
        """The same, and no topics but these."""
        chosen = frozenset(topics)
        return replace(self, topics=chosen if self.topics is None else self.topics & chosen)

    def selector(self, given: str | None) -> str | None:
        """The selector to ask for, with that of the options."""
        parts = ([given] if given else []) + list(self.selectors)
        return (
            " AND ".join(f"({part})" for part in parts) if len(parts) > 1 else (parts[0] if parts else None)
        )


def push(filters: Iterable[Filter], properties: Mapping[str, DataType]) -> Pushed:
    """Collect from the filters, all of which must hold, what the store can check."""
    pushed = Pushed()
    for each in filters:
        pushed = _pushed_offsets(each, pushed)
        pushed = _pushed_times(each, pushed)
        pushed = _pushed_topics(each, pushed)
        condition = _published(each) or _condition(each, properties)
        if condition is not None and _is_valid(condition):
            pushed = replace(pushed, selectors=(*pushed.selectors, condition))
    return pushed


def _pushed_offsets(each: Filter, pushed: Pushed) -> Pushed:
    if getattr(each, "attribute", None) != ("offset",) or not isinstance(getattr(each, "value", None), int):
        return pushed
    value: int = each.value  # type: ignore[attr-defined]
    if isinstance(each, EqualTo | EqualNullSafe):
        return replace(pushed.with_end(value + 1), first=max(pushed.first, value))
    if isinstance(each, GreaterThan):
        return replace(pushed, first=max(pushed.first, value + 1))
    if isinstance(each, GreaterThanOrEqual):
        return replace(pushed, first=max(pushed.first, value))
    if isinstance(each, LessThan):
        return pushed.with_end(value)
    if isinstance(each, LessThanOrEqual):
        return pushed.with_end(value + 1)
    return pushed


def _pushed_times(each: Filter, pushed: Pushed) -> Pushed:
    """When messages were stored: times grow with offsets, so that a bound of one is a bound of the other."""
    time_us = _time_us(each, "stored")
    if time_us is None:
        return pushed
    if isinstance(each, EqualTo | EqualNullSafe):
        return pushed.stored_from(time_us).stored_before(time_us + 1)
    if isinstance(each, GreaterThan):
        return pushed.stored_from(time_us + 1)
    if isinstance(each, GreaterThanOrEqual):
        return pushed.stored_from(time_us)
    if isinstance(each, LessThan):
        return pushed.stored_before(time_us)
    if isinstance(each, LessThanOrEqual):
        return pushed.stored_before(time_us + 1)
    return pushed


def _published(each: Filter) -> str | None:
    """When messages were published, in the milliseconds of selectors: a little more than the filter keeps."""
    time_us = _time_us(each, "timestamp")
    operator = _COMPARISONS.get(type(each))
    if time_us is None or operator is None:
        return None
    return f"JMSTimestamp {operator[0]}{'' if operator == '=' else '='} {time_us // 1000}L"


def _time_us(each: Filter, column: str) -> int | None:
    """The time that a filter compares a column with, in microseconds since 1970."""
    value = getattr(each, "value", None)
    if getattr(each, "attribute", None) != (column,) or not isinstance(value, datetime) or not value.tzinfo:
        return None
    time_us = (value - _EPOCH) // timedelta(microseconds=1)
    return time_us if 0 <= time_us < 1 << 62 else None


def _pushed_topics(each: Filter, pushed: Pushed) -> Pushed:
    if getattr(each, "attribute", None) != ("topic",):
        return pushed
    if isinstance(each, EqualTo | EqualNullSafe) and isinstance(each.value, str):
        return pushed.with_topics([each.value])
    if isinstance(each, In):
        return pushed.with_topics(value for value in each.value if isinstance(value, str))
    return pushed


def _condition(each: Filter, properties: Mapping[str, DataType]) -> str | None:
    """A condition that holds for every row that the filter keeps, or none."""
    if isinstance(each, Not):
        # These two say something of what is null, and a selector with NOT never selects that.
        if isinstance(each.child, IsNotNull | EqualNullSafe):
            return None
        inner = _condition(each.child, properties)
        return None if inner is None else f"NOT ({inner})"
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    if len(attribute) != 1:
        return None
    name, kind = _selector_name(attribute[0], properties)
    if name is None:
        return None
    if isinstance(each, IsNotNull):
        return f"{name} IS NOT NULL"
    if isinstance(each, In):
        literals = [_literal(value, kind) for value in each.value if value is not None]
        if not literals or None in literals:
            return None
        return " OR ".join(f"{name} = {literal}" for literal in literals)
    if isinstance(each, StringStartsWith | StringEndsWith | StringContains):
        return f"{name} LIKE {_pattern(each)} ESCAPE '!'" if kind is str else None
    operator = _COMPARISONS.get(type(each))
    literal = _literal(getattr(each, "value", None), kind)
    if operator is None or literal is None or (operator not in "= " and kind in (str, bool)):
        return None
    return f"{name} {operator} {literal}"


def _selector_name(column: str, properties: Mapping[str, DataType]) -> tuple[str | None, type]:
    if column in _HEADERS:
        return _HEADERS[column], int if column == "priority" else str
    declared = properties.get(column)
    if isinstance(declared, StringType):
        return column, str
    if isinstance(declared, LongType | IntegerType | ShortType):
        return column, int
    if isinstance(declared, DoubleType):
        return column, float
    # Narrow floats are rounded on their way, and booleans gain nothing.
    return None, object


def _literal(value: Any, kind: type) -> str | None:
    if kind is str and isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if kind in (int, float) and isinstance(value, int) and not isinstance(value, bool):
        exact = 1 << 63 if kind is int else _EXACT_BELOW
        return f"{value}L" if -exact <= value < exact else None
    if kind is float and isinstance(value, float) and abs(value) < _EXACT_BELOW:
        return repr(value)
    return None


def _pattern(each: StringStartsWith | StringEndsWith | StringContains) -> str:
    text = re.sub(r"([!%_])", r"!\1", each.value).replace("'", "''")
    before = "" if isinstance(each, StringStartsWith) else "%"
    after = "" if isinstance(each, StringEndsWith) else "%"
    return f"'{before}{text}{after}'"


def _is_valid(condition: str) -> bool:
    """Whether the language has a form for it; a property may have any name."""
    try:
        Selector(condition)
    except ShoalError:
        return False
    return True
