"""Section 10.1: whatever a call refuses, it raises a JMSError with a code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from shoal import jms

NON_PERSISTENT = jms.DeliveryMode.NON_PERSISTENT
X = jms.Topic("x")


#: No encoding has it.
NO_TEXT = "\ud800"


class Silent:
    """A completion listener that hears nothing."""


@pytest.fixture
def context(url: str) -> Iterator[jms.JMSContext]:
    with jms.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT).create_context() as context:
        yield context


def producer(context: jms.JMSContext) -> jms.MessageProducer:
    return context._session.create_producer(X)


def setting(name: str, value: object) -> Callable[[Any], None]:
    def call(thing: Any) -> None:
        setattr(thing, name, value)

    return call


@pytest.mark.parametrize(
    "call",
    [
        setting("priority", 10),
        setting("priority", "high"),
        setting("delivery_mode", 7),
        setting("delivery_mode", None),
        setting("delivery_delay_s", -1),
        setting("delivery_delay_s", "soon"),
        setting("time_to_live_s", float("nan")),
        setting("disable_message_id", 1),
        lambda each: each.send(jms.Message(), priority=-1),
        lambda each: each.send(jms.Message(), delivery_mode=0),
        lambda each: each.send(jms.Message(), time_to_live_s=-1),
        lambda each: each.send(None),
        lambda each: each.send(jms.Message(), completion_listener=5),
        lambda each: each.send(jms.Message(), completion_listener=Silent()),
    ],
)
def test_a_producer_refuses_with_an_error_of_jms(
    context: jms.JMSContext, call: Callable[[Any], object]
) -> None:
    with pytest.raises(jms.JMSError) as raised:
        call(producer(context))
    assert raised.value.error_code


@pytest.mark.parametrize(
    "call",
    [
        lambda each: each.create_consumer(5),
        lambda each: each.create_consumer(X, 5),
        lambda each: each.create_consumer(X, None, "yes"),
        lambda each: each.create_consumer(X, correlation=5),
        lambda each: each.create_consumer(X).receive(timeout_s=-1),
        lambda each: each.create_consumer(X).receive(timeout_s="long"),
        lambda each: each.create_shared_consumer(X, ""),
        lambda each: each.create_durable_consumer(X, "name"),
        lambda each: each.create_context(9),
        lambda each: each.create_producer().set_async(5),
        lambda each: each.create_producer().set_priority(11),
        lambda each: each.create_producer().send(X, object()),
        lambda each: each.create_producer().send("x", "text"),
        lambda each: each.create_topic(5),
        lambda each: each.create_queue(""),
        lambda each: each.create_browser(X),
        lambda each: each.unsubscribe(5),
        lambda each: each.unsubscribe(NO_TEXT),
        lambda each: each.create_shared_consumer(X, NO_TEXT),
        setting("auto_start", "yes"),
        setting("exception_listener", 5),
    ],
)
def test_a_context_refuses_with_an_error_of_jms(
    context: jms.JMSContext, call: Callable[[Any], object]
) -> None:
    with pytest.raises(jms.JMSError) as raised:
        call(context)
    assert raised.value.error_code


@pytest.mark.parametrize(
    "call",
    [
        lambda: jms.Message().set_int_property("x", 2**40),
        lambda: jms.Message().set_int_property("", 1),
        lambda: jms.Message().set_string_property("JMSXGroupID", 5),  # type: ignore[arg-type]
        lambda: jms.Message().get_int_property("x"),
        lambda: jms.Message().get_float_property("x"),
        lambda: jms.TextMessage("x").get_body(5),  # type: ignore[type-var]
        lambda: jms.TextMessage("x").get_body(int),
        lambda: jms.BytesMessage(b"x").read_bytes(-1),
        lambda: jms.BytesMessage().write_bytes(b"x", 5, 7),
        lambda: jms.BytesMessage().write_bytes(b"x", "1"),  # type: ignore[arg-type]
        lambda: jms.StreamMessage().write_bytes(b"x", 0, "1"),  # type: ignore[arg-type]
        lambda: jms.MapMessage().set_bytes("x", b"x", 0.5),  # type: ignore[arg-type]
        lambda: jms.BytesMessage().write_bytes(None),  # type: ignore[arg-type]
        lambda: jms.MapMessage().set_int("", 1),
        lambda: setattr(jms.Message(), "jms_priority", 12),
        lambda: setattr(jms.Message(), "jms_delivery_mode", 12),
        lambda: setattr(jms.Message(), "jms_correlation_id", 12),
        lambda: setattr(jms.Message(), "jms_timestamp", "now"),
        lambda: jms.ConnectionFactory("nowhere://x"),
        lambda: jms.ConnectionFactory("inproc://x", prefetch=0),
        lambda: jms.lookup("nothing", Path("/nowhere/jms.toml")),
    ],
)
def test_messages_and_factories_refuse_with_an_error_of_jms(call: Callable[[], object]) -> None:
    with pytest.raises(jms.JMSError) as raised:
        call()
    assert raised.value.error_code


def test_a_correlation_id_that_is_no_text_has_no_bytes() -> None:
    message = jms.Message()
    message.jms_correlation_id = NO_TEXT
    with pytest.raises(jms.MessageFormatError, match="no text"):
        _ = message.jms_correlation_id_as_bytes


def test_get_body_of_bytes_reads_from_the_beginning() -> None:
    message = jms.BytesMessage(b"four")
    message.reset()
    assert message.read_bytes(2) == b"fo"
    assert message.get_body(bytes) == b"four"
    assert message.read_bytes() == b"four"


def test_a_long_is_read_back_as_one_type() -> None:
    message = jms.Message()
    for _ in range(2):
        message.set_long_property("number", 5)
        assert type(message.get_object_property("number")) is int
