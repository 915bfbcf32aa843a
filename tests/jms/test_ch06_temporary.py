"""Sections 4.2.7 and 6.2.2: temporary destinations live as long as their connection, which alone consumes."""

import asyncio

import pytest
from conftest import PATIENCE_S, World
from waiting import until

import shoal
from shoal import jms
from shoal.jms import aio


@pytest.mark.every_link
def test_messages_reach_a_temporary_topic_from_another_program(world: World) -> None:
    receiver, sender = world.receiver(), world.sender()
    topic = receiver.create_temporary_topic()
    consumer = receiver.create_consumer(topic)
    for name in (topic, jms.Topic(topic.name)):
        sender.create_producer().send(name, "answer")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "answer"


@pytest.mark.every_link
def test_a_persistent_message_reaches_a_temporary_topic_whenever_it_was_made(
    factory: jms.ConnectionFactory,
) -> None:
    with factory.create_context() as before, factory.create_context() as sender:
        early = before.create_temporary_topic()
        # From here on there is a way to the store.
        sender.create_producer().send(jms.Queue("first"), "x")
        late = before.create_temporary_topic()
        for topic in (early, late):
            consumer = before.create_consumer(topic)
            sender.create_producer().send(topic, "kept")
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "kept"


@pytest.mark.every_link
@pytest.mark.parametrize("mode", list(jms.DeliveryMode), ids=lambda mode: mode.name)
def test_a_transaction_reaches_a_temporary_topic_with_its_commit(
    factory: jms.ConnectionFactory, mode: jms.DeliveryMode
) -> None:
    with factory.create_context() as owner, factory.create_context(jms.Session.SESSION_TRANSACTED) as sender:
        topic = owner.create_temporary_topic()
        consumer = owner.create_consumer(topic)
        producer = sender.create_producer().set_delivery_mode(mode)
        producer.send(topic, "never")
        sender.rollback()
        for body in ("first", "second"):
            producer.send(topic, body)
            assert consumer.receive(timeout_s=0.1) is None
            sender.commit()
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == body


@pytest.mark.every_link
def test_a_topic_that_ended_is_refused_as_a_queue_is(world: World) -> None:
    receiver, sender = world.receiver(), world.sender()
    deleted, closed = receiver.create_temporary_topic(), receiver.create_temporary_topic()
    names = [jms.Topic(deleted.name), jms.Topic(closed.name)]
    producer = sender.create_producer()
    for name in names:
        producer.send(name, "while it lives")
    deleted.delete()
    receiver.close()
    for name in names:
        until_refused(producer, name)


def until_refused(producer: jms.JMSProducer, topic: jms.Topic) -> None:
    """Others hear of an end a moment later."""

    def is_refused() -> bool:
        try:
            producer.send(topic, "too late")
        except jms.InvalidDestinationError:
            return True
        return False

    until(is_refused)


def test_a_temporary_queue_that_ended_is_refused(factory: jms.ConnectionFactory) -> None:
    with factory.create_context() as sender:
        with factory.create_context() as owner:
            queue = owner.create_temporary_queue()
            sender.create_producer().send(jms.Queue(queue.name), "while it lives")
        with pytest.raises(jms.InvalidDestinationError):
            sender.create_producer().send(jms.Queue(queue.name), "too late")


def test_only_their_connection_consumes_also_by_name(factory: jms.ConnectionFactory) -> None:
    with factory.create_context() as owner, factory.create_context() as other:
        topic, queue = owner.create_temporary_topic(), owner.create_temporary_queue()
        owner.create_consumer(jms.Topic(topic.name)).close()
        owner.create_consumer(jms.Queue(queue.name)).close()
        for destination in (
            topic,
            queue,
            jms.Topic(topic.name),
            jms.Queue(queue.name),
            jms.Topic("_temporary/>"),
            jms.Topic("_temporary/*/*"),
        ):
            with pytest.raises(jms.InvalidDestinationError, match="another connection"):
                other.create_consumer(destination)
        with pytest.raises(jms.InvalidDestinationError, match="named subscription"):
            other.create_shared_consumer(jms.Topic(topic.name), "team")


def test_with_asyncio_too(bus: shoal.Bus) -> None:
    async def main() -> None:
        factory = aio.ConnectionFactory(bus=bus, default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
        async with await factory.create_context() as owner, await factory.create_context() as sender:
            topic = owner.create_temporary_topic()
            consumer = await owner.create_consumer(topic)
            await sender.create_producer().send(jms.Topic(topic.name), "answer")
            assert await consumer.receive_body(str, timeout_s=PATIENCE_S) == "answer"
            await consumer.close()
            await owner._session.delete(topic)
            with pytest.raises(jms.InvalidDestinationError, match="gone"):
                await sender.create_producer().send(jms.Topic(topic.name), "too late")

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_one_that_is_made_while_its_connection_closes_does_not_outlive_it(
    factory: jms.ConnectionFactory, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with factory.create_connection() as keeps_the_node, factory.create_connection() as connection:
        session, node = connection.create_session(), connection._node
        whole = {"queue": (node.bus, "temporary_queue"), "topic": (node, "own_topic")}
        where, name = whole[kind]
        make, made = getattr(where, name), []

        def make_late(*arguments: str) -> object:
            result = make(*arguments)
            made.append(arguments[0] if arguments else str(result.name))
            connection.close()
            return result

        monkeypatch.setattr(where, name, make_late)
        create = {"queue": session.create_temporary_queue, "topic": session.create_temporary_topic}
        with pytest.raises(jms.IllegalStateError, match="closed"):
            create[kind]()
        assert len(made) == 1
        destination = {"queue": jms.Queue, "topic": jms.Topic}[kind](made[0])
        with pytest.raises(jms.InvalidDestinationError):
            keeps_the_node.create_session().create_producer(destination).send(jms.TextMessage("late"))
