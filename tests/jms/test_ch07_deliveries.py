"""Sections 3.5.11 and 7.7: the delivery count counts hand-overs to the program, exactly."""

from collections import Counter

import pytest
from conftest import PATIENCE_S

import shoal
from shoal import jms

QUEUE, DEAD = jms.Queue("work"), jms.Queue("dead-letters")
TRANSACTED, CLIENT = jms.Session.SESSION_TRANSACTED, jms.Session.CLIENT_ACKNOWLEDGE
#: Deliveries after which a queue puts a message aside, if it says nothing else.
DELIVERIES_MAX = 10
pytestmark = pytest.mark.every_link


def fill(factory: jms.ConnectionFactory, count: int) -> None:
    with factory.create_context(TRANSACTED) as context:
        producer = context.create_producer()
        for number in range(count):
            producer.send(QUEUE, str(number))
        context.commit()


def count_of(message: jms.Message) -> int:
    return message.get_int_property("JMSXDeliveryCount")


def left_of(factory: jms.ConnectionFactory, count: int) -> dict[str, int]:
    """What is in the queue: bodies, and which delivery each is."""
    with factory.create_context(CLIENT) as context:
        consumer = context.create_consumer(QUEUE)
        found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
        assert consumer.receive(timeout_s=0.2) is None
        for message in found:
            assert message is not None
            assert message.jms_redelivered == (count_of(message) > 1)
        result = {str(message.body): count_of(message) for message in found if message is not None}
        found[-1].acknowledge()
        return result


def give_back(context: jms.JMSContext) -> None:
    context.rollback() if context.transacted else context.recover()


@pytest.mark.parametrize("mode", [TRANSACTED, CLIENT])
@pytest.mark.parametrize("ends", ["rollback, close", "close, rollback", "close"])
def test_only_messages_that_a_program_received_are_counted(
    factory: jms.ConnectionFactory, mode: int, ends: str
) -> None:
    fill(factory, 21)
    handed: Counter[str] = Counter()
    for turn in range(DELIVERIES_MAX - 1):
        with factory.create_context(mode) as context:
            consumer = context.create_consumer(QUEUE)
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert count_of(message) == turn + 1
            handed[str(message.body)] += 1
            if ends == "close, rollback":
                consumer.close()
            if ends != "close":
                give_back(context)
    assert handed == {"0": DELIVERIES_MAX - 1}
    expected = {str(number): 1 for number in range(21)} | {"0": DELIVERIES_MAX}
    assert left_of(factory, 21) == expected


def test_a_loop_of_receive_rollback_and_close_puts_aside_only_what_it_received(
    factory: jms.ConnectionFactory,
) -> None:
    fill(factory, 21)
    for _ in range(DELIVERIES_MAX):
        with factory.create_context(TRANSACTED) as context:
            message = context.create_consumer(QUEUE).receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert message.body == "0"
            context.rollback()
    assert left_of(factory, 20) == {str(number): 1 for number in range(1, 21)}
    with factory.create_context() as context:
        dead = context.create_consumer(DEAD)
        assert dead.receive_body(str, timeout_s=PATIENCE_S) == "0"
        assert dead.receive(timeout_s=0.2) is None


@pytest.mark.parametrize("kind", ["durable", "shared"])
def test_a_subscription_counts_as_a_queue_does(bus: shoal.Bus, kind: str, topic_name: str) -> None:
    topic = jms.Topic(topic_name)
    factory = jms.ConnectionFactory(bus=bus, client_id="desk")

    def subscribe(context: jms.JMSContext) -> jms.JMSConsumer:
        if kind == "durable":
            return context.create_durable_consumer(topic, "all")
        return context.create_shared_durable_consumer(topic, "all")

    with factory.create_context() as context:
        subscribe(context)
        producer = context.create_producer()
        for number in range(10):
            producer.send(topic, str(number))
    for turn in range(3):
        with factory.create_context(TRANSACTED) as context:
            message = subscribe(context).receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert (message.body, count_of(message)) == ("0", turn + 1)
            context.rollback()
    with factory.create_context(CLIENT) as context:
        consumer = subscribe(context)
        found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(10)]
        counts = [count_of(message) for message in found if message is not None]
    assert counts == [4] + [1] * 9
