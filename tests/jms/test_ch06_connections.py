"""Section 6.1: connections."""

import contextlib
import threading
import time
from pathlib import Path

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S, World
from waiting import until

import shoal
from shoal import jms


def factory(url: str, **options: object) -> jms.ConnectionFactory:
    return jms.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT, **options)  # type: ignore[arg-type]


class TestSharing:
    def test_connections_of_one_url_share_a_node_and_have_numbers(self, url: str) -> None:
        made = [factory(url).create_connection() for _ in range(100)]
        assert len({id(connection._node.bus) for connection in made}) == 1
        assert [connection.number for connection in made] == list(range(1, 101))
        bus = made[0]._node.bus
        for connection in made:
            assert not bus.closed
            connection.close()
        assert bus.closed

    def test_other_options_are_another_node(self, url: str) -> None:
        with (
            factory(url).create_connection() as one,
            factory(url, when_full="drop").create_connection() as other,
        ):
            assert one._node is not other._node

    def test_a_bus_of_the_program_stays_open(self, url: str) -> None:
        with shoal.connect(url) as bus:
            with jms.ConnectionFactory(bus=bus).create_connection() as connection:
                assert connection._node.bus is bus
            assert not bus.closed

    def test_a_url_and_a_bus_together_are_refused(self, url: str) -> None:
        with shoal.connect(url) as bus, pytest.raises(shoal.ConfigError, match="not both"):
            jms.ConnectionFactory(url, bus=bus)

    def test_one_without_a_reference_gives_its_node_back(self, url: str) -> None:
        made = [factory(url).create_connection()]
        bus = made[0]._node.bus
        with pytest.warns(ResourceWarning, match="was not closed"):
            made.clear()
        until(lambda: bus.closed)


class TestClientId:
    """Section 6.1.2."""

    def test_it_is_set_once_and_before_anything_else(self, url: str) -> None:
        with factory(url).create_connection() as connection:
            assert connection.client_id is None
            connection.client_id = "desk"
            assert connection.client_id == "desk"
            with pytest.raises(jms.IllegalStateError, match="'desk' already"):
                connection.client_id = "other"

    @pytest.mark.parametrize("action", ["create_session", "start", "stop", "metadata"])
    def test_setting_it_after_something_was_done_is_refused(self, url: str, action: str) -> None:
        with factory(url).create_connection() as connection:
            done = getattr(connection, action)
            if callable(done):
                done()
            with pytest.raises(jms.IllegalStateError, match="before anything else"):
                connection.client_id = "desk"

    def test_one_from_the_factory_cannot_be_changed(self, url: str) -> None:
        with factory(url, client_id="desk").create_connection() as connection:
            assert connection.client_id == "desk"
            with pytest.raises(jms.IllegalStateError):
                connection.client_id = "other"

    def test_two_connections_cannot_have_the_same(self, url: str) -> None:
        with factory(url, client_id="desk").create_connection():
            with pytest.raises(jms.InvalidClientIDError, match="'desk' is in use"):
                factory(url, client_id="desk").create_connection()
            with factory(url).create_connection() as other, pytest.raises(jms.InvalidClientIDError):
                other.client_id = "desk"
        with factory(url, client_id="desk").create_connection() as again:
            assert again.client_id == "desk"

    def test_nor_one_of_the_bus_and_one_of_jms(self, url: str, tmp_path: Path) -> None:
        with shoal.connect(url, store=tmp_path):
            with shoal.connect(url, client_id="desk") as bus:
                with bus.subscribe("x", durable="d"), pytest.raises(jms.InvalidClientIDError, match="'desk'"):
                    factory(url, client_id="desk").create_connection()
                # On this bus it is the same connection.
                jms.ConnectionFactory(bus=bus, client_id="desk").create_connection().close()
            with (
                factory(url, client_id="desk").create_connection(),
                shoal.connect(url, client_id="desk") as bus,
                pytest.raises(shoal.InUseError, match="a connection of JMS"),
            ):
                bus.subscribe("x", durable="d")
            with shoal.connect(url, client_id="desk") as bus:
                bus.subscribe("x", durable="d").close()

    def test_nor_two_nodes(self, world: World) -> None:
        first = world.factory(world.sending, client_id="desk").create_connection()
        with first, pytest.raises(jms.InvalidClientIDError):
            world.factory(world.receiving, client_id="desk").create_connection()

    @pytest.mark.every_link
    @pytest.mark.parametrize("turn", range(3))
    def test_of_connections_that_claim_one_at_the_same_time_one_gets_it(
        self, world: World, turn: int
    ) -> None:
        made: list[jms.Connection] = []
        begin = threading.Barrier(2)

        def claim(node: shoal.Bus) -> None:
            begin.wait(PATIENCE_S)
            with contextlib.suppress(jms.InvalidClientIDError):
                made.append(world.factory(node, client_id=f"desk {turn}").create_connection())

        threads = [threading.Thread(target=claim, args=(node,)) for node in (world.sending, world.receiving)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert len(made) == 1
        made[0].close()

    @pytest.mark.parametrize("client_id", ["", "x" * 256, 5])
    def test_what_cannot_be_one_is_refused(self, url: str, client_id: str) -> None:
        with pytest.raises(jms.InvalidClientIDError, match="must be a str"):
            factory(url, client_id=client_id).create_connection()

    def test_a_context_can_be_given_one_first(self, url: str) -> None:
        with factory(url).create_context() as context:
            context.client_id = "desk"
            assert context.client_id == "desk"
        with factory(url).create_context() as context:
            context.create_producer()
            with pytest.raises(jms.IllegalStateError):
                context.client_id = "desk"


def test_credentials_are_refused_because_no_part_could_check_them(url: str) -> None:
    """Section 6.1.1."""
    with pytest.raises(jms.JMSSecurityError, match="no user names"):
        factory(url).create_connection("scott", "tiger")
    with pytest.raises(jms.JMSSecurityError):
        factory(url).create_context(user_name="scott")


class TestStartAndStop:
    """Sections 6.1.4 and 6.1.5."""

    def test_nothing_is_delivered_before_start_and_all_of_it_afterwards(self, world: World) -> None:
        connection = world.connection()
        session = connection.create_session()
        consumer = session.create_consumer(jms.Topic("x"))
        world.wait("x")
        producer = world.sender().create_producer()
        for number in range(3):
            producer.send(jms.Topic("x"), str(number))
        assert consumer.receive(timeout_s=0.05) is None
        connection.start()
        assert [
            message.body for message in (consumer.receive(timeout_s=PATIENCE_S) for _ in range(3)) if message
        ] == [
            "0",
            "1",
            "2",
        ]

    def test_a_stopped_connection_sends(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(jms.Topic("x"))
        world.wait("x")
        sender = world.sender()
        sender.stop()
        sender.create_producer().send(jms.Topic("x"), "sent")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "sent"

    def test_receive_blocks_while_it_is_stopped_and_its_time_goes_on(self, world: World) -> None:
        connection = world.connection()
        consumer = connection.create_session().create_consumer(jms.Topic("x"))
        world.wait("x")
        world.sender().create_producer().send(jms.Topic("x"), "waits")
        began = time.monotonic()
        assert consumer.receive(timeout_s=0.1) is None
        assert time.monotonic() - began >= 0.1
        got: list[jms.Message | None] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive(timeout_s=PATIENCE_S)))
        thread.start()
        connection.start()
        thread.join(PATIENCE_S)
        assert [message.body for message in got if message] == ["waits"]

    def test_what_arrives_for_a_receive_after_stop_is_kept_until_start(self, world: World) -> None:
        connection = world.connection()
        consumer = connection.create_session().create_consumer(jms.Topic("x"))
        connection.start()
        world.wait("x")
        got: list[jms.Message | None] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive(timeout_s=PATIENCE_S)))
        thread.start()
        until(lambda: consumer._session._delivering._receiving is consumer)
        connection.stop()
        world.sender().create_producer().send(jms.Topic("x"), "later")
        until(lambda: len(consumer._feed.first) == 1)
        assert got == []
        connection.start()
        thread.join(PATIENCE_S)
        assert [message.body for message in got if message] == ["later"]

    def test_stop_waits_for_a_listener_that_runs_and_none_is_called_afterwards(self, world: World) -> None:
        connection = world.connection()
        consumer = connection.create_session().create_consumer(jms.Topic("x"))
        begun, end, done = threading.Event(), threading.Event(), []

        def listen(message: jms.Message) -> None:
            begun.set()
            assert end.wait(PATIENCE_S)
            done.append(message.body)

        consumer.message_listener = listen
        connection.start()
        world.wait("x")
        producer = world.sender().create_producer()
        producer.send(jms.Topic("x"), "1")
        producer.send(jms.Topic("x"), "2")
        assert begun.wait(PATIENCE_S)
        stopping = threading.Thread(target=connection.stop)
        stopping.start()
        stopping.join(0.05)
        assert stopping.is_alive()
        end.set()
        stopping.join(PATIENCE_S)
        assert not stopping.is_alive()
        assert done == ["1"]
        connection.start()
        until(lambda: done == ["1", "2"])

    def test_a_listener_that_stop_waits_for_can_use_everything(self, world: World) -> None:
        connection = world.connection()
        session = connection.create_session(jms.Session.SESSION_TRANSACTED)
        begun, end, committed = threading.Event(), threading.Event(), []
        answers = world.sender().create_consumer(jms.Topic("y"))

        def listen(message: jms.Message) -> None:
            begun.set()
            assert end.wait(PATIENCE_S)
            session.create_producer(jms.Topic("y")).send(session.create_text_message("answer"))
            session.create_consumer(jms.Topic("z")).close()
            session.commit()
            committed.append(connection.started)

        session.create_consumer(jms.Topic("x")).message_listener = listen
        connection.start()
        world.wait("x")
        assert world.receiving.wait_for_subscribers("y", 1, PATIENCE_S)
        world.sender().create_producer().send(jms.Topic("x"), "")
        assert begun.wait(PATIENCE_S)
        stopping = threading.Thread(target=connection.stop)
        stopping.start()
        until(lambda: not connection.started)
        end.set()
        stopping.join(PATIENCE_S)
        assert committed == [False]
        assert answers.receive_body(str, timeout_s=PATIENCE_S) == "answer"

    def test_a_context_starts_with_its_first_consumer_unless_that_is_switched_off(self, url: str) -> None:
        with factory(url).create_context() as context, factory(url).create_context() as other:
            assert not context._connection.started
            context.create_consumer(jms.Topic("x"))
            assert context._connection.started
            other.auto_start = False
            consumer = other.create_consumer(jms.Topic("x"))
            context.create_producer().send(jms.Topic("x"), "waits")
            assert consumer.receive(timeout_s=0.05) is None
            other.start()
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "waits"

    def test_starting_and_stopping_twice_does_nothing(self, world: World) -> None:
        connection = world.connection()
        for call in (connection.stop, connection.start, connection.start, connection.stop, connection.stop):
            call()
        assert not connection.started

    def test_a_listener_cannot_stop_or_close_its_own_connection(self, world: World) -> None:
        receiver = world.receiver()
        consumer = receiver.create_consumer(jms.Topic("x"))
        raised: list[type] = []

        def listen(_: jms.Message) -> None:
            for call in (receiver.stop, receiver.close, receiver._connection.close, receiver._session.close):
                try:
                    call()
                except jms.IllegalStateError as error:
                    raised.append(type(error))

        consumer.message_listener = listen
        world.wait("x")
        world.sender().create_producer().send(jms.Topic("x"), "")
        until(lambda: raised == [jms.IllegalStateError] * 4)


def test_metadata_names_the_provider_and_the_specification(url: str) -> None:
    """Section 6.1.6."""
    with factory(url).create_connection() as connection:
        about = connection.metadata
    assert (about.jms_version, about.jms_major_version, about.jms_minor_version) == ("3.1", 3, 1)
    assert (about.jms_provider_name, about.provider_version) == ("Shoal", shoal.__version__)
    assert about.provider_version.startswith(f"{about.provider_major_version}.{about.provider_minor_version}")
    assert set(about.jmsx_property_names) == {"JMSXGroupID", "JMSXGroupSeq", "JMSXDeliveryCount"}


def test_an_exception_listener_hears_of_problems_that_have_no_other_place() -> None:
    """Section 6.1.7."""
    heard: list[jms.JMSError] = []
    other = shoal.listen("tcp://127.0.0.1:0")
    with (
        shoal.connect(other.links[0].url) as bus,
        jms.ConnectionFactory(bus=bus).create_connection() as connection,
    ):
        connection.exception_listener = heard.append
        assert connection.exception_listener is not None
        other.close()
        until(lambda: heard)
        connection.exception_listener = None
    assert heard[0].error_code == "LinkDown"


class TestExceptionListener:
    """Section 6.1.7."""

    def test_it_is_not_told_what_a_call_raises(self, url: str) -> None:
        heard: list[jms.JMSError] = []
        with factory(url).create_connection() as connection:
            assert connection.exception_listener is None
            connection.exception_listener = heard.append
            session = connection.create_session()
            with pytest.raises(jms.InvalidSelectorError):
                session.create_consumer(jms.Topic("x"), "x =")
            with pytest.raises(jms.InvalidDestinationError):
                session.create_producer(jms.Topic("a/*")).send(session.create_message())
            with pytest.raises(jms.IllegalStateError):
                session.commit()
        assert heard == []

    def test_it_is_called_once_at_a_time(self, url: str) -> None:
        begun: list[jms.JMSError] = []
        end = threading.Event()

        def listen(error: jms.JMSError) -> None:
            begun.append(error)
            assert end.wait(PATIENCE_S)

        with factory(url).create_connection() as connection:
            connection.exception_listener = listen
            problems = [jms.JMSError("one"), jms.JMSError("other")]
            threads = [threading.Thread(target=connection._tell, args=(each,)) for each in problems]
            for thread in threads:
                thread.start()
            until(lambda: begun)
            threads[1].join(0.05)
            assert len(begun) == 1
            end.set()
            for thread in threads:
                thread.join(PATIENCE_S)
            assert len(begun) == 2

    def test_it_may_close_its_connection(self) -> None:
        other = shoal.listen("tcp://127.0.0.1:0")
        connection = factory(other.links[0].url).create_connection()
        closed = threading.Event()

        def listen(_: jms.JMSError) -> None:
            connection.close()
            closed.set()

        connection.exception_listener = listen
        other.close()
        assert closed.wait(PATIENCE_S)
        with pytest.raises(jms.IllegalStateError):
            connection.create_session()


class TestClosing:
    """Section 6.1.8."""

    def test_the_last_context_closes_the_connection(self, url: str) -> None:
        first = factory(url).create_context()
        second = first.create_context()
        connection = first._connection
        first.close()
        first.close()
        with pytest.raises(jms.IllegalStateError):
            first.create_message()
        assert connection.create_session() is not None
        second.close()
        with pytest.raises(jms.IllegalStateError):
            connection.create_session()

    def test_its_transactions_are_rolled_back(self, world: World) -> None:
        heard = world.sender().create_consumer(jms.Topic("y"))
        connection = world.connection()
        session = connection.create_session(True)
        assert world.receiving.wait_for_subscribers("y", 1, PATIENCE_S)
        session.create_producer(jms.Topic("y")).send(session.create_text_message("never"))
        connection.close()
        world.receiver().create_producer().send(jms.Topic("y"), "sent")
        assert heard.receive_body(str, timeout_s=PATIENCE_S) == "sent"

    def test_a_receive_that_waits_returns_none(self, world: World) -> None:
        connection = world.connection()
        consumer = connection.create_session().create_consumer(jms.Topic("x"))
        connection.start()
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive()))
        thread.start()
        until(lambda: consumer._session._delivering._receiving is consumer)
        connection.close()
        thread.join(PATIENCE_S)
        assert got == [None]

    def test_so_does_one_that_waits_while_it_is_stopped(self, world: World) -> None:
        connection = world.connection()
        consumer = connection.create_session().create_consumer(jms.Topic("x"))
        got: list[object] = []
        thread = threading.Thread(target=lambda: got.append(consumer.receive()))
        thread.start()
        until(lambda: consumer._session._delivering._receiving is consumer)
        connection.close()
        thread.join(PATIENCE_S)
        assert got == [None]

    @pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED])
    def test_a_send_and_a_commit_that_wait_for_a_store_end_though_the_node_stays(
        self, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
    ) -> None:
        monkeypatch.setattr("shoal.jms.sending.CLOSE_S", 0.0)
        orders, failed = jms.Queue("orders"), []
        with shoal.connect(url) as bus:
            context = jms.ConnectionFactory(bus=bus).create_context(mode)

            def send() -> None:
                context.create_producer().send(orders, "order")
                if mode == jms.Session.SESSION_TRANSACTED:
                    context.commit()

            def fail() -> None:
                with pytest.raises(jms.IllegalStateError, match="may or may not have") as raised:
                    send()
                failed.append(raised.value)

            with shoal.connect(url, store=tmp_path):
                send()
            waiting = threading.Thread(target=fail)
            waiting.start()
            until(lambda: len(context._session._sender.waits))
            context.close()
            waiting.join(PATIENCE_S)
            assert failed
            # What the node still has goes to the store when it is back.
            with shoal.connect(url, store=tmp_path):
                bus.flush(PATIENCE_S)

    def test_a_listener_that_runs_keeps_its_session_until_it_returns(self, world: World) -> None:
        connection = world.connection()
        session = connection.create_session()
        consumer, producer = session.create_consumer(jms.Topic("x")), session.create_producer(jms.Topic("y"))
        begun, end = threading.Event(), threading.Event()
        sent: list[str | None] = []

        def listen(_: jms.Message) -> None:
            begun.set()
            assert end.wait(PATIENCE_S)
            message = session.create_text_message("still open")
            producer.send(message)
            sent.append(message.jms_message_id)

        consumer.message_listener = listen
        connection.start()
        world.wait("x")
        world.sender().create_producer().send(jms.Topic("x"), "")
        assert begun.wait(PATIENCE_S)
        closing = threading.Thread(target=connection.close)
        closing.start()
        until(lambda: connection._shut)
        with pytest.raises(jms.IllegalStateError):
            session.create_message()
        end.set()
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
        assert sent[0] is not None

    def test_closing_again_does_nothing(self, url: str) -> None:
        connection = factory(url).create_connection()
        session = connection.create_session()
        consumer, producer = session.create_consumer(jms.Topic("x")), session.create_producer()
        for thing in (connection, connection, session, consumer, producer):
            thing.close()

    def test_two_threads_can_close_at_once(self, url: str) -> None:
        connection = factory(url).create_connection()
        connection.create_session().create_consumer(jms.Topic("x"))
        threads = [threading.Thread(target=connection.close) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
        assert not any(thread.is_alive() for thread in threads)

    def test_received_messages_can_be_used_but_not_acknowledged(self, world: World) -> None:
        receiver = world.receiver(jms.Session.CLIENT_ACKNOWLEDGE)
        consumer = receiver.create_consumer(jms.Topic("x"))
        world.wait("x")
        world.sender().create_producer().send(jms.Topic("x"), "kept")
        message = consumer.receive(timeout_s=PATIENCE_S)
        receiver.close()
        assert message is not None
        assert message.body == "kept"
        with pytest.raises(jms.IllegalStateError):
            message.acknowledge()
