"""Section 6.2: sessions, acknowledgement, transactions, threads."""

import threading

import pytest
from conftest import PATIENCE_S, World
from waiting import until

from shoal import jms

X = jms.Topic("x")
CLIENT, AUTO = jms.Session.CLIENT_ACKNOWLEDGE, jms.Session.AUTO_ACKNOWLEDGE
DUPS_OK, TRANSACTED = jms.Session.DUPS_OK_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED


def texts(consumer: jms.JMSConsumer, count: int) -> list[str]:
    found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


def fed(world: World, mode: int, count: int = 3, **options: int) -> tuple[jms.JMSContext, jms.JMSConsumer]:
    """A context that was sent some messages."""
    receiver = world.receiver(mode, **options)
    consumer = receiver.create_consumer(X)
    world.wait("x")
    producer = world.sender().create_producer()
    for number in range(count):
        producer.send(X, str(number))
    return receiver, consumer


class TestAcknowledgement:
    """Section 6.2.10."""

    def test_recover_delivers_again_what_is_not_acknowledged_in_order_marked_and_counted(
        self, world: World
    ) -> None:
        receiver, consumer = fed(world, CLIENT, 4)
        assert texts(consumer, 3) == ["0", "1", "2"]
        receiver.recover()
        again = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(4)]
        assert [message.body for message in again if message] == ["0", "1", "2", "3"]
        assert [message.jms_redelivered for message in again if message] == [True, True, True, False]
        counts = [message.get_int_property("JMSXDeliveryCount") for message in again if message]
        assert counts == [2, 2, 2, 1]
        receiver.recover()
        third = consumer.receive(timeout_s=PATIENCE_S)
        assert third is not None
        assert third.get_int_property("JMSXDeliveryCount") == 3

    def test_acknowledging_one_acknowledges_everything_that_the_session_delivered(self, world: World) -> None:
        receiver, consumer = fed(world, CLIENT, 4)
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        assert texts(consumer, 2) == ["1", "2"]
        first.acknowledge()
        receiver.recover()
        assert texts(consumer, 1) == ["3"]
        assert consumer.receive(timeout_s=0.05) is None

    def test_a_context_acknowledges_too(self, world: World) -> None:
        receiver, consumer = fed(world, CLIENT, 1)
        assert texts(consumer, 1) == ["0"]
        receiver.acknowledge()
        receiver.recover()
        assert consumer.receive(timeout_s=0.05) is None

    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK])
    def test_what_receive_returned_is_acknowledged(self, world: World, mode: int) -> None:
        receiver, consumer = fed(world, mode)
        assert texts(consumer, 2) == ["0", "1"]
        receiver.recover()
        assert texts(consumer, 1) == ["2"]

    @pytest.mark.parametrize("mode", [AUTO, DUPS_OK, TRANSACTED])
    def test_acknowledge_means_nothing_in_other_modes(self, world: World, mode: int) -> None:
        receiver, consumer = fed(world, mode, 1)
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        message.acknowledge()
        receiver.acknowledge()
        if mode == TRANSACTED:
            receiver.rollback()
            assert texts(consumer, 1) == ["0"]

    def test_too_many_unacknowledged_messages_make_the_consumer_wait(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        receiver, consumer = fed(world, CLIENT, 3, unacknowledged_max=2)
        assert texts(consumer, 2) == ["0", "1"]
        assert consumer.receive(timeout_s=0.05) is None
        assert "unacknowledged_max" in caplog.text
        receiver.acknowledge()
        assert texts(consumer, 1) == ["2"]

    def test_a_consumer_that_waits_for_that_goes_on_when_another_thread_acknowledges(
        self, world: World
    ) -> None:
        receiver, consumer = fed(world, CLIENT, 2, unacknowledged_max=1)
        first = consumer.receive(timeout_s=PATIENCE_S)
        got: list[list[str]] = []
        thread = threading.Thread(target=lambda: got.append(texts(consumer, 1)))
        thread.start()
        until(lambda: receiver._session._delivering._receiving is not None)
        assert first is not None
        first.acknowledge()
        thread.join(PATIENCE_S)
        assert got == [["1"]]

    def test_closing_the_consumer_does_not_keep_its_messages_from_being_acknowledged(
        self, world: World
    ) -> None:
        _, consumer = fed(world, CLIENT, 1)
        message = consumer.receive(timeout_s=PATIENCE_S)
        consumer.close()
        assert message is not None
        message.acknowledge()

    def test_a_redelivered_message_is_as_it_was_sent(self, world: World) -> None:
        receiver, consumer = fed(world, CLIENT, 1)
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert isinstance(message, jms.TextMessage)
        message.clear_body()
        message.text = "changed"
        message.clear_properties()
        receiver.recover()
        assert texts(consumer, 1) == ["0"]

    def test_expired_messages_are_not_delivered_again(self, world: World) -> None:
        receiver = world.receiver(CLIENT)
        consumer = receiver.create_consumer(X)
        world.wait("x")
        producer = world.sender().create_producer()
        producer.set_time_to_live_s(0.1).send(X, "short")
        producer.set_time_to_live_s(0).send(X, "long")
        assert texts(consumer, 2) == ["short", "long"]
        threading.Event().wait(0.12)
        receiver.recover()
        assert texts(consumer, 1) == ["long"]


class TestTransactions:
    """Section 6.2.7, of what needs no store."""

    def test_nothing_is_sent_before_commit_and_all_of_it_in_order_by_it(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        producer = sender.create_producer()
        for number in range(3):
            producer.send(X, str(number))
        assert consumer.receive(timeout_s=0.05) is None
        sender.commit()
        assert texts(consumer, 3) == ["0", "1", "2"]

    def test_rollback_destroys_what_was_sent(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        sender.create_producer().send(X, "never")
        sender.rollback()
        sender.create_producer().send(X, "sent")
        sender.commit()
        assert texts(consumer, 1) == ["sent"]

    def test_rollback_delivers_again_what_was_received_and_commit_does_not(self, world: World) -> None:
        receiver, consumer = fed(world, TRANSACTED)
        assert texts(consumer, 2) == ["0", "1"]
        receiver.rollback()
        again = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(2)]
        assert [(message.body, message.jms_redelivered) for message in again if message] == [
            ("0", True),
            ("1", True),
        ]
        receiver.commit()
        receiver.rollback()
        assert texts(consumer, 1) == ["2"]

    def test_ids_and_times_are_those_of_send(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        message = sender.create_text_message("x")
        sender._session.create_producer(X).send(message, time_to_live_s=30)
        assert message.jms_message_id is not None
        sent = (
            message.jms_message_id,
            message.jms_timestamp,
            message.jms_expiration,
            message.jms_delivery_time,
        )
        threading.Event().wait(0.01)
        sender.commit()
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert arrived is not None
        assert (
            arrived.jms_message_id,
            arrived.jms_timestamp,
            arrived.jms_expiration,
            arrived.jms_delivery_time,
        ) == sent
        assert arrived.property_names == ["JMSXDeliveryCount"]

    def test_a_message_that_expired_before_its_commit_is_not_sent(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        sender.create_producer().set_time_to_live_s(0.02).send(X, "short")
        sender.create_producer().send(X, "long")
        threading.Event().wait(0.03)
        sender.commit()
        assert texts(consumer, 1) == ["long"]

    def test_changing_a_message_after_send_changes_nothing_of_it(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        message = sender.create_map_message({"a": 1})
        sender.create_producer().send(X, message)
        message["a"] = 2
        message.set_int_property("late", 1)
        sender.commit()
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert isinstance(arrived, jms.MapMessage)
        assert arrived.body == {"a": 1}
        assert not arrived.property_exists("late")

    def test_closing_rolls_back(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        sender = world.sender(TRANSACTED)
        world.wait("x")
        sender.create_producer().send(X, "never")
        sender.close()
        assert consumer.receive(timeout_s=0.05) is None

    def test_what_cannot_be_sent_is_refused_by_send(self, world: World) -> None:
        sender = world.sender(TRANSACTED)
        with pytest.raises(jms.InvalidDestinationError):
            sender.create_producer().send(jms.Topic("a/*"), "x")
        sender.commit()

    @pytest.mark.parametrize("mode", [AUTO, CLIENT, DUPS_OK])
    def test_commit_and_rollback_are_for_transacted_sessions(self, world: World, mode: int) -> None:
        receiver = world.receiver(mode)
        for call in (receiver.commit, receiver.rollback):
            with pytest.raises(jms.IllegalStateError, match="transacted"):
                call()

    def test_recover_is_not(self, world: World) -> None:
        with pytest.raises(jms.IllegalStateError, match="rolled back"):
            world.receiver(TRANSACTED).recover()

    def test_a_listener_may_commit(self, world: World) -> None:
        receiver, answers = world.receiver(TRANSACTED), world.sender()
        heard = answers.create_consumer(jms.Topic("y"))
        consumer = receiver.create_consumer(X)

        def listen(message: jms.Message) -> None:
            receiver.create_producer().send(jms.Topic("y"), f"re {message.body}")
            receiver.commit()

        consumer.message_listener = listen
        world.wait("x")
        assert world.receiving.wait_for_subscribers("y", 1, PATIENCE_S)
        for number in range(3):
            answers.create_producer().send(X, str(number))
        assert texts(heard, 3) == ["re 0", "re 1", "re 2"]


class TestThreads:
    """Sections 6.2.5, 6.2.13 and 6.2.14."""

    def test_a_session_calls_its_listeners_one_at_a_time_on_one_thread(self, world: World) -> None:
        receiver = world.receiver()
        threads: set[threading.Thread] = set()
        running, most, heard = [0], [0], []

        def listen(message: jms.Message) -> None:
            running[0] += 1
            most[0] = max(most[0], running[0])
            threads.add(threading.current_thread())
            heard.append(message.body)
            running[0] -= 1

        for name in ("a", "b", "c"):
            receiver.create_consumer(jms.Topic(name)).message_listener = listen
            world.wait(name)
        producer = world.sender().create_producer()
        for number in range(100):
            producer.send(jms.Topic("abc"[number % 3]), str(number))
        until(lambda: len(heard) == 100)
        assert most == [1]
        assert len(threads) == 1
        for rest in range(3):
            mine = [number for number in map(int, heard) if number % 3 == rest]
            assert mine == sorted(mine)

    def test_listeners_of_two_sessions_run_at_once(self, world: World) -> None:
        meeting = threading.Barrier(2)
        met = []

        def listen(_: jms.Message) -> None:
            meeting.wait(PATIENCE_S)
            met.append(1)

        for _ in range(2):
            world.receiver().create_consumer(X).message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "both")
        until(lambda: len(met) == 2)

    def test_a_session_with_a_listener_cannot_receive(self, world: World) -> None:
        receiver = world.receiver()
        one, other = receiver.create_consumer(X), receiver.create_consumer(jms.Topic("y"))
        one.message_listener = print
        for consumer in (one, other):
            with pytest.raises(jms.IllegalStateError, match="listener"):
                consumer.receive(timeout_s=0)
        one.message_listener = None
        assert other.receive(timeout_s=0) is None

    def test_two_threads_cannot_receive_in_one_session(self, world: World) -> None:
        receiver = world.receiver()
        consumer, other = receiver.create_consumer(X), receiver.create_consumer(X)
        thread = threading.Thread(target=consumer.receive, daemon=True)
        thread.start()
        until(lambda: receiver._session._delivering._receiving is not None)
        with pytest.raises(jms.IllegalStateError, match="another thread"):
            other.receive(timeout_s=0)
        receiver.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


class TestClosing:
    """Section 6.2.15."""

    def test_close_waits_for_a_listener_that_runs(self, world: World) -> None:
        connection = world.connection()
        session = connection.create_session()
        begun, end, done = threading.Event(), threading.Event(), []

        def listen(_: jms.Message) -> None:
            begun.set()
            assert end.wait(PATIENCE_S)
            done.append(1)

        session.create_consumer(X).message_listener = listen
        connection.start()
        world.wait("x")
        world.sender().create_producer().send(X, "")
        assert begun.wait(PATIENCE_S)
        closing = threading.Thread(target=session.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        end.set()
        closing.join(PATIENCE_S)
        assert done == [1]

    def test_other_sessions_of_the_connection_go_on(self, world: World) -> None:
        connection = world.connection()
        session, other = connection.create_session(), connection.create_session()
        consumer = other.create_consumer(X)
        connection.start()
        session.close()
        world.wait("x")
        world.sender().create_producer().send(X, "still")
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.body == "still"

    def test_what_it_has_sent_in_a_transaction_is_never_sent(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        connection = world.factory(world.sending).create_connection()
        session = connection.create_session(True)
        world.wait("x")
        session.create_producer(X).send(session.create_text_message("never"))
        session.close()
        session = connection.create_session()
        session.create_producer(X).send(session.create_text_message("sent"))
        assert texts(consumer, 1) == ["sent"]
        connection.close()

    def test_a_receive_that_waits_in_it_has_returned_when_it_is_closed(self, world: World) -> None:
        connection = world.connection()
        session = connection.create_session()
        consumer = session.create_consumer(X)
        connection.start()
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive()))
        thread.start()
        until(lambda: session._delivering._receiving is consumer)
        session.close()
        thread.join(PATIENCE_S)
        assert got == [None]

    def test_it_ends_its_threads(self, world: World) -> None:
        before = set(threading.enumerate())
        receiver = world.receiver()
        receiver.create_consumer(X).message_listener = print
        receiver.close()
        left = [
            thread for thread in set(threading.enumerate()) - before if thread.name == "shoal-jms-session"
        ]
        assert left == []


class TestTemporary:
    """Section 6.2.2."""

    def test_only_their_connection_reads_them(self, world: World) -> None:
        receiver, other = world.receiver(), world.sender()
        topic = receiver.create_temporary_topic()
        consumer = receiver.create_consumer(topic)
        with pytest.raises(jms.InvalidDestinationError, match="another connection"):
            other.create_consumer(topic)
        another_session = receiver.create_context()
        another_session.create_consumer(topic)
        world.wait(topic.name)
        other.create_producer().send(topic, "from elsewhere")
        assert texts(consumer, 1) == ["from elsewhere"]
        another_session.close()

    def test_each_is_unique_and_cannot_be_copied(self, world: World) -> None:
        import copy

        receiver = world.receiver()
        one, other = receiver.create_temporary_topic(), receiver.create_temporary_topic()
        assert one != other
        with pytest.raises(TypeError, match="unique"):
            copy.copy(one)

    def test_one_with_a_consumer_cannot_be_deleted_and_a_deleted_one_not_be_used(self, world: World) -> None:
        receiver = world.receiver()
        topic = receiver.create_temporary_topic()
        consumer = receiver.create_consumer(topic)
        with pytest.raises(jms.IllegalStateError, match="has a consumer"):
            topic.delete()
        consumer.close()
        topic.delete()
        with pytest.raises(jms.InvalidDestinationError, match="deleted"):
            receiver.create_producer().send(topic, "x")
        with pytest.raises(jms.InvalidDestinationError):
            receiver.create_consumer(topic)

    def test_they_end_with_their_connection(self, world: World) -> None:
        receiver, other = world.receiver(), world.receiver()
        topic = receiver.create_temporary_topic()
        producer = other._session.create_producer(topic)
        receiver.close()
        with pytest.raises(jms.InvalidDestinationError, match="deleted"):
            producer.send(jms.Message())
        with pytest.raises(jms.InvalidDestinationError):
            other.create_consumer(topic)

    def test_one_of_a_message_that_was_received_cannot_be_deleted(self, world: World) -> None:
        message = jms.Message()
        message.jms_reply_to = world.receiver().create_temporary_topic()
        arrived = world.exchange(message).jms_reply_to
        assert isinstance(arrived, jms.TemporaryTopic)
        with pytest.raises(jms.InvalidDestinationError, match="another connection"):
            arrived.delete()

    def test_no_named_subscription_is_possible(self, world: World) -> None:
        receiver = world.receiver(client_id="desk")
        topic = receiver.create_temporary_topic()
        for make in (
            receiver.create_durable_consumer,
            receiver.create_shared_consumer,
            receiver.create_shared_durable_consumer,
        ):
            with pytest.raises(jms.InvalidDestinationError, match="ends with its connection"):
                make(topic, "name")


@pytest.mark.parametrize("arguments", [(7,), (False, 9), (False, "AUTO")])
def test_a_mode_that_is_none_is_refused(world: World, arguments: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="acknowledge_mode is"):
        world.connection().create_session(*arguments)


def test_sessions_are_made_in_all_of_javas_ways(world: World) -> None:
    connection = world.connection()
    assert connection.create_session().acknowledge_mode == AUTO
    assert connection.create_session(True, 0).transacted
    assert connection.create_session(False, CLIENT).acknowledge_mode == CLIENT
    assert connection.create_session(DUPS_OK).acknowledge_mode == DUPS_OK
    assert connection.create_session(TRANSACTED).transacted


def test_destinations_are_made_by_name(world: World) -> None:
    """Section 6.2.3."""
    session = world.connection().create_session()
    assert session.create_topic("prices/ACME") == jms.Topic("prices/ACME")
    assert session.create_queue("orders") == jms.Queue("orders") != jms.Topic("orders")


def test_a_message_that_one_session_made_another_sends(world: World) -> None:
    """Sections 6.2.4 and 6.1.8: also after the first was closed."""
    consumer = world.receiver().create_consumer(X)
    world.wait("x")
    connection = world.connection()
    message = connection.create_session().create_text_message("made here")
    connection.close()
    world.sender().create_producer().send(X, message)
    assert texts(consumer, 1) == ["made here"]
