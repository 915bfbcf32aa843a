"""Chapter 8: receiving from topics."""

import threading

import pytest
from conftest import PATIENCE_S, World
from waiting import until

import shoal
from shoal import jms

X = jms.Topic("x")
CLIENT, AUTO, TRANSACTED = (
    jms.Session.CLIENT_ACKNOWLEDGE,
    jms.Session.AUTO_ACKNOWLEDGE,
    jms.Session.SESSION_TRANSACTED,
)


class TestSubscriptions:
    """Section 8.3.1, and 4.2."""

    @pytest.mark.every_link
    def test_every_consumer_gets_every_message(self, world: World) -> None:
        consumers = [world.receiver().create_consumer(X) for _ in range(3)]
        world.wait("x")
        world.sender().create_producer().send(X, "all")
        for consumer in consumers:
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "all"

    def test_a_consumer_gets_what_is_sent_after_it_was_made_however_far_away(self) -> None:
        with (
            shoal.listen("tcp://127.0.0.1:0", router=True) as far,
            shoal.listen("tcp://127.0.0.1:0", router=True) as near,
            shoal.connect(far.links[0].url) as sending,
            shoal.connect(near.links[0].url) as receiving,
        ):
            near.connect(far.links[0].url)
            sender = jms.ConnectionFactory(bus=sending, default_delivery_mode=1).create_context()
            receiver = jms.ConnectionFactory(bus=receiving).create_context()
            first = receiver.create_consumer(jms.Topic("first"))
            # From here on the way is there.
            assert sending.wait_for_subscribers("first", 1, PATIENCE_S)
            for number in range(50):
                topic = jms.Topic(f"t/{number}")
                consumer = receiver.create_consumer(topic)
                sender.create_producer().send(topic, "at once")
                assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "at once"
            first.close()
            sender.close()
            receiver.close()

    def test_a_node_that_does_not_answer_is_named_and_the_consumer_made_all_the_same(
        self, world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        failures = [shoal.errors.FlushError("7 went", (7,)), shoal.errors.FlushError("8 did not answer")]

        def sync(bus: shoal.Bus, timeout_s: float | None = None) -> None:
            raise failures.pop(0)

        monkeypatch.setattr(shoal.Bus, "sync", sync)
        consumer = world.receiver().create_consumer(X)
        world.wait("x")
        assert "A consumer may miss messages that are sent now: 8 did not answer" in caplog.text
        assert not failures
        world.sender().create_producer().send(X, "there")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "there"

    def test_wildcards_are_levels(self, world: World) -> None:
        receiver = world.receiver()
        one, rest = receiver.create_consumer(jms.Topic("a/*")), receiver.create_consumer(jms.Topic("a/>"))
        world.wait("a/b")
        sender = world.sender()
        sender.create_producer().send(jms.Topic("a/b/c"), "deep").send(jms.Topic("a/b"), "flat")
        message = one.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.jms_destination == jms.Topic("a/b")
        assert [rest.receive_body(str, timeout_s=PATIENCE_S) for _ in range(2)] == ["deep", "flat"]

    @pytest.mark.parametrize("name", ["a//b", "a/*b>", "a/+", "/a/b", ""])
    def test_a_pattern_that_is_none_is_refused(self, world: World, name: str) -> None:
        with pytest.raises(jms.InvalidDestinationError):
            world.receiver().create_consumer(jms.Topic(name))

    def test_a_closed_subscription_forgets_what_was_sent_meanwhile(self, world: World) -> None:
        receiver = world.receiver()
        receiver.create_consumer(X).close()
        witness = receiver.create_consumer(X)
        world.wait("x")
        world.sender().create_producer().send(X, "missed")
        # It has arrived before the next subscription begins.
        assert witness.receive_body(str, timeout_s=PATIENCE_S) == "missed"
        assert receiver.create_consumer(X).receive(timeout_s=0.05) is None

    def test_no_local_leaves_out_its_own_connection_and_no_other_of_the_same_node(self, url: str) -> None:
        factory = jms.ConnectionFactory(url, default_delivery_mode=1)
        with factory.create_context() as own, factory.create_context() as other:
            consumer, everything = own.create_consumer(X, no_local=True), own.create_consumer(X)
            own.create_producer().send(X, "own")
            other.create_producer().send(X, "other")
            another_session = own.create_context()
            another_session.create_producer().send(X, "own too")
            other.create_producer().send(X, "end")
            assert [consumer.receive_body(str, timeout_s=PATIENCE_S) for _ in range(2)] == ["other", "end"]
            assert [everything.receive_body(str, timeout_s=PATIENCE_S) for _ in range(4)] == [
                "own",
                "other",
                "own too",
                "end",
            ]
            another_session.close()

    @pytest.mark.every_link
    def test_a_selector_picks_messages(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(X, "region = 'EU' AND JMSPriority > 4 AND JMSType = 'trade'")
        assert consumer.message_selector == "region = 'EU' AND JMSPriority > 4 AND JMSType = 'trade'"
        world.wait("x")
        producer = world.sender().create_producer().set_jms_type("trade")
        producer.set_property("region", "US").set_priority(9).send(X, "1")
        producer.set_property("region", "EU").set_priority(4).send(X, "2")
        producer.set_priority(5).send(X, "3")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "3"

    @pytest.mark.parametrize("selector", [None, ""])
    def test_no_selector_and_an_empty_one_are_the_same(self, world: World, selector: str | None) -> None:
        consumer = world.receiver().create_consumer(X, selector)
        assert consumer.message_selector is None
        world.wait("x")
        world.sender().create_producer().send(X, "all")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "all"

    @pytest.mark.parametrize("selector", ["x >", "TRUE = 0", "x IN (1)", "'a'", "   "])
    def test_an_invalid_selector_is_refused_when_the_consumer_is_made(
        self, world: World, selector: str
    ) -> None:
        with pytest.raises(jms.InvalidSelectorError):
            world.receiver().create_consumer(X, selector)

    def test_selectors_see_javas_types(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X, "b + s = 300 AND f < 0.2 AND list NOT IN ('a')")
        world.wait("x")
        message = jms.Message()
        message.set_byte_property("b", 100)
        message.set_short_property("s", 200)
        message.set_float_property("f", 0.1)
        message.set_int_property("list", 5)
        producer = world.sender().create_producer()
        producer.send(X, message)
        message.set_string_property("list", "b")
        producer.send(X, message)
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert arrived is not None
        assert arrived.get_object_property("list") == "b"

    def test_correlation_ranges_pick_messages(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X, correlation="[#7;#13]")
        world.wait("x")
        producer = world.sender().create_producer()
        for number in (6, 7, 13, 14):
            producer.set_jms_correlation_id(f"#{number}").send(X, str(number))
        assert [consumer.receive_body(str, timeout_s=PATIENCE_S) for _ in range(2)] == ["7", "13"]
        assert consumer.receive(timeout_s=0.05) is None


class TestSynchronously:
    """Sections 8.5 and 8.6."""

    def test_receive_waits_for_its_timeout_and_receive_no_wait_not_at_all(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        assert consumer.receive_no_wait() is None
        assert consumer.receive(timeout_s=0.01) is None

    @pytest.mark.parametrize("timeout_s", [-1, "1", float("nan"), True])
    def test_a_time_that_is_none_is_refused(self, world: World, timeout_s: float) -> None:
        with pytest.raises((TypeError, ValueError), match="timeout_s"):
            world.receiver().create_consumer(X).receive(timeout_s=timeout_s)

    def test_an_iteration_goes_on_until_the_consumer_is_closed(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(X)
        world.wait("x")
        for number in range(5):
            world.sender().create_producer().send(X, str(number))
        found = []
        for message in consumer:
            found.append(message.body)
            if len(found) == 5:
                consumer.close()
                break
        assert sorted(found) == list("01234")
        with pytest.raises(jms.IllegalStateError):
            next(iter(consumer))

    @pytest.mark.parametrize(
        ("body", "kind"), [("text", str), (b"bytes", bytes), ({"a": 1}, dict), (5, int), ("text", object)]
    )
    def test_receive_body_gives_the_body(self, world: World, body: object, kind: type) -> None:
        consumer = world.receiver().create_consumer(X)
        world.wait("x")
        world.sender().create_producer().send(X, body)
        assert consumer.receive_body(kind, timeout_s=PATIENCE_S) == body
        assert consumer.receive_body_no_wait(kind) is None

    @pytest.mark.parametrize("mode", [AUTO, jms.Session.DUPS_OK_ACKNOWLEDGE])
    def test_a_body_of_another_type_leaves_the_message_the_next_one_unmarked(
        self, world: World, mode: int
    ) -> None:
        consumer = world.receiver(mode).create_consumer(X)
        world.wait("x")
        world.sender().create_producer().send(X, "text").send(X, "next")
        for _ in range(2):
            with pytest.raises(jms.MessageFormatError):
                consumer.receive_body(bytes, timeout_s=PATIENCE_S)
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.body == "text"
        assert not message.jms_redelivered
        assert message.get_int_property("JMSXDeliveryCount") == 1

    @pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
    def test_in_other_modes_it_counts_as_received_and_recovery_brings_it_back(
        self, world: World, mode: int
    ) -> None:
        receiver = world.receiver(mode)
        consumer = receiver.create_consumer(X)
        world.wait("x")
        world.sender().create_producer().send(X, "text").send(X, "next")
        with pytest.raises(jms.MessageFormatError):
            consumer.receive_body(bytes, timeout_s=PATIENCE_S)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "next"
        receiver.recover() if mode == CLIENT else receiver.rollback()
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert (message.body, message.jms_redelivered) == ("text", True)

    def test_messages_without_a_body_and_streams_have_none_to_receive(self, world: World) -> None:
        consumer = world.receiver(CLIENT).create_consumer(X)
        world.wait("x")
        producer = world.sender().create_producer()
        producer.send(X, jms.Message()).send(X, jms.StreamMessage([1])).send(X, jms.TextMessage(None))
        for _ in range(3):
            with pytest.raises(jms.MessageFormatError):
                consumer.receive_body(object, timeout_s=PATIENCE_S)


class TestAsynchronously:
    """Section 8.7."""

    def test_a_listener_may_be_a_function_or_an_object(self, world: World) -> None:
        heard: list[object] = []

        class Listener:
            def on_message(self, message: jms.Message) -> None:
                heard.append(("object", message.body))

        first, second = world.receiver(), world.receiver()
        first.create_consumer(X).message_listener = Listener()
        second.create_consumer(X).message_listener = lambda message: heard.append(("function", message.body))
        world.wait("x")
        world.sender().create_producer().send(X, "m")
        until(lambda: sorted(heard) == [("function", "m"), ("object", "m")])  # type: ignore[type-var]

    def test_what_is_no_listener_is_refused(self, world: World) -> None:
        with pytest.raises(TypeError, match="on_message"):
            world.receiver().create_consumer(X).message_listener = 5  # type: ignore[assignment]

    @pytest.mark.parametrize("mode", [AUTO, jms.Session.DUPS_OK_ACKNOWLEDGE])
    def test_a_message_whose_listener_raises_comes_again_at_once_until_it_is_given_up(
        self, world: World, mode: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        heard: list[tuple[object, bool, int]] = []

        def listen(message: jms.Message) -> None:
            heard.append(
                (message.body, message.jms_redelivered, message.get_int_property("JMSXDeliveryCount"))
            )
            if message.body == "bad":
                raise RuntimeError("cannot")

        world.receiver(mode, redeliveries_max=2).create_consumer(X).message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "bad").send(X, "good")
        until(lambda: len(heard) == 4)
        assert heard == [("bad", False, 1), ("bad", True, 2), ("bad", True, 3), ("good", False, 1)]
        assert "A message listener raised an exception" in caplog.text
        assert "given up after 3 deliveries" in caplog.text

    @pytest.mark.parametrize("mode", [CLIENT, TRANSACTED])
    def test_in_other_modes_the_next_one_follows(
        self, world: World, mode: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        heard: list[object] = []

        def listen(message: jms.Message) -> None:
            heard.append(message.body)
            if message.body == "bad":
                raise RuntimeError("cannot")

        world.receiver(mode).create_consumer(X).message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "bad").send(X, "good")
        until(lambda: heard == ["bad", "good"])

    def test_a_listener_may_recover_its_session(self, world: World) -> None:
        receiver = world.receiver()
        heard: list[int] = []

        def listen(message: jms.Message) -> None:
            heard.append(message.get_int_property("JMSXDeliveryCount"))
            if len(heard) < 3:
                receiver.recover()

        receiver.create_consumer(X).message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "m").send(X, "n")
        until(lambda: heard == [1, 2, 3, 1])

    def test_a_listener_may_publish_and_be_given_more(self, world: World) -> None:
        receiver = world.receiver()
        producer = receiver.create_producer()
        heard: list[int] = []

        def listen(message: jms.Message) -> None:
            number = int(message.body)
            heard.append(number)
            if number < 50:
                producer.send(X, str(number + 1))

        receiver.create_consumer(X).message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "0")
        until(lambda: heard == list(range(51)))

    def test_taking_the_listener_away_ends_the_calls(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(X)
        heard: list[object] = []
        consumer.message_listener = lambda message: heard.append(message.body)
        world.wait("x")
        producer = world.sender().create_producer()
        producer.send(X, "heard")
        until(lambda: heard == ["heard"])
        consumer.message_listener = None
        assert consumer.message_listener is None
        producer.send(X, "received")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "received"
        assert heard == ["heard"]


class TestClosing:
    """Section 8.8."""

    def test_close_ends_a_receive_that_waits_and_waits_for_it(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(X)
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive()))
        thread.start()
        until(lambda: receiver._session._delivering._receiving is not None)
        consumer.close()
        assert receiver._session._delivering._receiving is None
        thread.join(PATIENCE_S)
        assert got == [None]

    def test_close_waits_for_the_listener(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        begun, end, done = threading.Event(), threading.Event(), []

        def listen(_: jms.Message) -> None:
            begun.set()
            assert end.wait(PATIENCE_S)
            done.append(1)

        consumer.message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "")
        assert begun.wait(PATIENCE_S)
        closing = threading.Thread(target=consumer.close)
        closing.start()
        closing.join(0.05)
        assert closing.is_alive()
        end.set()
        closing.join(PATIENCE_S)
        assert done == [1]

    def test_a_listener_may_close_its_own_consumer(self, world: World) -> None:
        consumer = world.receiver().create_consumer(X)
        heard: list[object] = []

        def listen(message: jms.Message) -> None:
            consumer.close()
            heard.append(message.body)

        consumer.message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(X, "1").send(X, "2")
        until(lambda: heard)
        world.sender().create_producer().send(X, "3")
        threading.Event().wait(0.05)
        assert heard == ["1"]
