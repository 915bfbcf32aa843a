"""Questions are parsed, and every mistake is named by its field."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.errors import HistoryError
from shoal.history import faults, query
from shoal.history.query import Query
from shoal.history.schema import DEFAULT_COLUMNS


def test_a_query_without_anything_asks_for_everything() -> None:
    assert Query.from_json({"v": 1}) == Query()
    assert Query().columns == DEFAULT_COLUMNS
    assert Query().start == "earliest"


QUERIES = st.builds(
    Query,
    topics=st.lists(st.sampled_from(["a/*", "b/>", "c"]), max_size=3).map(tuple),
    selector=st.none() | st.just("region = 'EU' AND size > 10"),
    columns=st.sampled_from([("offset",), ("body", "topic"), DEFAULT_COLUMNS]),
    properties=st.dictionaries(st.sampled_from(["region", "size"]), st.sampled_from(["string", "int64"])),
    start=st.sampled_from(["earliest", "latest"]) | st.integers(0, 2**63 - 1),
    end=st.none() | st.integers(0, 2**63 - 1),
    from_time_us=st.none() | st.integers(0, 2**60),
    to_time_us=st.none() | st.integers(0, 2**60),
    limit=st.none() | st.integers(0, 2**40),
    incarnation=st.none() | st.just("0" * 32),
)


@settings(deadline=None)
@given(asked=QUERIES)
def test_a_query_travels_as_json(asked: Query) -> None:
    assert Query.from_json(json.loads(json.dumps(asked.to_json()))) == asked


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ([], "the query is [], and must be a JSON object"),
        ({}, 'the query has "v": null; this server reads version 1'),
        ({"v": 2}, 'the query has "v": 2; this server reads version 1'),
        ({"v": True}, 'the query has "v": true; this server reads version 1'),
        ({"v": 1, "topic": "a"}, "a query has no field 'topic'; it has columns, from,"),
        ({"v": 1, "topics": "a"}, 'topics is "a", and must be a list of texts'),
        ({"v": 1, "topics": [1]}, "topics is [1], and must be a list of texts"),
        ({"v": 1, "topics": ["a"] * 1025}, "topics has 1025 entries; at most 1024 are read"),
        ({"v": 1, "selector": 7}, "selector is 7, and must be a text that is not empty, or null"),
        ({"v": 1, "selector": "region ="}, "selector: at position 8: found the end"),
        ({"v": 1, "columns": ["colour"]}, "there is no column 'colour'; there are offset, topic"),
        ({"v": 1, "columns": ["offset", "offset"]}, "the column 'offset' is asked for twice"),
        (
            {"v": 1, "properties": {"size": "int"}},
            "the property 'size' is asked for as \"int\"; types are string",
        ),
        ({"v": 1, "properties": {"size": []}}, "the property 'size' is asked for as []; types are string"),
        ({"v": 1, "properties": {"topic": "string"}}, "the property 'topic' would be a second column"),
        ({"v": 1, "properties": []}, "properties is [], and must be an object of at most 256"),
        ({"v": 1, "from": -1}, 'from is -1, and must be an offset from 0 on, "earliest" or "latest"'),
        ({"v": 1, "from": "first"}, 'from is "first", and must be an offset from 0 on'),
        ({"v": 1, "from": True}, "from is true, and must be an offset"),
        ({"v": 1, "to": 1.5}, "to is 1.5, and must be a whole number from 0"),
        ({"v": 1, "to": 2**63}, "to is 9223372036854775808, and must be a whole number"),
        ({"v": 1, "limit": "all"}, 'limit is "all", and must be a whole number from 0'),
        ({"v": 1, "incarnation": ""}, 'incarnation is "", and must be a text that is not empty'),
    ],
)
def test_a_mistake_is_named(given: Any, sentence: str) -> None:
    with pytest.raises(HistoryError) as caught:
        Query.from_json(given)
    assert caught.value.code == faults.BAD_QUERY
    assert sentence in str(caught.value)


def refused(call: Callable[[], object]) -> str | None:
    """The code of the refusal, if it is one."""
    try:
        call()
    except HistoryError as error:
        return error.code
    return None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    "v",
    "topics",
    "selector",
    "columns",
    "properties",
    "from",
    "to",
    "limit",
    "incarnation",
    "to_time_us",
]


@settings(deadline=None)
@given(given=JSON | st.dictionaries(st.sampled_from(FIELDS), JSON | st.just(1)))
def test_any_json_is_a_query_or_a_bad_one(given: Any) -> None:
    assert refused(lambda: Query.from_json(given).to_json()) in (None, faults.BAD_QUERY)


@settings(deadline=None)
@given(data=st.binary(max_size=20) | st.just(b"[" * 100_000) | st.just(b" " * (query.QUERY_BYTES_MAX + 1)))
def test_any_bytes_are_json_or_a_bad_query(data: bytes) -> None:
    assert refused(lambda: query.load(data, "the ticket")) in (None, faults.BAD_QUERY)


@settings(deadline=None)
@given(
    code=st.sampled_from([faults.BAD_QUERY, faults.TRIMMED, faults.NO_STAGING]),
    sentence=st.text("ab {}", max_size=20),
    detail=st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=2),
    around=st.sampled_from(["", "Flight error: ", 'IOError: "{x}" ']),
)
def test_an_error_is_found_in_what_a_transport_makes_of_it(
    code: str, sentence: str, detail: dict[str, Any], around: str
) -> None:
    sent = faults.to_text(HistoryError(code, sentence, detail))
    found = faults.from_text(f"{around}{sent}. gRPC client debug context: UNKNOWN:Error {{}}")
    assert found is not None
    assert (found.code, found.sentence, found.detail) == (code, sentence.strip(), detail)


def test_a_foreign_error_is_left_alone() -> None:
    for text in ("connection refused", "SHOAL-HISTORY-", "SHOAL-HISTORY-FULL", "SHOAL-HISTORY-FULL {x"):
        assert faults.from_text(text) is None
