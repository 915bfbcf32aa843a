"""Sections 3.4.9, 3.4.13, 7.9: delivery delays and times to live, of topics too, and within transactions."""

import threading
import time
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S, World
from waiting import until

import shoal
from shoal import jms

PERSISTENT, NON_PERSISTENT = jms.DeliveryMode.PERSISTENT, jms.DeliveryMode.NON_PERSISTENT
TRANSACTED = jms.Session.SESSION_TRANSACTED
DELAY_S = 0.4

Subscribe = Callable[[jms.JMSContext, jms.Topic], jms.JMSConsumer]
SUBSCRIPTIONS: dict[str, Subscribe] = {
    "plain": lambda context, topic: context.create_consumer(topic),
    "shared": lambda context, topic: context.create_shared_consumer(topic, "team"),
    "durable": lambda context, topic: context.create_durable_consumer(topic, "own"),
}


@pytest.fixture(params=SUBSCRIPTIONS)
def subscribe(request: pytest.FixtureRequest) -> Subscribe:
    return SUBSCRIPTIONS[request.param]


@pytest.fixture(params=[PERSISTENT, NON_PERSISTENT], ids=["persistent", "not persistent"])
def mode(request: pytest.FixtureRequest) -> jms.DeliveryMode:
    found: jms.DeliveryMode = request.param
    return found


@pytest.fixture
def topic(topic_name: str) -> jms.Topic:
    return jms.Topic(topic_name)


@pytest.fixture
def desk(bus: shoal.Bus, mode: jms.DeliveryMode) -> jms.ConnectionFactory:
    return jms.ConnectionFactory(bus=bus, client_id="desk", default_delivery_mode=mode)


def bodies(consumer: jms.JMSConsumer, count: int) -> list[object]:
    return [consumer.receive_body(object, timeout_s=PATIENCE_S) for _ in range(count)]


@pytest.mark.every_link
def test_no_subscription_delivers_before_the_delivery_time(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        consumer = subscribe(context, topic)
        message = context.create_text_message("late")
        began = time.monotonic()
        producer = context.create_producer()
        producer.set_delivery_delay_s(DELAY_S).set_time_to_live_s(60).send(topic, message)
        producer.set_delivery_delay_s(0).send(topic, "early")
        assert bodies(consumer, 1) == ["early"]
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert time.monotonic() - began >= DELAY_S
        assert arrived is not None
        for field in ("message_id", "timestamp", "delivery_time", "expiration"):
            assert getattr(arrived, f"jms_{field}") == getattr(message, f"jms_{field}"), field
        assert arrived.property_names == ["JMSXDeliveryCount"]
        assert consumer.receive(timeout_s=DELAY_S) is None


def test_no_listener_is_called_before_the_delivery_time(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        came: list[tuple[object, float]] = []
        subscribe(context, topic).message_listener = lambda message: came.append(
            (message.get_body(object), time.monotonic())
        )
        with context.create_context(1) as sender:
            began = time.monotonic()
            producer = sender.create_producer()
            producer.set_delivery_delay_s(DELAY_S).send(topic, "late")
            producer.set_delivery_delay_s(0).send(topic, "early")
            until(lambda: len(came) == 2)
        assert [body for body, _ in came] == ["early", "late"]
        assert came[1][1] - began >= DELAY_S


def test_a_delay_counts_once(desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic) -> None:
    """A message lives beyond its delivery time, and not until twice its delay."""
    with desk.create_context() as context:
        consumer = subscribe(context, topic)
        context.create_producer().set_delivery_delay_s(1.0).set_time_to_live_s(1.95).send(topic, "once")
        assert bodies(consumer, 1) == ["once"]


def test_messages_come_in_the_order_of_their_delivery_times(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        consumer = subscribe(context, topic)
        producer = context.create_producer()
        for body, delay_s in (("last", 0.9), ("second", 0.3), ("third", 0.6), ("first", 0.0)):
            producer.set_delivery_delay_s(delay_s).send(topic, body)
        # All of them are due when the first is asked for.
        threading.Event().wait(1.2)
        assert bodies(consumer, 4) == ["first", "second", "third", "last"]


@pytest.mark.parametrize("mode", [PERSISTENT])
def test_what_waits_for_a_durable_consumer_or_in_a_queue_is_in_the_order_of_delivery_times(
    desk: jms.ConnectionFactory, topic: jms.Topic
) -> None:
    queue = jms.Queue("ordered")
    with desk.create_context() as context:
        context.create_durable_consumer(topic, "own").close()
        producer = context.create_producer()
        for destination in (topic, queue):
            producer.set_delivery_delay_s(0.2).send(destination, "late")
            producer.set_delivery_delay_s(0).send(destination, "early")
        threading.Event().wait(0.5)
        for destination in (topic, queue):
            producer.send(destination, "last")
        consumers = [context.create_durable_consumer(topic, "own"), context.create_consumer(queue)]
        for consumer in consumers:
            assert bodies(consumer, 3) == ["early", "late", "last"]


def test_messages_with_the_same_delay_stay_in_order(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        consumer = subscribe(context, topic)
        producer = context.create_producer().set_delivery_delay_s(0.2)
        for number in range(200):
            producer.send(topic, number)
        assert bodies(consumer, 200) == list(range(200))


def test_a_subscription_that_is_made_after_the_send_gets_nothing_of_it(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        producer = context.create_producer()
        producer.set_delivery_delay_s(DELAY_S).send(topic, "before")
        consumer = subscribe(context, topic)
        producer.send(topic, "after")
        assert bodies(consumer, 1) == ["after"]
        assert consumer.receive(timeout_s=0.1) is None


def test_a_message_whose_life_ends_before_its_delivery_time_never_comes(
    desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
) -> None:
    with desk.create_context() as context:
        consumer = subscribe(context, topic)
        producer = context.create_producer().set_delivery_delay_s(0.3)
        producer.set_time_to_live_s(0.2).send(topic, "never")
        producer.set_time_to_live_s(0).send(topic, "later")
        assert bodies(consumer, 1) == ["later"]


def test_a_stopped_connection_keeps_the_order_of_delivery_times(world: World, topic: jms.Topic) -> None:
    receiver = world.receiver()
    receiver.auto_start = False
    consumer = receiver.create_consumer(topic)
    producer = world.sender().create_producer()
    producer.set_delivery_delay_s(0.3).send(topic, "late")
    producer.set_delivery_delay_s(0).send(topic, "early")
    threading.Event().wait(0.5)
    producer.send(topic, "after")
    world.sending.flush()
    receiver.start()
    assert bodies(consumer, 3) == ["early", "late", "after"]


def test_a_delayed_message_comes_though_its_sender_is_closed(world: World, topic: jms.Topic) -> None:
    consumer = world.receiver().create_consumer(topic)
    with world.factory(world.sending).create_context() as sender:
        sender.create_producer().set_delivery_delay_s(DELAY_S).send(topic, "late")
    assert bodies(consumer, 1) == ["late"]


def test_no_local_leaves_delayed_messages_out(world: World, topic: jms.Topic) -> None:
    receiver = world.receiver()
    consumer = receiver.create_consumer(topic, None, True)
    receiver.create_producer().set_delivery_delay_s(0.1).send(topic, "own")
    sender = world.sender()
    sender.create_producer().set_delivery_delay_s(0.2).send(topic, "another's")
    assert bodies(consumer, 1) == ["another's"]
    assert consumer.receive(timeout_s=0.1) is None


def test_a_consumer_that_holds_back_as_much_as_it_may_goes_on_when_messages_are_due(
    world: World, topic: jms.Topic
) -> None:
    consumer = world.receiver().create_consumer(topic)
    inner = consumer._consumer._feed
    inner._core.hold_back(10_000)  # type: ignore[attr-defined]
    producer = world.sender().create_producer().set_delivery_delay_s(0.1)
    for number in range(100):
        producer.send(topic, f"{number:01000}")
    assert [int(str(body)) for body in bodies(consumer, 100)] == list(range(100))


class TestTransactions:
    """What is sent in a transaction counts its times from `send`, as its header fields say."""

    HELD_S = 0.6

    def sent(self, context: jms.JMSContext, to: jms.Destination, **settings: float) -> jms.Message:
        message = context.create_text_message("held")
        producer = context.create_producer()
        producer.set_delivery_delay_s(settings.get("delay_s", 0.0))
        producer.set_time_to_live_s(settings.get("ttl_s", 0.0)).send(to, message)
        threading.Event().wait(self.HELD_S)
        return message

    @pytest.mark.every_link
    def test_a_delay_counts_from_send(
        self, desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
    ) -> None:
        with desk.create_context() as context, context.create_context(TRANSACTED) as sender:
            consumer = subscribe(context, topic)
            began = time.monotonic()
            message = self.sent(sender, topic, delay_s=30.0, ttl_s=60.0)
            short = self.sent(sender, topic, delay_s=1.5, ttl_s=60.0)
            sender.commit()
            arrived = consumer.receive(timeout_s=PATIENCE_S)
            took_s = time.monotonic() - began
            # 1.5 s from its own `send`, which was one rest before it was committed.
            assert 1.5 + self.HELD_S <= took_s < 1.5 + 2 * self.HELD_S
            assert arrived is not None
            assert arrived.jms_message_id == short.jms_message_id != message.jms_message_id
            for field in ("timestamp", "delivery_time", "expiration"):
                assert getattr(arrived, f"jms_{field}") == getattr(short, f"jms_{field}"), field

    def test_a_message_that_lived_too_long_at_its_commit_never_comes(
        self, desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
    ) -> None:
        with desk.create_context() as context, context.create_context(TRANSACTED) as sender:
            consumer = subscribe(context, topic)
            self.sent(sender, topic, ttl_s=self.HELD_S * 0.9)
            sender.create_producer().send(topic, "lives")
            sender.commit()
            assert bodies(consumer, 1) == ["lives"]
            assert consumer.receive(timeout_s=0.1) is None

    @pytest.mark.every_link
    def test_times_of_a_message_to_a_queue_count_from_send(self, desk: jms.ConnectionFactory) -> None:
        queue = jms.Queue("held")
        with desk.create_context() as context, context.create_context(TRANSACTED) as sender:
            consumer = context.create_consumer(queue)
            self.sent(sender, queue, ttl_s=self.HELD_S * 0.9)
            began = time.monotonic()
            self.sent(sender, queue, delay_s=1.5)
            sender.commit()
            arrived = consumer.receive(timeout_s=PATIENCE_S)
            took_s = time.monotonic() - began
            assert 1.5 <= took_s < 1.5 + 0.9 * self.HELD_S
            assert arrived is not None
            assert arrived.jms_delivery_time == arrived.jms_timestamp + 1500

    def test_transacted_sends_with_the_same_delay_stay_in_order(
        self, desk: jms.ConnectionFactory, subscribe: Subscribe, topic: jms.Topic
    ) -> None:
        with desk.create_context() as context, context.create_context(TRANSACTED) as sender:
            consumer = subscribe(context, topic)
            producer = sender.create_producer().set_delivery_delay_s(0.3)
            for number in range(300):
                producer.send(topic, number)
                if number % 7 == 0:
                    sender.commit()
            sender.commit()
            assert bodies(consumer, 300) == list(range(300))
