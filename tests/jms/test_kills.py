"""Sections 3.4.9, 3.5.11, 6.2.10, 7.7, 7.9 and 8.3.3: what is left when a store is killed halfway."""

import threading

import pytest
from conftest import PATIENCE_S
from killed_store import KilledStore
from waiting import until

from shoal import jms
from shoal.bus.consumer import Consumer
from shoal.jms.feeds import StoreFeed

QUEUE = jms.Queue("work")


def received_while_killed(store: KilledStore, consumer: jms.JMSConsumer) -> jms.Message | None:
    """What `receive` returns whose acknowledgement the store never hears, because it dies."""
    until_ready(consumer)
    store.suspend()
    found: list[jms.Message | None] = []
    reader = threading.Thread(target=lambda: found.append(consumer.receive(timeout_s=PATIENCE_S)))
    reader.start()
    until_acknowledging(consumer)
    store.kill()
    store.start()
    reader.join(PATIENCE_S)
    assert found
    return found[0]


def until_ready(consumer: jms.JMSConsumer) -> None:
    until(lambda: inner_of(consumer).pending)


def until_acknowledging(consumer: jms.JMSConsumer) -> None:
    until(lambda: not inner_of(consumer).pending)


def inner_of(consumer: jms.JMSConsumer) -> Consumer:
    """The bus's consumer."""
    feed = consumer._consumer._feed
    assert isinstance(feed, StoreFeed)
    return feed._consumer


@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.DUPS_OK_ACKNOWLEDGE])
def test_a_non_persistent_message_that_was_received_while_the_store_died_does_not_come_again(
    store: KilledStore, mode: int
) -> None:
    with store.factory(default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT).create_context(mode) as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = received_while_killed(store, consumer)
        assert first is not None
        context.create_producer().send(QUEUE, "second")
        second = consumer.receive(timeout_s=PATIENCE_S)
        assert second is not None
        assert [first.body, second.body] == ["first", "second"]
        assert consumer.receive(timeout_s=0.2) is None


def test_a_non_persistent_message_whose_acknowledgement_failed_does_not_come_again(
    store: KilledStore,
) -> None:
    factory = store.factory(default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
    with factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        store.suspend()
        failed: list[BaseException] = []

        def acknowledge() -> None:
            try:
                first.acknowledge()
            except jms.JMSError as error:
                failed.append(error)

        thread = threading.Thread(target=acknowledge)
        thread.start()
        until(lambda: not inner_of(consumer)._inbox.holds(first._core))
        store.kill()
        store.start()
        thread.join(PATIENCE_S)
        assert failed, "the store cannot have answered"
        context.create_producer().send(QUEUE, "second")
        second = consumer.receive(timeout_s=PATIENCE_S)
        assert second is not None
        assert second.body == "second"


@pytest.mark.parametrize("when", ["away", "dying"])
@pytest.mark.parametrize("mode", list(jms.AcknowledgeMode))
def test_a_non_persistent_message_whose_consumer_closed_while_the_store_was_away_does_not_come_again(
    store: KilledStore, mode: int, when: str
) -> None:
    factory = store.factory(default_delivery_mode=jms.DeliveryMode.NON_PERSISTENT)
    # The connection outlives its consumer, as that of a program does which consumes now and then.
    with factory.create_connection() as connection:
        connection.start()
        session = connection.create_session(mode)
        consumer = session.create_consumer(QUEUE)
        with factory.create_context() as sender:
            sender.create_producer().send(QUEUE, "first").send(QUEUE, "second")
        inner = consumer._feed._consumer  # type: ignore[attr-defined]
        until(lambda: inner.pending == 2)
        store.suspend()
        first = consumer.receive(timeout_s=0.1)
        assert first is not None
        assert first.body == "first"
        if when == "away":
            store.kill()
            until(lambda: inner._inbox.lease is None)
        session.close()
        store.kill()
        store.start()
        # A consumer of another connection, to which nothing is known of what this program had.
        with factory.create_context() as context:
            second = context.create_consumer(QUEUE).receive(timeout_s=PATIENCE_S)
            assert second is not None
            # No program had it, and so it is not marked.
            assert (second.body, second.jms_redelivered) == ("second", False)


def test_a_persistent_message_whose_consumer_closed_while_the_store_was_away_comes_again_counted(
    store: KilledStore,
) -> None:
    with store.factory().create_connection() as connection:
        connection.start()
        session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
        consumer = session.create_consumer(QUEUE)
        session.create_producer(QUEUE).send(session.create_text_message("x"))
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        store.suspend()
        session.close()
        store.kill()
        store.start()
        with store.factory().create_context() as context:
            again = context.create_consumer(QUEUE).receive(timeout_s=PATIENCE_S)
            assert again is not None
            assert again.jms_redelivered
            assert again.get_int_property("JMSXDeliveryCount") == 2


def test_a_persistent_message_that_was_received_while_the_store_died_comes_again_marked(
    store: KilledStore,
) -> None:
    with store.factory().create_context() as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "first")
        first = received_while_killed(store, consumer)
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        assert again is not None
        assert (first.body, first.jms_redelivered) == ("first", False)
        assert (again.body, again.jms_redelivered) == ("first", True)
        assert again.get_int_property("JMSXDeliveryCount") == 2
        assert consumer.receive(timeout_s=0.2) is None


def test_a_store_that_was_killed_knows_which_subscriptions_are_shared(store: KilledStore) -> None:
    topic = jms.Topic("x")
    with store.factory(client_id="desk").create_context() as context:
        context.create_durable_consumer(topic, "own").close()
        context.create_shared_durable_consumer(topic, "common").close()
        store.kill()
        store.start()
        with pytest.raises(jms.IllegalStateError, match="unshared"):
            context.create_shared_durable_consumer(topic, "own")
        with pytest.raises(jms.IllegalStateError, match="shared"):
            context.create_durable_consumer(topic, "common")
        context.create_durable_consumer(topic, "own")


@pytest.mark.parametrize("mode", [jms.Session.CLIENT_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED])
def test_a_program_gets_a_redelivered_message_when_the_store_has_counted_it(
    store: KilledStore, mode: int
) -> None:
    with store.factory().create_context(mode) as context:
        consumer = given_back(context)
        store.suspend()
        assert consumer.receive(timeout_s=0.2) is None
        assert consumer.receive_no_wait() is None
        store.resume()
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert again is not None
        assert (again.body, again.get_int_property("JMSXDeliveryCount")) == ("x", 2)


def test_a_listener_gets_a_redelivered_message_when_the_store_has_counted_it(store: KilledStore) -> None:
    with store.factory().create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context:
        consumer = given_back(context)
        store.suspend()
        found: list[int] = []
        consumer.message_listener = lambda message: found.append(
            message.get_int_property("JMSXDeliveryCount")
        )
        until(lambda: not inner_of(consumer).pending)
        assert not found
        store.resume()
        until(lambda: found)
        assert found == [2]


def given_back(context: jms.JMSContext) -> jms.JMSConsumer:
    """A consumer that has one message ready, which it gave back before."""
    consumer = context.create_consumer(QUEUE)
    context.create_producer().send(QUEUE, "x")
    if context.transacted:
        context.commit()
    assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "x"
    context.rollback() if context.transacted else context.recover()
    until_ready(consumer)
    return consumer


def test_a_redelivered_message_that_the_store_could_not_count_comes_again_uncounted(
    store: KilledStore,
) -> None:
    with store.factory().create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context:
        consumer = given_back(context)
        store.suspend()
        assert consumer.receive(timeout_s=0.2) is None
        store.kill()
        store.start()
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert again is not None
        assert (again.body, again.get_int_property("JMSXDeliveryCount")) == ("x", 2)


@pytest.mark.parametrize("when", ["waiting", "sent while it was away"])
def test_a_temporary_queue_lives_as_long_as_its_connection_though_its_store_was_killed(
    store: KilledStore, when: str
) -> None:
    """Section 6.2.2."""
    with store.factory().create_context() as owner, store.factory().create_context() as other:
        queue = owner.create_temporary_queue()
        consumer = owner.create_consumer(queue)
        answers = jms.Queue(queue.name)
        if when == "waiting":
            consumer.close()
            other.create_producer().send(answers, "x")
            store.kill()
            store.start()
            consumer = owner.create_consumer(queue)
        else:
            store.kill()
            sending = threading.Thread(target=lambda: other.create_producer().send(answers, "x"))
            sending.start()
            store.start()
            sending.join(PATIENCE_S)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "x"
        other.create_producer().send(answers, "y")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "y"
        owner.close()
        with pytest.raises(jms.InvalidDestinationError):
            other.create_producer().send(answers, "too late")


@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED])
def test_a_living_temporary_topic_is_sent_to_while_its_store_is_away(
    store: KilledStore, mode: jms.AcknowledgeMode
) -> None:
    """Sections 4.2.7 and 6.2.2: the store learns of the message after its restart, the topic lived on."""
    with store.factory().create_context() as owner, store.factory().create_context(mode) as sender:
        topic = owner.create_temporary_topic()
        consumer = owner.create_consumer(topic)

        def send(body: str) -> None:
            sender.create_producer().send(topic, body)
            if sender.transacted:
                sender.commit()

        send("before")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "before"
        store.kill()
        failed: list[BaseException] = []

        def send_while_away() -> None:
            try:
                send("while it was away")
            except BaseException as error:
                failed.append(error)

        sending = threading.Thread(target=send_while_away)
        sending.start()
        store.start()
        sending.join(PATIENCE_S)
        assert not failed
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "while it was away"


def test_requests_are_answered_after_their_store_was_killed(store: KilledStore) -> None:
    """Section 4.2.7: the queue for answers is made once."""
    with store.factory().create_connection() as asking, store.factory().create_context() as answering:
        asking.start()
        requestor = jms.QueueRequestor(asking.create_session(), QUEUE)
        consumer = answering.create_consumer(QUEUE)

        def answer() -> None:
            for _ in range(2):
                request = consumer.receive(timeout_s=PATIENCE_S)
                assert request is not None
                assert request.jms_reply_to is not None
                answering.create_producer().send(request.jms_reply_to, f"answer to {request.body}")

        thread = threading.Thread(target=answer)
        thread.start()
        for number in range(2):
            reply = requestor.request(jms.TextMessage(str(number)))
            assert reply is not None
            assert reply.body == f"answer to {number}"
            if number == 0:
                store.kill()
                store.start()
        thread.join(PATIENCE_S)


OTHER = jms.Queue("other")


@pytest.mark.parametrize("mode", [jms.DeliveryMode.PERSISTENT, jms.DeliveryMode.NON_PERSISTENT])
def test_an_acknowledgement_that_fails_acknowledges_nothing(
    store: KilledStore, mode: jms.DeliveryMode
) -> None:
    """Section 6.2.10: the second message was neither acknowledged nor came again, until a later
    acknowledgement took it along."""
    with (
        store.factory().create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context,
        store.factory().create_context() as sender,
    ):
        work, other = context.create_consumer(QUEUE), context.create_consumer(OTHER)
        sender.create_producer().send(QUEUE, "before")
        assert work.receive_body(str, timeout_s=PATIENCE_S) == "before"
        store.kill()
        store.start()
        sender.create_producer().set_delivery_mode(mode).send(OTHER, "after")
        assert other.receive_body(str, timeout_s=PATIENCE_S) == "after"
        with pytest.raises(jms.JMSError, match="comes again") as raised:
            context.acknowledge()
        assert raised.value.error_code == "LeaseError"
        again = work.receive(timeout_s=PATIENCE_S)
        assert again is not None
        assert (again.body, again.jms_redelivered) == ("before", True)
        if mode == jms.DeliveryMode.PERSISTENT:
            again = other.receive(timeout_s=PATIENCE_S)
            assert again is not None
            assert (again.body, again.jms_redelivered) == ("after", True)
        context.acknowledge()
        for consumer in (work, other):
            assert consumer.receive(timeout_s=0.2) is None


def test_an_acknowledgement_fails_if_it_misses_one_message_of_a_consumer(store: KilledStore) -> None:
    """Section 6.2.10: it succeeded, and the message came again."""
    with (
        store.factory().create_context(jms.Session.CLIENT_ACKNOWLEDGE) as context,
        store.factory().create_context() as sender,
    ):
        consumer = context.create_consumer(QUEUE)
        sender.create_producer().send(QUEUE, "before")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "before"
        store.kill()
        store.start()
        # It comes before the one that comes again.
        sender.create_producer().set_priority(9).send(QUEUE, "urgent")
        bodies = [consumer.receive_body(str, timeout_s=PATIENCE_S)]
        if bodies == ["urgent"]:
            with pytest.raises(jms.JMSError, match="comes again"):
                context.acknowledge()
            bodies = [consumer.receive_body(str, timeout_s=PATIENCE_S)]
        bodies.append(consumer.receive_body(str, timeout_s=PATIENCE_S))
        assert sorted(bodies) == ["before", "urgent"]
        # All came under the same lease; the first also did before.
        context.acknowledge()
        assert consumer.receive(timeout_s=0.2) is None
