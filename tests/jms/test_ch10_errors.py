"""Chapter 10, sections 10.1 to 10.3: errors by their names, with a code and what caused them."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PATIENCE_S
from waiting import until

import shoal
from shoal import errors, jms
from shoal.jms.feeds import StoreFeed

NAMES = [name for name in jms.__all__ if name.endswith("Error")]


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
    assert kind.error_code == kind.__name__


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


class TestAStoreThatIsStartedAgain:
    """What was delivered before comes again, and the error says so."""

    def test_acknowledging_what_came_before_says_what_to_do(self, url: str, tmp_path: Path) -> None:
        with shoal.connect(url) as bus:
            context = jms.ConnectionFactory(bus=bus).create_context(jms.Session.CLIENT_ACKNOWLEDGE)
            with context, contextlib.ExitStack() as stores:
                message, consumer = received_before(context, stores, url, tmp_path)
                with pytest.raises(
                    jms.JMSError, match=r"comes again, marked .*\. Go on with receive"
                ) as raised:
                    message.acknowledge()
                assert raised.value.error_code == "LeaseError"
                again = consumer.receive(timeout_s=PATIENCE_S)
                assert again is not None
                assert again.jms_redelivered
                again.acknowledge()

    def test_a_commit_of_it_is_rolled_back_and_the_next_one_is_done(self, url: str, tmp_path: Path) -> None:
        done = jms.Queue("done")
        with shoal.connect(url) as bus:
            context = jms.ConnectionFactory(bus=bus).create_context(jms.Session.SESSION_TRANSACTED)
            with context, contextlib.ExitStack() as stores:
                _, consumer = received_before(context, stores, url, tmp_path)
                context.create_producer().send(done, "never")
                with pytest.raises(jms.TransactionRolledBackError):
                    context.commit()
                again = consumer.receive(timeout_s=PATIENCE_S)
                assert again is not None
                assert again.jms_redelivered
                context.create_producer().send(done, "once")
                context.commit()
                assert context.create_consumer(done).receive_body(str, timeout_s=PATIENCE_S) == "once"


def received_before(
    context: jms.JMSContext, stores: contextlib.ExitStack, url: str, directory: Path
) -> tuple[jms.Message, jms.JMSConsumer]:
    """A message that a store delivered, and its consumer, which has begun at the next one."""
    with shoal.connect(url, store=directory):
        context.create_producer().send(jms.Queue("orders"), "order")
        if context.transacted:
            context.commit()
        consumer = context.create_consumer(jms.Queue("orders"))
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
    feed = consumer._consumer._feed
    assert isinstance(feed, StoreFeed)
    lease = feed._consumer._inbox.lease
    stores.enter_context(shoal.connect(url, store=directory))
    until(lambda: feed._consumer._inbox.lease not in (None, lease))
    return message, consumer
