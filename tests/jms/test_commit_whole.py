"""Section 6.2.7: a commit publishes its non-persistent messages all or none, and its session goes on."""

from typing import Any

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S, World

import shoal
from shoal import jms
from shoal.errors import FullError, LinkError
from shoal.jms import sending

X, FULL = jms.Topic("x"), jms.Queue("full")
TRANSACTED = jms.Session.SESSION_TRANSACTED


def texts(consumer: jms.JMSConsumer, count: int) -> list[str | None]:
    return [consumer.receive_body(str, timeout_s=PATIENCE_S) for _ in range(count)]


def test_members_without_room_are_waited_for_and_get_all_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish, refusals = sending.Sender._publish_held, iter([0, 0, 1, 1, 1, 0, 1])

    def sometimes(self: Any, outgoing: Any, given: Any) -> None:
        if next(refusals, 0):
            raise FullError("the members have no room")
        publish(self, outgoing, given)

    monkeypatch.setattr(sending.Sender, "_publish_held", sometimes)
    consumer = world.receiver().create_consumer(X)
    sender = world.sender(TRANSACTED)
    world.wait("x")
    producer = sender.create_producer()
    for number in range(6):
        producer.send(X, str(number))
    sender.commit()
    assert texts(consumer, 6) == ["0", "1", "2", "3", "4", "5"]
    assert next(refusals, None) is None, "some were refused"


def test_an_error_midway_keeps_no_other_message_back_and_the_session_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = sending.Sender._publish_held

    def but_one(self: Any, outgoing: Any, given: Any) -> None:
        if outgoing.body == "broken":
            raise LinkError("the link broke")
        publish(self, outgoing, given)

    monkeypatch.setattr(sending.Sender, "_publish_held", but_one)
    consumer = world.receiver().create_consumer(X)
    sender = world.sender(TRANSACTED)
    world.wait("x")
    producer = sender.create_producer()
    for text in ("1", "broken", "2"):
        producer.send(X, text)
    with pytest.raises(shoal.ShoalError, match="the link broke"):
        sender.commit()
    producer.send(X, "next")
    sender.commit()
    assert texts(consumer, 3) == ["1", "2", "next"]


def test_what_a_commit_cannot_publish_is_refused_when_it_is_sent(world: World) -> None:
    consumer = world.receiver().create_consumer(X)
    sender = world.sender(TRANSACTED)
    world.wait("x")
    producer = sender.create_producer()
    producer.send(X, "first")
    with pytest.raises(jms.JMSError):
        producer.send(X, "x" * (world.sending.config.message_bytes_max + 1))
    producer.send(X, "second")
    sender.commit()
    assert texts(consumer, 2) == ["first", "second"]


def test_a_commit_that_the_store_refuses_publishes_none_and_the_next_one_publishes_all(
    bus: shoal.Bus,
) -> None:
    bus.queue("full").declare(backlog_max_bytes=1000)
    factory = jms.ConnectionFactory(bus=bus)
    with factory.create_context(TRANSACTED) as context, factory.create_context() as reader:
        consumer = reader.create_consumer(X)
        volatile = context.create_producer().set_delivery_mode(NON_PERSISTENT)
        volatile.send(X, "rolled back")
        context.create_producer().send(FULL, "x" * 2000)
        with pytest.raises(jms.TransactionRolledBackError):
            context.commit()
        for number in range(3):
            volatile.send(X, str(number))
        context.create_producer().send(FULL, "fits")
        context.commit()
        assert texts(consumer, 3) == ["0", "1", "2"]
        assert [message.body for message in context.create_browser(FULL)] == ["fits"]
