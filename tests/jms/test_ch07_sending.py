"""Chapter 7: sending."""

import threading
import time

import pytest
from conftest import PATIENCE_S, World
from waiting import until

from shoal import jms

X = jms.Topic("x")
TRANSACTED = jms.Session.SESSION_TRANSACTED


def bodies(consumer: jms.JMSConsumer, count: int) -> list[object]:
    found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


@pytest.fixture
def consumer(world: World) -> jms.JMSConsumer:
    made = world.receiver().create_consumer(X)
    world.wait("x")
    return made


class TestProducers:
    """Sections 7.1 and 7.2."""

    def test_one_without_a_destination_is_given_one_with_each_message(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        producer = world.sender()._session.create_producer()
        assert producer.destination is None
        producer.send(jms.TextMessage("a"), destination=X)
        assert bodies(consumer, 1) == ["a"]
        with pytest.raises(jms.InvalidDestinationError, match="no destination"):
            producer.send(jms.TextMessage("b"))

    def test_one_with_a_destination_refuses_another(self, world: World) -> None:
        producer = world.sender()._session.create_producer(X)
        assert producer.destination == X
        with pytest.raises(jms.IllegalStateError, match="leave destination out"):
            producer.send(jms.Message(), destination=jms.Topic("y"))

    @pytest.mark.parametrize("name", ["a/*", "a/>", "a//b", "*"])
    def test_a_name_with_wildcards_or_empty_levels_cannot_be_sent_to(self, world: World, name: str) -> None:
        with pytest.raises(jms.InvalidDestinationError):
            world.sender().create_producer().send(jms.Topic(name), "x")

    @pytest.mark.parametrize("name", ["x", 5])
    def test_what_is_no_destination_is_refused(self, world: World, name: object) -> None:
        with pytest.raises(jms.InvalidDestinationError, match="must be a Topic or a Queue"):
            world.sender().create_producer().send(name, "x")  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ("text", jms.TextMessage),
            (b"bytes", jms.BytesMessage),
            (bytearray(b"bytes"), jms.BytesMessage),
            ({"a": 1}, jms.MapMessage),
            (5, jms.ObjectMessage),
            (None, jms.Message),
        ],
    )
    def test_a_body_is_sent_in_a_message_that_fits_it(
        self, world: World, consumer: jms.JMSConsumer, body: object, kind: type
    ) -> None:
        world.sender().create_producer().send(X, body)
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert type(message) is kind
        assert message.body == (bytes(body) if isinstance(body, bytearray) else body)


class Completions:
    def __init__(self) -> None:
        self.completed: list[jms.Message] = []
        self.failed: list[tuple[jms.Message, Exception]] = []
        self.threads: set[threading.Thread] = set()

    def on_completion(self, message: jms.Message) -> None:
        self.threads.add(threading.current_thread())
        self.completed.append(message)

    def on_exception(self, message: jms.Message, error: Exception) -> None:
        self.failed.append((message, error))


class TestAsynchronousSend:
    """Section 7.3."""

    def test_the_listener_is_called_in_order_on_another_thread_and_ids_are_there(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        done = Completions()
        producer = world.sender().create_producer().set_async(done)
        for number in range(50):
            producer.send(X, str(number))
        until(lambda: len(done.completed) == 50)
        assert [message.body for message in done.completed] == [str(number) for number in range(50)]
        assert len({message.jms_message_id for message in done.completed}) == 50
        assert threading.current_thread() not in done.threads
        assert len(done.threads) == 1
        assert bodies(consumer, 50) == [str(number) for number in range(50)]

    def test_synchronous_and_asynchronous_sends_stay_in_order(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        done = Completions()
        producer = world.sender()._session.create_producer(X)
        for number in range(20):
            producer.send(jms.TextMessage(str(number)), completion_listener=done if number % 2 else None)
        assert bodies(consumer, 20) == [str(number) for number in range(20)]

    def test_what_send_itself_raises_reaches_no_listener(self, world: World) -> None:
        done = Completions()
        sender = world.sender()
        with pytest.raises(jms.InvalidDestinationError):
            sender.create_producer().set_async(done).send(jms.Topic("a/*"), "x")
        sender.close()
        assert not done.completed
        assert not done.failed

    @pytest.mark.parametrize("end", ["close", "commit", "rollback"])
    def test_close_commit_and_rollback_wait_for_listeners(self, world: World, end: str) -> None:
        begun, release = threading.Event(), threading.Event()

        class Slow(Completions):
            def on_completion(self, message: jms.Message) -> None:
                begun.set()
                assert release.wait(PATIENCE_S)
                super().on_completion(message)

        done = Slow()
        sender = world.sender(TRANSACTED)
        sender.create_producer().set_async(done).send(X, "x")
        assert begun.wait(PATIENCE_S)
        ending = threading.Thread(target=getattr(sender, end))
        ending.start()
        ending.join(0.05)
        assert ending.is_alive()
        release.set()
        ending.join(PATIENCE_S)
        assert not ending.is_alive()
        assert len(done.completed) == 1

    @pytest.mark.parametrize("end", ["close", "commit", "rollback"])
    def test_a_listener_cannot_end_its_own_session(self, world: World, end: str) -> None:
        sender = world.sender(TRANSACTED)
        raised: list[Exception] = []

        class Ending(Completions):
            def on_completion(self, message: jms.Message) -> None:
                try:
                    getattr(sender, end)()
                except jms.IllegalStateError as error:
                    raised.append(error)
                super().on_completion(message)

        done = Ending()
        sender.create_producer().set_async(done).send(X, "x")
        until(lambda: done.completed)
        assert len(raised) == 1

    def test_a_listener_that_raises_ends_nothing(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Raising(Completions):
            def on_completion(self, message: jms.Message) -> None:
                super().on_completion(message)
                raise RuntimeError("oops")

        done = Raising()
        producer = world.sender().create_producer().set_async(done)
        producer.send(X, "1").send(X, "2")
        until(lambda: len(done.completed) == 2)
        assert "A completion listener raised an exception" in caplog.text

    def test_a_message_can_be_changed_once_it_is_completed(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        done = Completions()
        message = jms.TextMessage("1")
        producer = world.sender()._session.create_producer(X)
        for number in range(3):
            message.text = str(number)
            producer.send(message, completion_listener=done)
            until(lambda number=number: len(done.completed) == number + 1)  # type: ignore[misc]
        assert bodies(consumer, 3) == ["0", "1", "2"]


class TestOptions:
    """Sections 7.4 to 7.10."""

    def test_arguments_of_send_go_before_options_of_the_producer(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        producer = world.sender()._session.create_producer(X)
        producer.priority, producer.time_to_live_s = 2, 50
        message = jms.Message()
        producer.send(message)
        assert (message.jms_priority, message.jms_expiration) == (2, message.jms_timestamp + 50_000)
        producer.send(message, priority=8, time_to_live_s=0)
        assert (message.jms_priority, message.jms_expiration) == (8, 0)
        # The second may overtake the first.
        assert {m.jms_priority for m in (consumer.receive(timeout_s=PATIENCE_S) for _ in range(2)) if m} == {
            2,
            8,
        }

    def test_producers_begin_with_the_defaults_of_the_specification(self, url: str) -> None:
        with jms.ConnectionFactory(url).create_connection() as connection:
            producer = connection.create_session().create_producer()
            assert producer.delivery_mode is jms.DeliveryMode.PERSISTENT
            assert (producer.priority, producer.time_to_live_s, producer.delivery_delay_s) == (4, 0, 0)
            assert not producer.disable_message_id
            assert not producer.disable_message_timestamp

    def test_an_expired_message_is_never_delivered(self, world: World) -> None:
        receiver = world.receiver()
        receiver.auto_start = False
        consumer = receiver.create_consumer(X)
        world.wait("x")
        producer = world.sender().create_producer()
        producer.set_time_to_live_s(0.05).send(X, "short")
        producer.set_time_to_live_s(0).send(X, "long")
        threading.Event().wait(0.1)
        receiver.start()
        assert bodies(consumer, 1) == ["long"]

    def test_a_delayed_message_comes_at_its_time_and_others_before_it(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        sender = world.sender()
        message = sender.create_text_message("late")
        producer = sender.create_producer()
        began = time.monotonic()
        producer.set_delivery_delay_s(0.2).set_time_to_live_s(60).send(X, message)
        producer.set_delivery_delay_s(0).send(X, "early")
        assert message.jms_delivery_time == message.jms_timestamp + 200
        assert bodies(consumer, 1) == ["early"]
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert time.monotonic() - began >= 0.2
        assert arrived is not None
        for field in ("message_id", "timestamp", "delivery_time", "expiration"):
            assert getattr(arrived, f"jms_{field}") == getattr(message, f"jms_{field}"), field
        assert arrived.property_names == ["JMSXDeliveryCount"]

    def test_a_message_whose_life_ends_before_its_delivery_time_is_never_delivered(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        producer = world.sender().create_producer().set_delivery_delay_s(0.05).set_time_to_live_s(0.02)
        producer.send(X, "never")
        producer.set_time_to_live_s(0).send(X, "later")
        assert bodies(consumer, 1) == ["later"]

    def test_the_delay_of_a_transacted_send_counts_from_send(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        sender = world.sender(TRANSACTED)
        began = time.monotonic()
        sender.create_producer().set_delivery_delay_s(0.15).send(X, "late")
        threading.Event().wait(0.05)
        sender.commit()
        assert bodies(consumer, 1) == ["late"]
        assert 0.15 <= time.monotonic() - began < 5

    def test_a_higher_priority_may_overtake_and_order_is_kept_within_one(self, world: World) -> None:
        receiver = world.receiver()
        receiver.auto_start = False
        consumer = receiver.create_consumer(X)
        world.wait("x")
        sender = world.sender()
        for number in range(30):
            sender.create_producer().set_priority(number % 10).send(X, str(number))
        receiver.start()
        found = [int(str(body)) for body in bodies(consumer, 30)]
        assert sorted(found) == list(range(30))
        for priority in range(10):
            mine = [number for number in found if number % 10 == priority]
            assert mine == sorted(mine)

    def test_a_persistent_message_needs_a_store_and_the_refusal_says_so(self, world: World) -> None:
        producer = world.sender().create_producer().set_delivery_mode(jms.DeliveryMode.PERSISTENT)
        with pytest.raises(jms.ResourceAllocationError, match="store"):
            producer.send(X, "kept")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("priority", 10),
            ("priority", -1),
            ("priority", "high"),
            ("delivery_mode", 3),
            ("time_to_live_s", -1),
            ("time_to_live_s", "1"),
            ("delivery_delay_s", -0.5),
            ("disable_message_id", 1),
        ],
    )
    def test_an_option_of_a_wrong_value_is_refused_by_name(
        self, world: World, name: str, value: object
    ) -> None:
        producer = world.sender()._session.create_producer(X)
        with pytest.raises((TypeError, ValueError), match=name):
            setattr(producer, name, value)

    def test_calls_can_be_chained(self, world: World, consumer: jms.JMSConsumer) -> None:
        sender = world.sender()
        sender.create_producer().set_property("foo", "bar").set_time_to_live_s(10).set_delivery_mode(
            jms.DeliveryMode.NON_PERSISTENT
        ).set_disable_message_timestamp(True).set_jms_type("t").set_jms_correlation_id("c").set_jms_reply_to(
            X
        ).send(X, "body")
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.get_string_property("foo") == "bar"
        assert (message.jms_type, message.jms_correlation_id, message.jms_reply_to) == ("t", "c", X)

    def test_what_the_producer_sets_goes_before_what_the_message_says(
        self, world: World, consumer: jms.JMSConsumer
    ) -> None:
        message = jms.Message()
        message.set_string_property("foo", "message")
        message.set_string_property("own", "message")
        message.jms_type = message.jms_correlation_id = "message"
        producer = world.sender().create_producer().set_property("foo", "producer").set_jms_type("producer")
        assert producer.property_names == ["foo"]
        assert producer.get_string_property("foo") == "producer"
        producer.send(X, message)
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert arrived is not None
        assert arrived.get_string_property("foo") == "producer"
        assert arrived.get_string_property("own") == "message"
        assert (arrived.jms_type, arrived.jms_correlation_id) == ("producer", "message")
        producer.clear_properties()
        assert not producer.property_exists("foo")
