"""Sections 4.1 and 8.3: queues, durable and shared subscriptions and transactions, which a store serves."""

import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy
import pytest
from conftest import PATIENCE_S
from waiting import gathered, until

import shoal
from shoal import jms
from shoal._core import Message as BusMessage
from shoal.bus.persistent import Persistence
from shoal.bus.store_session import Done
from shoal.errors import ShoalError
from shoal.jms.feeds import StoreFeed

X, ORDERS = jms.Topic("x"), jms.Queue("orders")
CLIENT, TRANSACTED = jms.Session.CLIENT_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED


def bodies(consumer: jms.JMSConsumer, count: int) -> list[object]:
    found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
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
            again = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(2)]
            assert [(each.body, each.jms_redelivered) for each in again if each] == [("1", True), ("2", True)]
            assert [each.get_int_property("JMSXDeliveryCount") for each in again if each] == [2, 2]
            context.acknowledge()
            context.recover()
            assert consumer.receive(timeout_s=0.2) is None

    def test_what_a_closed_session_did_not_acknowledge_goes_to_the_next(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(CLIENT) as context:
            context.create_producer().send(ORDERS, "1")
            assert bodies(context.create_consumer(ORDERS), 1) == ["1"]
        with factory.create_context() as context:
            message = context.create_consumer(ORDERS).receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert message.jms_redelivered

    @pytest.mark.parametrize("mode", [CLIENT, TRANSACTED, jms.Session.DUPS_OK_ACKNOWLEDGE])
    def test_what_a_closed_consumer_had_ahead_of_the_program_was_never_delivered(
        self, factory: jms.ConnectionFactory, mode: jms.AcknowledgeMode
    ) -> None:
        """More often than a queue delivers a message: nothing becomes a dead letter, and the order stays."""
        with factory.create_context() as context:
            producer = context.create_producer()
            for number in range(14):
                producer.send(ORDERS, str(number))
        for number in range(12):
            with factory.create_context(mode) as context:
                with context.create_consumer(ORDERS) as consumer:
                    message = consumer.receive(timeout_s=PATIENCE_S)
                    assert message is not None
                    assert (message.body, message.jms_redelivered) == (str(number), False)
                if mode is CLIENT:
                    context.acknowledge()
                elif mode is TRANSACTED:
                    context.commit()
        with factory.create_context() as context:
            assert bodies(context.create_consumer(ORDERS), 2) == ["12", "13"]

    def test_a_closed_consumer_leaves_the_order_as_it_was(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context(CLIENT) as context:
            producer = context.create_producer()
            for number in range(6):
                producer.send(ORDERS, str(number))
            with context.create_consumer(ORDERS) as consumer:
                assert bodies(consumer, 3) == ["0", "1", "2"]
            assert bodies(context.create_consumer(ORDERS), 3) == ["3", "4", "5"]

    def test_arrays_inside_a_persistent_body_arrive(self, bus: shoal.Bus) -> None:
        queue = bus.queue("arrays")
        queue.send({"n": numpy.arange(3)}, timeout_s=PATIENCE_S)
        queue.send([numpy.arange(2)], timeout_s=PATIENCE_S)
        first, second = queue.receive(timeout_s=PATIENCE_S), queue.receive(timeout_s=PATIENCE_S)
        assert first is not None
        assert second is not None
        assert first.body["n"].tolist() == [0, 1, 2]
        assert second.body[0].tolist() == [0, 1]

    @pytest.mark.parametrize("failure", [shoal.errors.LeaseError("lost meanwhile"), KeyboardInterrupt()])
    def test_a_message_whose_acknowledgement_fails_is_not_lost(
        self, factory: jms.ConnectionFactory, failure: BaseException, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The store knows that it is acknowledged, and the program does not know that the store does."""
        with factory.create_context() as context:
            context.create_producer().send(ORDERS, "1").send(ORDERS, "2")
            consumer = context.create_consumer(ORDERS)
            acknowledge = StoreFeed.begin_acknowledge

            def fail(feed: StoreFeed, core: BusMessage, done: Done, *, through: bool) -> None:
                monkeypatch.undo()
                is_refused = isinstance(failure, ShoalError)
                acknowledge(
                    feed,
                    core,
                    lambda answer, error: done(None, failure if is_refused else None),
                    through=through,
                )
                if not is_refused:
                    raise failure

            monkeypatch.setattr(StoreFeed, "begin_acknowledge", fail)
            if isinstance(failure, KeyboardInterrupt):
                with pytest.raises(KeyboardInterrupt):
                    consumer.receive(timeout_s=PATIENCE_S)
            assert bodies(consumer, 2) == ["1", "2"]

    def test_a_selector_leaves_the_others_in_the_queue(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context:
            producer = context.create_producer()
            producer.set_property("region", "US").send(ORDERS, "us")
            producer.set_property("region", "EU").send(ORDERS, "eu")
            with context.create_consumer(ORDERS, "region = 'EU'") as consumer:
                assert bodies(consumer, 1) == ["eu"]
            assert bodies(context.create_consumer(ORDERS), 1) == ["us"]

    def test_a_browser_looks_and_leaves_all_messages(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context:
            for number in range(3):
                context.create_producer().send(ORDERS, str(number))
            with context.create_browser(ORDERS) as browser:
                assert [message.body for message in browser] == ["0", "1", "2"]
                assert [message.body for message in browser.enumeration] == ["0", "1", "2"]
            assert bodies(context.create_consumer(ORDERS), 3) == ["0", "1", "2"]

    def test_a_browser_of_an_unused_queue_sees_nothing(self, factory: jms.ConnectionFactory) -> None:
        with factory.create_context() as context:
            context.create_producer().send(ORDERS, "elsewhere")
            assert list(context.create_browser(jms.Queue("unused"))) == []

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
    def test_what_is_sent_while_the_subscriber_is_away_is_delivered_later(self, bus: shoal.Bus) -> None:
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
            assert heard.receive(timeout_s=0.2) is None
            context.commit()
            assert bodies(heard, 1) == ["told"]
            assert bodies(other.create_consumer(done), 1) == ["done"]
        with factory.create_context() as again:
            assert again.create_consumer(ORDERS).receive(timeout_s=0.2) is None

    def test_after_a_rollback_a_commit_of_acknowledgements_alone_leaves_no_hole(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(TRANSACTED) as context:
            producer, consumer = context.create_producer(), context.create_consumer(ORDERS)
            producer.send(ORDERS, "1")
            context.commit()
            producer.send(ORDERS, "never")
            context.rollback()
            assert bodies(consumer, 1) == ["1"]
            context.commit()
            producer.send(ORDERS, "2")
            context.commit()
            assert bodies(consumer, 1) == ["2"]

    def test_rollback_gives_the_message_back_and_sends_nothing(self, factory: jms.ConnectionFactory) -> None:
        done = jms.Queue("done")
        with factory.create_context(TRANSACTED) as context:
            context.create_producer().send(ORDERS, "order")
            context.commit()
            consumer = context.create_consumer(ORDERS)
            assert bodies(consumer, 1) == ["order"]
            context.create_producer().send(done, "never")
            context.rollback()
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert message.jms_redelivered
            context.commit()
        with factory.create_context() as other:
            assert other.create_consumer(done).receive(timeout_s=0.2) is None


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


class TestClosedConsumers:
    """Sections 3.5.11, 6.2.9 and 8.8: what a consumer had ahead, and nobody saw, was never delivered."""

    @pytest.mark.parametrize("mode", [CLIENT, TRANSACTED, jms.Session.DUPS_OK_ACKNOWLEDGE])
    def test_what_no_program_saw_comes_unmarked_and_in_order(
        self, factory: jms.ConnectionFactory, mode: int
    ) -> None:
        with factory.create_context() as sender:
            for number in range(6):
                sender.create_producer().send(ORDERS, str(number))
        with factory.create_context(mode) as context:
            first = context.create_consumer(ORDERS)
            assert bodies(first, 2) == ["0", "1"]
            first.close()
            second = context.create_consumer(ORDERS)
            found = [second.receive(timeout_s=PATIENCE_S) for _ in range(4)]
            assert [each and each.body for each in found] == ["2", "3", "4", "5"]
            assert [each and each.jms_redelivered for each in found] == [False] * 4
            assert [each and each.get_int_property("JMSXDeliveryCount") for each in found] == [1] * 4

    def test_however_often_a_consumer_is_closed_nothing_unseen_goes_to_the_dead_letters(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(CLIENT) as context:
            for number in range(15):
                context.create_producer().send(ORDERS, str(number))
            for number in range(15):
                consumer = context.create_consumer(ORDERS)
                assert bodies(consumer, 1) == [str(number)]
                consumer.close()
                context.acknowledge()

    def test_what_a_closed_consumer_handed_out_comes_again_after_a_rollback(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_context(TRANSACTED) as context:
            context.create_producer().send(ORDERS, "1").send(ORDERS, "2")
            context.commit()
            consumer = context.create_consumer(ORDERS)
            assert bodies(consumer, 1) == ["1"]
            consumer.close()
            context.rollback()
            found = [context.create_consumer(ORDERS).receive(timeout_s=PATIENCE_S)]
            assert [(each.body, each.jms_redelivered) for each in found if each] == [("1", True)]


class TestGivingUp:
    """A listener that raises again and again: what it cannot handle is put aside, and not lost."""

    @pytest.mark.every_link
    @pytest.mark.parametrize("kind", ["queue", "durable"])
    def test_what_a_listener_cannot_handle_becomes_a_dead_letter(self, bus: shoal.Bus, kind: str) -> None:
        factory = jms.ConnectionFactory(bus=bus, redeliveries_max=2, client_id="desk")
        counts: list[int] = []

        def fail(message: jms.Message) -> None:
            counts.append(message.get_int_property("JMSXDeliveryCount"))
            raise ValueError("cannot")

        with factory.create_context() as context, context.create_context() as other:
            if kind == "queue":
                context.create_consumer(ORDERS).message_listener = fail
            else:
                context.create_durable_consumer(X, "ticker").message_listener = fail
            other.create_producer().send(ORDERS if kind == "queue" else X, "precious")
            letter = other.create_consumer(jms.Queue("dead-letters")).receive(timeout_s=PATIENCE_S)
            assert letter is not None
            assert (letter.body, letter.get_string_property("shoal_reason")) == ("precious", "given up")
            assert counts == [1, 2, 3]
        with factory.create_context() as context:
            consumer = (
                context.create_consumer(ORDERS)
                if kind == "queue"
                else context.create_durable_consumer(X, "ticker")
            )
            assert consumer.receive(timeout_s=0.2) is None

    def test_a_listener_of_the_dead_letters_gets_it_again(self, bus: shoal.Bus) -> None:
        letters, counts = jms.Queue("dead-letters"), []

        def fail(message: jms.Message) -> None:
            counts.append(message.get_int_property("JMSXDeliveryCount"))
            raise ValueError("cannot")

        with jms.ConnectionFactory(bus=bus, redeliveries_max=0).create_context() as context:
            context.create_producer().send(letters, "precious")
            context.create_consumer(letters).message_listener = fail
            until(lambda: len(counts) == 2)
            assert counts == [1, 2]

    def test_what_was_handled_before_does_not_come_again_with_it(
        self, factory: jms.ConnectionFactory
    ) -> None:
        heard: list[tuple[object, bool]] = []

        def fail_once(message: jms.Message) -> None:
            heard.append((message.body, message.jms_redelivered))
            if heard[-1] == ("bad", False):
                raise ValueError("cannot")

        with factory.create_context() as sender:
            sender.create_producer().send(ORDERS, "good").send(ORDERS, "bad")
            with factory.create_context(jms.Session.DUPS_OK_ACKNOWLEDGE) as context:
                context.create_consumer(ORDERS).message_listener = fail_once
                until(lambda: len(heard) == 3)
            assert heard == [("good", False), ("bad", False), ("bad", True)]
            assert sender.create_consumer(ORDERS).receive(timeout_s=0.2) is None


class TestSendsUnderWay:
    """Section 7.3: an asynchronous send does not wait for the store."""

    def test_send_returns_before_the_store_has_the_message(
        self, factory: jms.ConnectionFactory, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        completed: list[str] = []

        class Listener:
            def on_completion(self, message: jms.Message) -> None:
                completed.append(message.body)

            def on_exception(self, message: jms.Message, error: Exception) -> None:
                raise AssertionError(error)

        said: list[Callable[[], None]] = []
        wait = Persistence.wait

        def later(self: Persistence, number: int, done: Any) -> None:
            said.append(lambda: wait(self, number, done))

        with factory.create_context() as context:
            context.create_producer().send(ORDERS, "first").send(X, "first")
            with monkeypatch.context() as patched:
                patched.setattr(Persistence, "wait", later)
                producer = context.create_producer().set_async(Listener())
                for number in range(4):
                    sent = context.create_text_message(str(number))
                    producer.send(ORDERS if number % 2 else X, sent)
                    assert sent.jms_message_id is not None
                assert not completed
            for say in reversed(said):
                say()
            until(lambda: completed == ["0", "1", "2", "3"])
            assert bodies(context.create_consumer(ORDERS), 3) == ["first", "1", "3"]

    def test_what_the_store_refuses_reaches_the_listener_of_that_message(self, bus: shoal.Bus) -> None:
        refused: list[tuple[object, type[Exception]]] = []

        class Listener:
            def on_completion(self, message: jms.Message) -> None:
                refused.append((message.body, type(None)))  # type: ignore[arg-type]

            def on_exception(self, message: jms.Message, error: Exception) -> None:
                refused.append((message.body, type(error)))

        bus.queue("small").declare(backlog_max_bytes=1, on_full="refuse")
        with jms.ConnectionFactory(bus=bus).create_context() as context:
            producer = context.create_producer().set_async(Listener())
            small = jms.Queue("small")
            producer.send(small, "too much").send(ORDERS, "elsewhere")
            until(lambda: len(refused) == 2)
        assert [body for body, _ in refused] == ["too much", "elsewhere"]
        assert [issubclass(kind, jms.JMSError) for _, kind in refused] == [True, False]


class TestExpiry:
    """Section 3.4.9."""

    @pytest.mark.parametrize("kind", ["queue", "durable"])
    def test_what_expires_while_it_waits_here_is_not_delivered(self, bus: shoal.Bus, kind: str) -> None:
        with jms.ConnectionFactory(bus=bus, client_id="desk").create_context() as context:
            where: jms.Destination = ORDERS if kind == "queue" else X
            consumer = (
                context.create_consumer(ORDERS)
                if kind == "queue"
                else context.create_durable_consumer(X, "name")
            )
            producer = context.create_producer().set_time_to_live_s(0.5)
            sent = [context.create_text_message(str(number)) for number in range(4)]
            for message in sent:
                producer.send(where, message)
            feed = consumer._consumer._feed
            until(lambda: feed._consumer.pending == 4 or time.time() * 1000 > sent[0].jms_expiration)
            until(lambda: time.time() * 1000 > sent[-1].jms_expiration + 500)
            context.create_producer().send(where, "last")
            assert bodies(consumer, 1) == ["last"]


class TestCorrelationFilters:
    """Correlation ids chosen by a store, beside a selector (section 8.3)."""

    @pytest.mark.parametrize("kind", ["queue", "durable", "shared", "shared durable"])
    def test_a_range_of_numbers_and_names_chooses(self, bus: shoal.Bus, kind: str) -> None:
        factory = jms.ConnectionFactory(bus=bus, client_id="desk")
        with factory.create_context() as context:
            where: jms.Destination = ORDERS if kind == "queue" else X
            if kind == "queue":
                consumer = context.create_consumer(where, correlation="[#7;#13], 'it''s'")
            else:
                create = getattr(context, f"create_{kind.replace(' ', '_')}_consumer")
                consumer = create(X, "name", "JMSPriority < 9", correlation="[#7;#13], 'it''s'")
            for wanted in ("#6", "#7", "#13", "#14", "it's", "its"):
                context.create_producer().set_jms_correlation_id(wanted).send(where, wanted)
            assert bodies(consumer, 3) == ["#7", "#13", "it's"]

    @pytest.mark.parametrize(
        ("wanted", "why"), [("[a;b]", "compares no texts"), ("x,[#1;#2000]", "1024 ids")]
    )
    def test_what_a_store_cannot_look_for_is_refused(
        self, factory: jms.ConnectionFactory, wanted: str, why: str
    ) -> None:
        with factory.create_context() as context, pytest.raises(jms.InvalidSelectorError, match=why):
            context.create_consumer(ORDERS, correlation=wanted)


def test_the_exception_listener_hears_that_the_store_went(url: str, tmp_path: Path) -> None:
    """Section 6.1.7."""
    told: list[jms.JMSError] = []
    with shoal.connect(url) as bus, jms.ConnectionFactory(bus=bus).create_connection() as connection:
        connection.exception_listener = told.append
        with shoal.connect(url, store=tmp_path):
            session = connection.create_session()
            session.create_producer(ORDERS).send(session.create_message())
        until(lambda: any(each.error_code == "StoreDown" for each in told))


@pytest.mark.parametrize("where", [X, ORDERS])
def test_too_many_or_too_long_properties_are_refused_by_name(
    factory: jms.ConnectionFactory, where: jms.Destination
) -> None:
    """Section 3.5."""
    with factory.create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(where)
        many, long = session.create_message(), session.create_message()
        for number in range(1025):
            many.set_int_property(f"p{number}", number)
        long.set_string_property("p", "x" * 70_000)
        for message in (many, long):
            for mode in jms.DeliveryMode:
                with pytest.raises(jms.MessageFormatError, match="the property"):
                    producer.send(message, delivery_mode=mode)
