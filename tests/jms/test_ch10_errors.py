"""Chapter 10, sections 10.1 to 10.3: errors by their names, with a code and what caused them."""

from collections.abc import Callable

import pytest

from shoal import errors, jms

#: One that is Java's own, and no JMS error there either.
NAMES = [name for name in jms.__all__ if name.endswith("Error") and name != "NumberFormatError"]


@pytest.mark.parametrize("name", NAMES)
def test_every_error_is_a_jms_error_of_the_one_tree(name: str) -> None:
    kind = getattr(jms, name)
    assert issubclass(kind, jms.JMSError)
    assert issubclass(kind, errors.ShoalError)
    assert getattr(errors, name) is kind


def test_what_the_bus_raises_is_the_cause_and_its_name_the_code(url: str) -> None:
    factory = jms.ConnectionFactory(url, default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
    with factory.create_context() as context:
        with pytest.raises(jms.InvalidDestinationError) as raised:
            context.create_consumer(jms.Topic("a//b"))
        assert isinstance(raised.value.__cause__, errors.InvalidTopicError)
        assert raised.value.error_code == "InvalidTopicError"


def test_an_error_says_what_happened_to_what(url: str) -> None:
    with jms.ConnectionFactory(url).create_context() as context:
        with pytest.raises(jms.InvalidSelectorError, match="a ="):
            context.create_consumer(jms.Topic("x"), "a = ")
        with pytest.raises(jms.IllegalStateError, match="transacted"):
            context.commit()
        with pytest.raises(jms.MessageFormatError, match="must be a shoal"):
            context._session.create_producer(jms.Topic("x")).send("text")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "java",
    [
        "JMSException",
        "IllegalStateException",
        "JMSSecurityException",
        "InvalidClientIDException",
        "InvalidDestinationException",
        "InvalidSelectorException",
        "MessageEOFException",
        "MessageFormatException",
        "MessageNotReadableException",
        "MessageNotWriteableException",
        "ResourceAllocationException",
        "TransactionInProgressException",
        "TransactionRolledBackException",
    ],
)
def test_every_standard_exception_has_its_error(java: str) -> None:
    """Section 10.3."""
    kind = getattr(jms, java.replace("Exception", "Error"))
    assert issubclass(kind, jms.JMSError)
    assert kind.error_code is None


def _read(message: jms.StreamMessage) -> jms.StreamMessage:
    message.reset()
    return message


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (jms.MessageFormatError, lambda: jms.StreamMessage().write_object(object())),
        (jms.MessageFormatError, lambda: jms.MapMessage().set_object("x", object())),
        # What a type checker refuses, too.
        (jms.MessageFormatError, lambda: jms.Message().set_object_property("x", object())),  # type: ignore[arg-type]
        (jms.MessageFormatError, lambda: _read(jms.StreamMessage([True])).read_short()),
        (jms.NumberFormatError, lambda: _read(jms.StreamMessage(["x"])).read_short()),
        (jms.MessageEOFError, lambda: _read(jms.StreamMessage()).read_short()),
        (jms.MessageNotReadableError, lambda: jms.StreamMessage([1]).read_long()),
        (jms.MessageNotWriteableError, lambda: _read(jms.StreamMessage()).write_long(1)),
    ],
)
def test_messages_raise_what_the_specification_names(kind: type, call: Callable[[], object]) -> None:
    """Section 10.3."""
    with pytest.raises(kind):
        call()
