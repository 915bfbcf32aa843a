"""Sections 4.1 and 8.3: queues, durable and shared subscriptions and transactions, which a store serves."""

from itertools import chain

import pytest
from conftest import PATIENCE_S
from waiting import gathered, until

import shoal
from shoal import jms

X, ORDERS = jms.Topic("x"), jms.Queue("orders")
CLIENT, TRANSACTED = jms.Session.CLIENT_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED


def bodies(consumer: jms.JMSConsumer, count: int) -> list[object]:
    found = [consumer.receive(PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


class TestQueues:
    """Sections 4.1.2 and 8.2."""

    @pytest.mark.every_link
    def test_a_message_waits_for_a_receiver_and_goes_to_one(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context, factory.create_context() as other:
            sent = context.create_text_message("order")
            context.create_producer().send(ORDERS, sent)
            consumers = [context.create_consumer(ORDERS), other.create_consumer(ORDERS)]
            (message,) = chain(*gathered(consumers, 1))
            assert message.body == "order"
            assert message.jms_destination == ORDERS
            assert message.jms_delivery_mode is jms.DeliveryMode.PERSISTENT
            assert message.jms_message_id == sent.jms_message_id
            assert message.jms_timestamp == sent.jms_timestamp

    @pytest.mark.every_link
    def test_what_is_not_acknowledged_comes_again_marked_after_recover(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(CLIENT) as context:
            context.create_producer().send(ORDERS, "1").send(ORDERS, "2")
            consumer = context.create_consumer(ORDERS)
            assert bodies(consumer, 2) == ["1", "2"]
            context.recover()
            again = [consumer.receive(PATIENCE_S) for _ in range(2)]
            assert [(each.body, each.jms_redelivered) for each in again if each] == [("1", True), ("2", True)]
            assert [each.get_int_property("JMSXDeliveryCount") for each in again if each] == [2, 2]
            context.acknowledge()
            context.recover()
            assert consumer.receive(0.2) is None

    def test_what_a_closed_session_did_not_acknowledge_goes_to_the_next(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(CLIENT) as context:
            context.create_producer().send(ORDERS, "1")
            assert bodies(context.create_consumer(ORDERS), 1) == ["1"]
        with factory.create_context() as context:
            message = context.create_consumer(ORDERS).receive(PATIENCE_S)
            assert message is not None
            assert message.jms_redelivered

    def test_a_selector_leaves_the_others_in_the_queue(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context:
            producer = context.create_producer()
            producer.set_property("region", "US").send(ORDERS, "us")
            producer.set_property("region", "EU").send(ORDERS, "eu")
            with context.create_consumer(ORDERS, "region = 'EU'") as consumer:
                assert bodies(consumer, 1) == ["eu"]
            assert bodies(context.create_consumer(ORDERS), 1) == ["us"]

    def test_a_browser_looks_and_takes_nothing(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context:
            for number in range(3):
                context.create_producer().send(ORDERS, str(number))
            with context.create_browser(ORDERS) as browser:
                assert [message.body for message in browser] == ["0", "1", "2"]
                assert [message.body for message in browser.enumeration] == ["0", "1", "2"]
            assert bodies(context.create_consumer(ORDERS), 3) == ["0", "1", "2"]

    def test_a_listener_is_given_a_queues_messages(self, factory: jms.ConnectionFactory) -> None:
        heard: list[object] = []
        with factory.create_context() as context, factory.create_context() as sender:
            context.create_consumer(ORDERS).message_listener = lambda message: heard.append(message.body)
            for number in range(5):
                sender.create_producer().send(ORDERS, number)
            until(lambda: heard == list(range(5)))

    def test_a_temporary_queue_is_its_connections_own(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context, factory.create_context() as other:
            queue = context.create_temporary_queue()
            consumer = context.create_consumer(queue)
            with pytest.raises(jms.InvalidDestinationError):
                other.create_consumer(queue)
            other.create_producer().send(queue, "answer")
            assert bodies(consumer, 1) == ["answer"]
            consumer.close()
            queue.delete()
            with pytest.raises(jms.InvalidDestinationError, match="deleted"):
                context.create_producer().send(queue, "x")


class TestDurable:
    """Sections 8.3.3 and 8.3.4."""

    @pytest.mark.every_link
    def test_what_is_sent_while_nobody_is_there_is_delivered_later(self, bus: shoal.Bus) -> None:
        factory = jms.ConnectionFactory(bus=bus, client_id="desk")
        with factory.create_context() as context:
            context.create_durable_consumer(X, "audit").close()
            context.create_producer().send(X, "missed")
        with factory.create_context() as context:
            assert bodies(context.create_durable_consumer(X, "audit"), 1) == ["missed"]

    def test_it_needs_a_client_id_and_has_one_consumer(self, bus: shoal.Bus) -> None:
        context = jms.ConnectionFactory(bus=bus).create_context()
        with context, pytest.raises(jms.IllegalStateError, match="client id"):
            context.create_durable_consumer(X, "audit")
        with jms.ConnectionFactory(bus=bus, client_id="desk").create_context() as context:
            consumer = context.create_durable_consumer(X, "audit")
            with pytest.raises(jms.IllegalStateError, match="in use"):
                context.create_durable_consumer(X, "audit")
            with pytest.raises(jms.IllegalStateError):
                context.unsubscribe("audit")
            consumer.close()
            context.unsubscribe("audit")
            with pytest.raises(jms.InvalidDestinationError):
                context.unsubscribe("audit")

    @pytest.mark.parametrize("durable", [False, True])
    def test_consumers_of_a_shared_subscription_share_its_messages(
        self, bus: shoal.Bus, durable: bool
    ) -> None:
        with jms.ConnectionFactory(bus=bus).create_context() as context:
            name = "create_shared_durable_consumer" if durable else "create_shared_consumer"
            consumers = [getattr(context, name)(X, "work") for _ in range(2)]
            for number in range(10):
                context.create_producer().send(X, number)
            found = [message.body for message in chain(*gathered(consumers, 10))]
            assert sorted(found) == list(range(10))


class TestTransactions:
    """Section 6.2.7, of what a store keeps."""

    @pytest.mark.every_link
    def test_commit_moves_a_message_from_queue_to_queue_and_topic(
        self, factory: jms.ConnectionFactory
    ) -> None:
        done = jms.Queue("done")
        with factory.create_context(TRANSACTED) as context, factory.create_context() as other:
            other.create_producer().send(ORDERS, "order")
            heard = other.create_consumer(X)
            assert bodies(context.create_consumer(ORDERS), 1) == ["order"]
            context.create_producer().send(done, "done").send(X, "told")
            assert heard.receive(0.2) is None
            context.commit()
            assert bodies(heard, 1) == ["told"]
            assert bodies(other.create_consumer(done), 1) == ["done"]
        with factory.create_context() as again:
            assert again.create_consumer(ORDERS).receive(0.2) is None

    def test_rollback_gives_the_message_back_and_sends_nothing(self, factory: jms.ConnectionFactory) -> None:
        done = jms.Queue("done")
        with factory.create_context(TRANSACTED) as context:
            context.create_producer().send(ORDERS, "order")
            context.commit()
            consumer = context.create_consumer(ORDERS)
            assert bodies(consumer, 1) == ["order"]
            context.create_producer().send(done, "never")
            context.rollback()
            message = consumer.receive(PATIENCE_S)
            assert message is not None
            assert message.jms_redelivered
            context.commit()
        with factory.create_context() as other:
            assert other.create_consumer(done).receive(0.2) is None


def test_a_persistent_send_is_completed_when_the_store_has_it(factory: jms.ConnectionFactory) -> None:
    """Section 7.3."""
    completed: list[str | None] = []

    class Listener:
        def on_completion(self, message: jms.Message) -> None:
            completed.append(message.jms_message_id)

        def on_exception(self, message: jms.Message, error: Exception) -> None:
            raise AssertionError(error)

    with factory.create_context() as context:
        producer = context.create_producer().set_async(Listener())
        for number in range(10):
            producer.send(ORDERS, number)
        until(lambda: len(completed) == 10)
        assert bodies(context.create_consumer(ORDERS), 10) == list(range(10))
        assert len(set(completed)) == 10
