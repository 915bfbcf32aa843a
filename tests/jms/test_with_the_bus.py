"""Section 3.11.4: messages of `bus` are received by `jms`, and the other way round."""

import datetime
from typing import Any

import pytest
from conftest import PATIENCE_S, World

from shoal import jms, types

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("text", jms.TextMessage),
        (b"bytes", jms.BytesMessage),
        ({"a": 1, "b": [1, 2]}, jms.MapMessage),
        ([1, "x", None], jms.StreamMessage),
        (None, jms.Message),
        (5, jms.ObjectMessage),
        (True, jms.ObjectMessage),
        (0.5, jms.ObjectMessage),
        (datetime.date(2026, 1, 2), jms.ObjectMessage),
        ({"when": datetime.date(2026, 1, 2)}, jms.ObjectMessage),
    ],
    ids=repr,
)
def test_a_body_of_the_bus_becomes_the_message_that_fits_it(world: World, body: Any, kind: type) -> None:
    consumer = world.receiver().create_consumer(jms.Topic("x"))
    world.wait("x")
    world.sending.publish("x", body, properties={"region": "EU", "byte": types.Byte(5)}, priority=7, type="t")
    message = consumer.receive(timeout_s=PATIENCE_S)
    assert type(message) is kind
    assert message.body == body
    assert message.get_string_property("region") == "EU"
    assert message.get_byte_property("byte") == 5
    assert (message.jms_priority, message.jms_type) == (7, "t")
    assert message.jms_message_id is not None
    assert message.jms_timestamp > 0


def test_an_array_is_an_object(world: World) -> None:
    consumer = world.receiver().create_consumer(jms.Topic("x"))
    world.wait("x")
    world.sending.publish("x", numpy.arange(3))
    message = consumer.receive(timeout_s=PATIENCE_S)
    assert isinstance(message, jms.ObjectMessage)
    assert message.object.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (jms.Message(), None),
        (jms.TextMessage("text"), "text"),
        (jms.TextMessage(None), ""),
        (jms.BytesMessage(b"bytes"), b"bytes"),
        (jms.MapMessage({"a": types.Short(1)}), {"a": 1}),
        (jms.StreamMessage([1, "x"]), [1, "x"]),
        (jms.ObjectMessage("text"), "text"),
        (jms.ObjectMessage([1, {"a": 2}]), [1, {"a": 2}]),
        (jms.ObjectMessage(datetime.date(2026, 1, 2)), datetime.date(2026, 1, 2)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_message_of_jms_is_a_body_of_the_bus(world: World, message: jms.Message, body: Any) -> None:
    with world.receiving.subscribe("x", selector="region = 'EU'") as subscription:
        world.wait("x")
        message.set_string_property("region", "EU")
        message.jms_correlation_id, message.jms_reply_to = "c", jms.Queue("q")
        world.sender().create_producer().set_priority(8).send(jms.Topic("x"), message)
        arrived = subscription.receive(timeout_s=PATIENCE_S)
    assert arrived is not None
    assert arrived.body == body
    assert arrived.properties["region"] == "EU"
    assert (arrived.priority, arrived.correlation_id, arrived.reply_to) == (8, "c", "q")
    assert isinstance(arrived.reply_to, types.QueueName)
    assert arrived.message_id == message.jms_message_id
    assert arrived.connection > 0


def test_a_request_of_the_bus_is_answered_by_jms(world: World) -> None:
    receiver = world.receiver()
    producer = receiver.create_producer()

    def answer(message: jms.Message) -> None:
        assert message.jms_reply_to is not None
        producer.set_jms_correlation_id(message.jms_correlation_id).send(message.jms_reply_to, "42")

    receiver.create_consumer(jms.Topic("questions")).message_listener = answer
    world.wait("questions")
    assert world.sending.request("questions", "?", timeout_s=PATIENCE_S).body == "42"


def test_requestors_ask_and_wait(world: World) -> None:
    receiver = world.receiver()
    producer = receiver.create_producer()
    receiver.create_consumer(jms.Topic("questions")).message_listener = lambda message: producer.send(
        message.jms_reply_to or jms.Topic("nowhere"), f"re {message.body}"
    )
    world.wait("questions")
    with world.factory(world.sending).create_connection() as connection:
        connection.start()
        session = connection.create_session()
        with jms.TopicRequestor(session, jms.Topic("questions")) as requestor:
            for number in range(3):
                answer = requestor.request(jms.TextMessage(str(number)), timeout_s=PATIENCE_S)
                assert answer is not None
                assert answer.body == f"re {number}"
        with pytest.raises(jms.IllegalStateError):
            session.create_message()
        with pytest.raises(ValueError, match="acknowledge by itself"):
            jms.TopicRequestor(connection.create_session(True), jms.Topic("questions"))
        with pytest.raises(jms.InvalidDestinationError):
            jms.QueueRequestor(connection.create_session(), jms.Topic("questions"))  # type: ignore[arg-type]
