"""Sections 8.3.2 to 8.3.4: shared and durable subscriptions, which a store remembers."""

import pytest
from conftest import PATIENCE_S
from waiting import gathered, until

import shoal
from shoal import jms

X, Y = jms.Topic("x"), jms.Topic("y")
CLIENT, TRANSACTED = jms.Session.CLIENT_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED


def context_of(bus: shoal.Bus, client_id: str | None = "desk", mode: int = 1) -> jms.JMSContext:
    return jms.ConnectionFactory(bus=bus, client_id=client_id).create_context(mode)


def next_of(consumer: jms.JMSConsumer) -> object:
    return consumer.receive_body(object, timeout_s=PATIENCE_S)


class TestUnsharedDurable:
    """Section 8.3.3."""

    @pytest.mark.parametrize(("topic", "selector"), [(X, "a = 2"), (Y, "a = 1"), (X, None)])
    def test_another_topic_or_selector_begins_anew(
        self, bus: shoal.Bus, topic: jms.Topic, selector: str | None
    ) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit", "a = 1").close()
            context.create_producer().set_property("a", 1).send(X, "of the old one")
            consumer = context.create_durable_consumer(topic, "audit", selector)
            for a in (1, 2):
                context.create_producer().set_property("a", a).send(topic, a)
            assert next_of(consumer) == (2 if selector == "a = 2" else 1)

    def test_the_same_selector_goes_on_where_it_was(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit", "a = 1").close()
            for a in (1, 2):
                context.create_producer().set_property("a", a).send(X, a)
            assert next_of(context.create_durable_consumer(X, "audit", "a = 1")) == 1

    def test_no_selector_and_an_empty_one_are_the_same_subscription(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit").close()
            context.create_producer().send(X, "kept")
            assert next_of(context.create_durable_consumer(X, "audit", "")) == "kept"

    def test_client_ids_tell_subscriptions_of_one_name_apart(self, bus: shoal.Bus) -> None:
        with context_of(bus, "one") as one, context_of(bus, "other") as other:
            consumers = [context.create_durable_consumer(X, "audit") for context in (one, other)]
            one.create_producer().send(X, "both")
            assert [next_of(consumer) for consumer in consumers] == ["both", "both"]

    def test_what_was_not_acknowledged_comes_again_marked_to_the_next_consumer(self, bus: shoal.Bus) -> None:
        with context_of(bus, mode=CLIENT) as context:
            consumer = context.create_durable_consumer(X, "audit")
            context.create_producer().send(X, "1").send(X, "2")
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            message.acknowledge()
            assert next_of(consumer) == "2"
        with context_of(bus) as context:
            message = context.create_durable_consumer(X, "audit").receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert (message.body, message.jms_redelivered) == ("2", True)
            assert message.get_int_property("JMSXDeliveryCount") == 2

    def test_no_local_leaves_out_what_its_own_connection_sends(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context, context_of(bus, None) as other:
            consumer = context.create_durable_consumer(X, "audit", no_local=True)
            context.create_producer().send(X, "own")
            other.create_producer().send(X, "theirs")
            assert next_of(consumer) == "theirs"
            assert consumer.receive(timeout_s=0.2) is None

    @pytest.mark.parametrize("mode", list(jms.DeliveryMode))
    def test_no_local_leaves_out_what_connections_of_its_client_id_sent_in_earlier_runs(
        self, bus: shoal.Bus, mode: jms.DeliveryMode
    ) -> None:
        with context_of(bus, None) as context:
            context.client_id = "desk"
            context.create_durable_consumer(X, "audit", no_local=True).close()
            context.create_producer().set_delivery_mode(mode).send(X, "own")
        with context_of(bus, "other") as other:
            other.create_producer().set_delivery_mode(mode).set_property("a", 1).send(X, "theirs")
        with context_of(bus) as context:
            consumer = context.create_durable_consumer(X, "audit", no_local=True)
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert (message.body, dict(message.properties).keys()) == ("theirs", {"a", "JMSXDeliveryCount"})
            assert consumer.receive(timeout_s=0.2) is None

    def test_another_value_of_no_local_begins_anew(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit").close()
            context.create_producer().send(X, "of the old one")
            consumer = context.create_durable_consumer(X, "audit", no_local=True)
            assert consumer.receive(timeout_s=0.2) is None

    def test_a_consumer_that_is_there_gets_messages_that_are_not_persistent_too(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            consumer = context.create_durable_consumer(X, "audit")
            producer = context.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT)
            producer.send(X, "light")
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert message.body == "light"
            assert message.jms_delivery_mode is jms.DeliveryMode.NON_PERSISTENT

    def test_messages_that_are_not_persistent_are_kept_while_the_subscriber_is_away(
        self, bus: shoal.Bus
    ) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit").close()
            context.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT).send(X, "light")
            context.create_producer().send(X, "kept")
            consumer = context.create_durable_consumer(X, "audit")
            assert {next_of(consumer), next_of(consumer)} == {"light", "kept"}
            assert consumer.receive(timeout_s=0.2) is None

    @pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
    def test_both_kinds_are_acknowledged_and_brought_back_together(self, bus: shoal.Bus, mode: int) -> None:
        with context_of(bus, mode=mode) as context, context_of(bus, None) as sender:
            consumer = context.create_durable_consumer(X, "audit")
            for number in range(3):
                sender.create_producer().send(X, f"kept {number}")
                light = sender.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT)
                light.send(X, f"light {number}")
            everything = {f"{kind} {number}" for kind in ("kept", "light") for number in range(3)}
            assert {next_of(consumer) for _ in range(6)} == everything
            (context.rollback if mode == TRANSACTED else context.recover)()
            again = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(6)]
            assert {each.body for each in again if each} == everything
            assert all(each.jms_redelivered for each in again if each)
            (context.commit if mode == TRANSACTED else context.acknowledge)()
            (context.rollback if mode == TRANSACTED else context.recover)()
            assert consumer.receive(timeout_s=0.2) is None
        with context_of(bus) as context:
            assert context.create_durable_consumer(X, "audit").receive(timeout_s=0.2) is None

    def test_unsubscribing_forgets_the_backlog(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            context.create_durable_consumer(X, "audit").close()
            context.create_producer().send(X, "kept")
            context.unsubscribe("audit")
            consumer = context.create_durable_consumer(X, "audit")
            assert consumer.receive(timeout_s=0.2) is None

    def test_errors_call_it_by_the_name_that_the_program_gave_it(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context, pytest.raises(jms.InvalidDestinationError) as caught:
            context.unsubscribe("prices")
        assert "no durable subscription 'prices' of the client id 'desk'" in str(caught.value)

    def test_without_a_store_errors_call_it_by_its_name(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("shoal.bus.store_channel.LOOK_S", 0.1)
        with (
            shoal.connect(url) as bus,
            context_of(bus) as context,
            pytest.raises(jms.ResourceAllocationError) as caught,
        ):
            context.create_durable_consumer(jms.Topic("x"), "prices")
        assert str(caught.value).startswith("the durable subscription 'prices' of the client id 'desk' needs")

    def test_it_cannot_be_forgotten_while_a_message_is_not_acknowledged(self, bus: shoal.Bus) -> None:
        with context_of(bus, mode=TRANSACTED) as context:
            consumer = context.create_durable_consumer(X, "audit")
            context.create_producer().send(X, "1")
            context.commit()
            assert next_of(consumer) == "1"
            consumer.close()
            with pytest.raises(jms.IllegalStateError):
                context.unsubscribe("audit")
            context.commit()
            context.unsubscribe("audit")

    def test_a_commit_acknowledges_and_a_rollback_brings_back(self, bus: shoal.Bus) -> None:
        with context_of(bus, mode=TRANSACTED) as context:
            consumer = context.create_durable_consumer(X, "audit")
            context.create_producer().send(X, "1")
            context.commit()
            assert next_of(consumer) == "1"
            context.rollback()
            message = consumer.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert message.jms_redelivered
            context.commit()
            context.rollback()
            assert consumer.receive(timeout_s=0.2) is None

    @pytest.mark.parametrize("name", ["", None, 5, "n" * 129])
    def test_a_name_that_is_none_is_refused(self, bus: shoal.Bus, name: object) -> None:
        with context_of(bus) as context, pytest.raises(jms.IllegalStateError, match="name of a subscription"):
            context.create_durable_consumer(X, name)  # type: ignore[arg-type]


class TestShared:
    """Sections 8.3.2 and 8.3.4."""

    @pytest.mark.parametrize("kind", ["create_shared_consumer", "create_shared_durable_consumer"])
    def test_another_selector_is_refused_while_it_is_in_use(self, bus: shoal.Bus, kind: str) -> None:
        with context_of(bus, None) as context, context_of(bus, None) as other:
            getattr(context, kind)(X, "work", "a = 1")
            for topic, selector in ((X, "a = 2"), (Y, "a = 1"), (X, None)):
                with pytest.raises(jms.JMSError):
                    getattr(other, kind)(topic, "work", selector)

    @pytest.mark.every_link
    @pytest.mark.parametrize("kind", ["create_shared_consumer", "create_shared_durable_consumer"])
    def test_shared_consumers_get_messages_that_are_not_persistent_too(
        self, bus: shoal.Bus, kind: str
    ) -> None:
        with context_of(bus, None) as context, context_of(bus, None) as sender:
            consumers = [getattr(context, kind)(X, "work") for _ in range(2)]
            light = sender.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT)
            for number in range(10):
                light.send(X, f"light {number}")
                sender.create_producer().send(X, f"kept {number}")
            got = [message.body for each in gathered(consumers, 20) for message in each]
            assert sorted(got) == sorted(f"{what} {n}" for what in ("light", "kept") for n in range(10))
            assert [consumer.receive(timeout_s=0.1) for consumer in consumers] == [None, None]

    def test_an_unused_durable_one_is_replaced(self, bus: shoal.Bus) -> None:
        with context_of(bus, None) as context:
            context.create_shared_durable_consumer(X, "work", "a = 1").close()
            context.create_producer().set_property("a", 1).send(X, "old")
            consumer = context.create_shared_durable_consumer(X, "work", "a = 2")
            context.create_producer().set_property("a", 2).send(X, "new")
            assert next_of(consumer) == "new"

    def test_a_durable_one_keeps_messages_and_another_one_does_not(self, bus: shoal.Bus) -> None:
        with context_of(bus, None) as context:
            context.create_shared_durable_consumer(X, "kept").close()
            context.create_shared_consumer(X, "gone").close()
            context.create_producer().send(X, "meanwhile")
            assert next_of(context.create_shared_durable_consumer(X, "kept")) == "meanwhile"
            assert context.create_shared_consumer(X, "gone").receive(timeout_s=0.2) is None

    def test_connections_with_and_without_a_client_id_share_nothing(self, bus: shoal.Bus) -> None:
        with context_of(bus, None) as plain, context_of(bus, "desk") as named:
            consumers = [each.create_shared_durable_consumer(X, "work") for each in (plain, named)]
            plain.create_producer().send(X, "both")
            assert [next_of(consumer) for consumer in consumers] == ["both", "both"]

    @pytest.mark.parametrize("first", ["create_durable_consumer", "create_shared_durable_consumer"])
    @pytest.mark.parametrize("is_away", [False, True])
    def test_a_durable_subscription_is_shared_or_unshared_and_the_other_kind_is_refused(
        self, bus: shoal.Bus, first: str, is_away: bool
    ) -> None:
        kinds = {"create_durable_consumer", "create_shared_durable_consumer"}
        (other,) = kinds - {first}
        with context_of(bus) as context:
            consumer = getattr(context, first)(X, "audit")
            if is_away:
                consumer.close()
            with pytest.raises(shoal.IllegalStateError, match=r"shared|in use"):
                getattr(context, other)(X, "audit")
            consumer.close()
            context.create_producer().send(X, "kept")
            assert next_of(getattr(context, first)(X, "audit")) == "kept"
        with context_of(bus) as context:
            with pytest.raises(shoal.IllegalStateError, match="shared"):
                # Not even one that would begin anew.
                getattr(context, other)(Y, "audit", "a = 1")
            context.unsubscribe("audit")
            getattr(context, other)(X, "audit")

    def test_one_name_is_not_shared_and_unshared_at_once(self, bus: shoal.Bus) -> None:
        with context_of(bus) as context:
            consumer = context.create_durable_consumer(X, "audit")
            with pytest.raises(jms.IllegalStateError):
                context.create_shared_durable_consumer(X, "audit")
            consumer.close()

    def test_a_durable_and_another_one_may_have_one_name(self, bus: shoal.Bus) -> None:
        with context_of(bus, None) as context:
            durable = context.create_shared_durable_consumer(X, "work")
            other = context.create_shared_consumer(X, "work")
            context.create_producer().send(X, "both")
            assert [next_of(durable), next_of(other)] == ["both", "both"]

    def test_what_one_did_not_acknowledge_another_gets(self, bus: shoal.Bus) -> None:
        with context_of(bus, None) as other:
            with context_of(bus, None, CLIENT) as context:
                consumer = context.create_shared_durable_consumer(X, "work")
                other.create_producer().send(X, "1")
                assert next_of(consumer) == "1"
                second = other.create_shared_durable_consumer(X, "work")
            message = second.receive(timeout_s=PATIENCE_S)
            assert message is not None
            assert (message.body, message.jms_redelivered) == ("1", True)


class TestKeptMessages:
    """Sections 7.7 to 7.9, 3.5.9 and 4.1.7: what a store does with the options of a message."""

    def test_an_expired_message_is_never_delivered(self, factory: jms.ConnectionFactory) -> None:
        queue = jms.Queue("orders")
        with factory.create_context() as context:
            context.create_producer().set_time_to_live_s(0.05).send(queue, "short")
            # Its life begins when the store has it, however long that took.
            until(lambda: not list(context.create_browser(queue)))
            context.create_producer().send(queue, "later")
            consumer = context.create_consumer(queue)
            assert next_of(consumer) == "later"
            assert consumer.receive(timeout_s=0.1) is None

    def test_a_higher_priority_comes_first(self, factory: jms.ConnectionFactory) -> None:
        queue = jms.Queue("orders")
        with factory.create_context() as context:
            for priority in (1, 9, 5):
                context.create_producer().set_priority(priority).send(queue, priority)
            consumer = context.create_consumer(queue)
            assert [next_of(consumer) for _ in range(3)] == [9, 5, 1]

    def test_a_group_goes_to_one_consumer(self, factory: jms.ConnectionFactory) -> None:
        queue = jms.Queue("orders")
        with factory.create_context() as one, factory.create_context() as other:
            consumers = [one.create_consumer(queue), other.create_consumer(queue)]
            for number in range(10):
                one.create_producer().set_property("JMSXGroupID", "g").send(queue, number)
            found = [[message.body for message in mine] for mine in gathered(consumers, 10)]
            assert sorted(found) == [[], list(range(10))]

    def test_a_queue_requestor_asks_and_is_answered(self, factory: jms.ConnectionFactory) -> None:
        import threading

        questions = jms.Queue("questions")
        with factory.create_connection() as connection, factory.create_context() as server:
            connection.start()

            def answer() -> None:
                question = server.create_consumer(questions).receive(timeout_s=PATIENCE_S)
                assert question is not None
                assert isinstance(question.jms_reply_to, jms.TemporaryQueue)
                server.create_producer().set_jms_correlation_id(question.jms_message_id).send(
                    question.jms_reply_to, f"{question.body}!"
                )

            answering = threading.Thread(target=answer)
            answering.start()
            with jms.QueueRequestor(connection.create_session(), questions) as requestor:
                question = jms.TextMessage("who")
                reply = requestor.request(question, timeout_s=PATIENCE_S)
                assert reply is not None
                assert (reply.body, reply.jms_correlation_id) == ("who!", question.jms_message_id)
            answering.join()

    def test_a_requestor_needs_a_session_that_acknowledges_by_itself(
        self, factory: jms.ConnectionFactory
    ) -> None:
        with factory.create_connection() as connection:
            with pytest.raises(ValueError, match="acknowledge"):
                jms.QueueRequestor(connection.create_session(transacted=True), jms.Queue("q"))
            with pytest.raises(jms.InvalidDestinationError, match="must be a Queue"):
                jms.QueueRequestor(connection.create_session(), X)  # type: ignore[arg-type]
