"""A reader's question: which rows, which columns. Parsed from JSON, every mistake named by its field."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from shoal.errors import InvalidSelectorError
from shoal.history.faults import bad_query
from shoal.history.schema import COLUMN_TYPES, DEFAULT_COLUMNS, PROPERTY_TYPES
from shoal.selector import Selector

VERSION = 1
QUERY_BYTES_MAX = 1 << 20
PATTERNS_MAX = 1024
PROPERTIES_MAX = 256
OFFSET_MAX = 2**63 - 1
#: Runs of offsets that a query may ask for alone, and how many offsets they may be together.
RUNS_MAX = 16_384
ONLY_MAX = 1_000_000

Start = int | Literal["earliest", "latest"]

_FIELDS = {
    "v",
    "topics",
    "selector",
    "columns",
    "properties",
    "from",
    "to",
    "from_time_us",
    "to_time_us",
    "limit",
    "incarnation",
    "only",
}


@dataclass(frozen=True, kw_only=True)
class Query:
    """One question. `start` is the first offset, `end` the one after the last; no topics means every one.

    With `only`, runs of offsets with both ends included, nothing else is meant.
    """

    topics: tuple[str, ...] = ()
    selector: str | None = None
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    properties: Mapping[str, str] = field(default_factory=dict)
    start: Start = "earliest"
    end: int | None = None
    from_time_us: int | None = None
    to_time_us: int | None = None
    limit: int | None = None
    incarnation: str | None = None
    only: tuple[tuple[int, int], ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The question as it travels."""
        return {
            "v": VERSION,
            "topics": list(self.topics),
            "selector": self.selector,
            "columns": list(self.columns),
            "properties": dict(self.properties),
            "from": self.start,
            "to": self.end,
            "from_time_us": self.from_time_us,
            "to_time_us": self.to_time_us,
            "limit": self.limit,
            "incarnation": self.incarnation,
            "only": None if self.only is None else [at for run in self.only for at in run],
        }

    @classmethod
    def from_json(cls, given: object) -> "Query":
        """The question that a client asked; `HistoryError` if there is a mistake in it."""
        asked = versioned(given, "the query")
        if asked.get("only") is not None and (
            asked.get("limit") is not None or "offset" not in _columns(asked.get("columns"))
        ):
            raise bad_query("a query with only has the column offset, and no limit", field="only")
        unknown = sorted(set(asked) - _FIELDS)
        if unknown:
            known = ", ".join(sorted(_FIELDS))
            raise bad_query(f"a query has no field {unknown[0]!r}; it has {known}", field=unknown[0])
        return cls(
            topics=_topics(asked.get("topics")),
            selector=_selector(asked.get("selector")),
            columns=_columns(asked.get("columns")),
            properties=_properties(asked.get("properties"), asked.get("columns")),
            start=_start(asked.get("from")),
            end=whole(asked, "to", most=OFFSET_MAX),
            from_time_us=whole(asked, "from_time_us", most=OFFSET_MAX),
            to_time_us=whole(asked, "to_time_us", most=OFFSET_MAX),
            limit=whole(asked, "limit", most=OFFSET_MAX),
            incarnation=text(asked, "incarnation"),
            only=_only(asked.get("only")),
        )


def load(data: bytes, what: str) -> object:
    """What JSON a ticket, a descriptor or an action's body holds."""
    if len(data) > QUERY_BYTES_MAX:
        raise bad_query(f"{what} has {len(data)} bytes; at most {QUERY_BYTES_MAX} are read")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise bad_query(f"{what} is not JSON: {error}") from None


def versioned(given: object, what: str) -> dict[str, Any]:
    """A JSON object of this version."""
    if not isinstance(given, dict):
        raise bad_query(f"{what} is {_shown(given)}, and must be a JSON object")
    version = given.get("v")
    if version != VERSION or isinstance(version, bool):
        raise bad_query(f'{what} has "v": {_shown(version)}; this server reads version {VERSION}', field="v")
    return given


def whole(asked: Mapping[str, Any], name: str, *, most: int, default: int | None = None) -> int | None:
    """A whole number from 0 on, or its default."""
    value = asked.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise bad_query(f"{name} is {_shown(value)}, and must be a whole number from 0 to {most}", field=name)
    return value


def number(asked: Mapping[str, Any], name: str, *, most: float, default: float) -> float:
    """A number from 0 on, or its default; beyond the most is the most."""
    value = asked.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise bad_query(f"{name} is {_shown(value)}, and must be a number from 0 on", field=name)
    return min(float(value), most)


def text(asked: Mapping[str, Any], name: str) -> str | None:
    """A text that is not empty, or none."""
    value = asked.get(name)
    if value is not None and not (isinstance(value, str) and value):
        raise bad_query(
            f"{name} is {_shown(value)}, and must be a text that is not empty, or null", field=name
        )
    return value


def texts(asked: Mapping[str, Any], name: str, *, most: int) -> list[str]:
    """A list of texts; absent is empty."""
    value = asked.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise bad_query(f"{name} is {_shown(value)}, and must be a list of texts", field=name)
    if len(value) > most:
        raise bad_query(f"{name} has {len(value)} entries; at most {most} are read", field=name)
    return value


def _shown(value: object) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _topics(value: object) -> tuple[str, ...]:
    return tuple(texts({"topics": value}, "topics", most=PATTERNS_MAX))


def _selector(value: object) -> str | None:
    selector = text({"selector": value or None}, "selector")
    if selector is not None:
        try:
            Selector(selector)
        except InvalidSelectorError as error:
            raise bad_query(f"selector: {error}", field="selector", position=error.position) from None
    return selector


def _columns(value: object) -> tuple[str, ...]:
    if value is None:
        return DEFAULT_COLUMNS
    columns = texts({"columns": value}, "columns", most=len(COLUMN_TYPES))
    for name in columns:
        if name not in COLUMN_TYPES:
            known = ", ".join(COLUMN_TYPES)
            raise bad_query(f"there is no column {name!r}; there are {known}", field="columns", column=name)
        if columns.count(name) > 1:
            raise bad_query(f"the column {name!r} is asked for twice", field="columns", column=name)
    return tuple(columns)


def _properties(value: object, columns: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > PROPERTIES_MAX:
        wanted = f"an object of at most {PROPERTIES_MAX} names and their types"
        raise bad_query(f"properties is {_shown(value)}, and must be {wanted}", field="properties")
    taken = set(_columns(columns))
    for name, kind in value.items():
        if not isinstance(kind, str) or kind not in PROPERTY_TYPES:
            known = ", ".join(PROPERTY_TYPES)
            raise bad_query(
                f"the property {name!r} is asked for as {_shown(kind)}; types are {known}", field="properties"
            )
        if name in taken:
            raise bad_query(
                f"the property {name!r} would be a second column of that name", field="properties"
            )
    return value


def _only(value: object) -> tuple[tuple[int, int], ...] | None:
    if value is None:
        return None
    wanted = f"first, last, first, last, …, ascending, at most {RUNS_MAX} runs of {ONLY_MAX} offsets together"
    wrong = bad_query(f"only is {_shown(value)}, and must be a list: {wanted}", field="only")
    if not isinstance(value, list) or len(value) % 2 or len(value) > 2 * RUNS_MAX:
        raise wrong
    before, count = -1, 0
    for place, at in enumerate(value):
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= OFFSET_MAX:
            raise wrong
        if at <= before - place % 2:
            raise wrong
        count += at - before + 1 if place % 2 else 0
        before = at
    if count > ONLY_MAX:
        raise wrong
    return tuple(zip(value[::2], value[1::2], strict=True))


def _start(value: object) -> Start:
    if value is None or value == "earliest":
        return "earliest"
    if value == "latest":
        return "latest"
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= OFFSET_MAX:
        wanted = 'an offset from 0 on, "earliest" or "latest"'
        raise bad_query(f"from is {_shown(value)}, and must be {wanted}", field="from")
    return value
