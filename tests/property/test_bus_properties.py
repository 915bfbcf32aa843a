"""Whatever is published arrives, and only where it was asked for: topics and bodies of any shape."""

import contextlib
import itertools
import math
from typing import Any

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as numpy_st

import shoal
from shoal.errors import InvalidTopicError

_numbers = itertools.count(1)

level = st.text(
    st.characters(exclude_characters="/*>=,+#", exclude_categories=("Cc", "Cs")), min_size=1, max_size=5
)
topic_levels = st.lists(level, min_size=1, max_size=6)
pattern_levels = st.lists(st.sampled_from("ab*"), min_size=1, max_size=4)
few_levels = st.lists(st.sampled_from("ab"), min_size=1, max_size=5)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=("Cs",)))
    | st.binary()
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=5)
    ),
    max_leaves=30,
)
arrays = numpy_st.arrays(
    dtype=numpy_st.scalar_dtypes(),
    shape=numpy_st.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


@pytest.fixture(scope="module")
def bus() -> Any:
    with shoal.connect(f"inproc://property-{next(_numbers)}") as bus:
        yield bus


def round_trip(bus: shoal.Bus, body: Any, **options: Any) -> shoal.Message:
    with bus.subscribe("body") as subscription:
        bus.publish("body", body, **options)
        message = subscription.receive(5)
        assert message is not None
        return message


@settings(deadline=None)
@given(body=values)
def test_any_value_arrives_as_it_was(bus: shoal.Bus, body: Any) -> None:
    arrived = round_trip(bus, body).body
    assert arrived == body
    assert type(arrived) is type(body)


@settings(deadline=None)
@given(array=arrays)
def test_any_array_arrives_as_it_was(bus: shoal.Bus, array: Any) -> None:
    if array.dtype.itemsize == 0:
        return
    arrived = round_trip(bus, array).body
    assert (arrived.dtype, arrived.shape) == (array.dtype, array.shape)
    assert arrived.tobytes() == array.tobytes()


def is_no_keyword(name: str) -> bool:
    """Whether a selector may have it as a name."""
    with contextlib.suppress(shoal.InvalidSelectorError):
        return shoal.Selector(f"{name} IS NULL").names == (name,)
    return False


@settings(deadline=None)
@given(
    properties=st.dictionaries(
        st.from_regex(r"[a-z_$ä][A-Za-z0-9_$ßд]{0,19}", fullmatch=True).filter(is_no_keyword),
        scalars,
        max_size=10,
    ),
    priority=st.integers(0, 9),
    correlation=st.none() | st.text(st.characters(codec="utf-8"), max_size=30),
    ttl_s=st.none() | st.floats(10, 1e6),
)
def test_any_fields_arrive_as_they_were(
    bus: shoal.Bus,
    properties: dict[str, Any],
    priority: int,
    correlation: str | None,
    ttl_s: float | None,
) -> None:
    message = round_trip(
        bus, b"", properties=properties, priority=priority, correlation_id=correlation, ttl_s=ttl_s
    )
    assert message.properties == properties
    assert (message.priority, message.correlation_id) == (priority, correlation)
    if ttl_s is None:
        assert message.ttl_s is None
    else:
        assert message.ttl_s is not None
        assert math.isclose(message.ttl_s, ttl_s, abs_tol=1e-6)


@settings(deadline=None)
@given(levels=topic_levels)
def test_any_topic_that_is_valid_is_delivered_under_its_own_name(bus: shoal.Bus, levels: list[str]) -> None:
    topic = "/".join(levels)
    if len(topic.encode()) > 255:
        return
    with bus.subscribe(topic) as exact, bus.subscribe(">") as everything:
        bus.publish(topic, b"")
        for subscription in (exact, everything):
            message = subscription.receive(5)
            assert message is not None
            assert message.topic == topic


@settings(deadline=None)
@given(text=st.text(max_size=20))
def test_any_text_is_a_topic_or_refused(bus: shoal.Bus, text: str) -> None:
    refused = contextlib.suppress(InvalidTopicError, UnicodeEncodeError)
    with refused, bus.subscribe(text):
        pass
    with refused:
        bus.publish(text, b"")


def matches(pattern: list[str], rest: bool, topic: list[str]) -> bool:
    """What a pattern means, said as plainly as possible."""
    fits = len(topic) > len(pattern) if rest else len(topic) == len(pattern)
    if not fits:
        return False
    return all(wanted in ("*", level) for wanted, level in zip(pattern, topic, strict=False))


@settings(deadline=None, max_examples=300)
@given(
    patterns=st.lists(st.tuples(pattern_levels, st.booleans()), min_size=1, max_size=4),
    topics=st.lists(few_levels, min_size=1, max_size=5),
    tags=st.booleans(),
)
def test_a_subscription_gets_exactly_what_its_pattern_means(
    bus: shoal.Bus, patterns: list[tuple[list[str], bool]], topics: list[list[str]], tags: bool
) -> None:
    subscriptions = [bus.subscribe("/".join([*levels, ">"] if rest else levels)) for levels, rest in patterns]
    try:
        for levels in topics:
            as_tags = tags and len(levels) % 2 == 0
            pairs = [f"{tag}={value}" for tag, value in zip(levels[::2], levels[1::2], strict=False)]
            bus.publish(",".join(pairs) if as_tags else "/".join(levels), levels)
        for (levels, rest), subscription in zip(patterns, subscriptions, strict=True):
            wanted = [topic for topic in topics if matches(levels, rest, topic)]
            assert [message.body for message in subscription.receive_nowait()] == wanted
    finally:
        for subscription in subscriptions:
            subscription.close()


@settings(deadline=None, max_examples=30)
@given(size=st.integers(0, 3_000_000), fill=st.integers(0, 255))
def test_bytes_of_any_length_arrive(bus: shoal.Bus, size: int, fill: int) -> None:
    body = bytes([fill]) * size
    assert round_trip(bus, body).body == body
    array = numpy.frombuffer(body, dtype="u1")
    assert round_trip(bus, array).body.tobytes() == body
