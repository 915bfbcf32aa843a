"""Chapters 14 and 15: the examples of the specification, in Python."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import PATIENCE_S
from waiting import until

from shoal import codecs, jms

AUTO, TRANSACTED = jms.Session.AUTO_ACKNOWLEDGE, jms.Session.SESSION_TRANSACTED
QUOTE = "ORCL 21.50 +0.25"


@pytest.fixture
def names(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What an administrator prepares: a factory, two queues and a topic, by name."""
    file = tmp_path / "jms.toml"
    file.write_text(
        f"""
        [factories]
        myCF = {{ url = "{url}", store = "{tmp_path / "store"}" }}
        newsCF = {{ url = "{url}", store = "{tmp_path / "store"}", client_id = "reader" }}
        [queues]
        StockSource = "stock/source"
        StockCopy = "stock/copy"
        [topics]
        BreakingNews = "news/breaking"
        """
    )
    monkeypatch.setenv("SHOAL_JMS_FILE", str(file))
    # One connection that stays keeps the store open between the others.
    with factory().create_connection():
        yield


def factory(name: str = "myCF") -> jms.ConnectionFactory:
    found = jms.lookup(name)
    assert isinstance(found, jms.ConnectionFactory)
    return found


def queue(name: str = "StockSource") -> jms.Queue:
    found = jms.lookup(name)
    assert isinstance(found, jms.Queue)
    return found


def topic() -> jms.Topic:
    found = jms.lookup("BreakingNews")
    assert isinstance(found, jms.Topic)
    return found


@pytest.mark.usefixtures("names")
class TestClassic:
    """Sections 14.1, 14.2 and 14.3."""

    def test_a_quote_is_sent_and_received(self) -> None:
        with factory().create_connection() as connection:
            session = connection.create_session(AUTO)
            producer, consumer = session.create_producer(queue()), session.create_consumer(queue())
            connection.start()
            message = session.create_text_message()
            message.text = QUOTE
            producer.send(message)
            received = consumer.receive(timeout_s=PATIENCE_S)
            assert isinstance(received, jms.TextMessage)
            assert (received.text, received.get_body(str)) == (QUOTE, QUOTE)

    def test_a_listener_gets_quotes(self) -> None:
        heard: list[str | None] = []

        class StockListener:
            def on_message(self, message: jms.Message) -> None:
                assert isinstance(message, jms.TextMessage)
                heard.append(message.text)

        with factory().create_connection() as connection:
            session = connection.create_session(AUTO)
            session.create_consumer(queue()).message_listener = StockListener()
            connection.start()
            sending = connection.create_session()
            sending.create_producer(queue()).send(sending.create_text_message(QUOTE))
            until(lambda: heard == [QUOTE])

    def test_a_selector_takes_one_sector(self) -> None:
        with factory().create_connection() as connection:
            session = connection.create_session()
            connection.start()
            consumer = session.create_consumer(queue(), "(StockSector = 'Technology')")
            producer = session.create_producer(queue())
            for sector in ("Financial", "Technology", "Global"):
                message = session.create_text_message(sector)
                message.set_string_property("StockSector", sector)
                producer.send(message)
            received = consumer.receive(timeout_s=PATIENCE_S)
            assert received is not None
            assert received.body == "Technology"
            assert consumer.receive(timeout_s=0.1) is None

    def test_a_durable_subscription_goes_on_where_it_stopped(self) -> None:
        with factory("newsCF").create_connection() as connection:
            session = connection.create_session(AUTO)
            session.create_durable_consumer(topic(), "mySubscription").close()
            session.create_producer(topic()).send(session.create_text_message("meanwhile"))
        with factory("newsCF").create_connection() as connection:
            session = connection.create_session(AUTO)
            consumer = session.create_durable_consumer(topic(), "mySubscription")
            connection.start()
            received = consumer.receive(timeout_s=PATIENCE_S)
            assert received is not None
            assert received.body == "meanwhile"


@dataclass
class StockObject:
    """The specification's object."""

    name: str
    value: float
    time: int


class TestTypes:
    """Section 14.4: what is written into each kind of message is read from it."""

    def test_bytes_are_read_as_a_whole_and_in_parts(self) -> None:
        message = jms.BytesMessage()
        message.write_bytes(b"stock data")
        message.reset()
        assert message.read_bytes(message.body_length) == b"stock data"
        message.reset()
        assert [message.read_bytes(6), message.read_bytes(6), message.read_bytes(6)] == [
            b"stock ",
            b"data",
            None,
        ]
        assert message.get_body(bytes) == b"stock data"

    def test_a_map_is_read_by_name_in_any_order(self) -> None:
        message = jms.MapMessage()
        message.set_string("Name", "ORCL")
        message.set_double("Value", 21.5)
        message.set_long("Time", 1_700_000_000_000)
        assert (message.get_long("Time"), message.get_string("Name")) == (1_700_000_000_000, "ORCL")
        assert message.get_body(dict) == {"Name": "ORCL", "Value": 21.5, "Time": 1_700_000_000_000}
        assert sorted(message.map_names) == ["Name", "Time", "Value"]

    def test_a_stream_is_read_in_the_order_of_writing(self) -> None:
        message = jms.StreamMessage()
        message.write_string("ORCL")
        message.write_double(21.5)
        message.write_long(7)
        message.reset()
        assert (message.read_string(), message.read_double(), message.read_long()) == ("ORCL", 21.5, 7)
        with pytest.raises(jms.MessageFormatError):
            message.get_body(list)

    def test_an_object_of_a_registered_class_travels(self) -> None:
        codecs.register_dataclass(StockObject)
        try:
            message = jms.ObjectMessage()
            message.object = StockObject("ORCL", 21.5, 7)
            assert message.get_body(StockObject) == StockObject("ORCL", 21.5, 7)
        finally:
            codecs.unregister(StockObject)


@pytest.mark.usefixtures("names")
class TestSimplified:
    """Sections 15.2, 15.3, 15.5, 15.7 and 15.9."""

    def test_sending_and_receiving_take_one_line_each(self) -> None:
        with factory().create_context() as context:
            context.create_producer().send(queue(), QUOTE)
        with factory().create_context(AUTO) as context:
            assert context.create_consumer(queue()).receive_body(str, timeout_s=PATIENCE_S) == QUOTE

    def test_options_are_set_in_a_row(self) -> None:
        with factory().create_context() as context:
            consumer = context.create_consumer(queue())
            (
                context.create_producer()
                .set_property("foo", "bar")
                .set_time_to_live_s(600)
                .set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT)
                .set_disable_message_timestamp(True)
                .send(queue(), QUOTE)
            )
            received = consumer.receive(timeout_s=PATIENCE_S)
            assert received is not None
            assert received.get_string_property("foo") == "bar"
            assert received.jms_delivery_mode is jms.DeliveryMode.NON_PERSISTENT

    def test_two_threads_of_one_connection_receive_with_two_contexts(self) -> None:
        heard: set[tuple[str, int]] = set()
        # Each of the two waits for the other: so both run at once.
        meeting = threading.Barrier(2, timeout=PATIENCE_S)

        def on_message(message: jms.Message) -> None:
            meeting.wait()
            heard.add((message.body, threading.get_ident()))

        with factory().create_context() as one, one.create_context(AUTO) as two:
            for context in (one, two):
                context.create_consumer(topic()).message_listener = on_message
            with factory().create_context() as sender:
                sender.create_producer().send(topic(), "to both")
                until(lambda: len(heard) == 2)

    def test_what_is_received_and_sent_in_a_transaction_goes_together(self) -> None:
        with factory().create_context() as outside, factory().create_context(TRANSACTED) as context:
            outside.create_producer().send(queue(), QUOTE)
            consumer = context.create_consumer(queue())
            for end in (context.rollback, context.commit):
                body = consumer.receive_body(str, timeout_s=PATIENCE_S)
                context.create_producer().send(queue("StockCopy"), body)
                end()
            copies = outside.create_consumer(queue("StockCopy"))
            assert copies.receive_body(str, timeout_s=PATIENCE_S) == QUOTE
            assert copies.receive(timeout_s=0.1) is None

    def test_a_request_is_answered_to_a_temporary_queue(self) -> None:
        with factory().create_context() as asking, factory().create_context() as answering:
            answers = asking.create_temporary_queue()
            asking.create_producer().set_jms_reply_to(answers).send(queue(), "what is ORCL?")
            request = answering.create_consumer(queue()).receive(timeout_s=PATIENCE_S)
            assert request is not None
            assert request.jms_reply_to is not None
            reply = answering.create_text_message(QUOTE)
            reply.jms_correlation_id = request.jms_message_id
            answering.create_producer().send(request.jms_reply_to, reply)
            answer = asking.create_consumer(answers).receive(timeout_s=PATIENCE_S)
            assert answer is not None
            assert (answer.body, answer.jms_correlation_id) == (QUOTE, request.jms_message_id)
