"""Sections 3.5.4, 3.10, 3.11.2, 3.11.3 and 3.12: how values are read, and whose they are."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from conftest import PATIENCE_S, World

from shoal import jms, types

#: A value of each type; a text is of digits, so that it can be read as a number.
VALUES = {
    "boolean": True,
    "byte": 1,
    "short": 2,
    "char": "c",
    "int": 3,
    "long": 4,
    "float": 0.5,
    "double": 0.25,
    "string": "7",
    "bytes": b"x",
}
#: What each can be read as, by the table of section 3.11.3; that of section 3.5.4 has no char and bytes.
READABLE = {
    "boolean": {"boolean", "string"},
    "byte": {"byte", "short", "int", "long", "string"},
    "short": {"short", "int", "long", "string"},
    "char": {"char", "string"},
    "int": {"int", "long", "string"},
    "long": {"long", "string"},
    "float": {"float", "double", "string"},
    "double": {"double", "string"},
    "string": {"boolean", "byte", "short", "int", "long", "float", "double", "string"},
    "bytes": {"bytes"},
}
TEXTS = {"boolean": "true", "float": "0.5", "double": "0.25"}
PROPERTY_KINDS = [kind for kind in VALUES if kind not in ("char", "bytes")]


def check(kind: str, wanted: str, read: Callable[[], Any]) -> None:
    """That a value of a type can be read as another, or not, as the table says."""
    if wanted not in READABLE[kind]:
        with pytest.raises(jms.MessageFormatError):
            read()
    elif kind == "string":
        assert read() == (False if wanted == "boolean" else "7" if wanted == "string" else 7)
    elif wanted == "string":
        assert read() == TEXTS.get(kind, str(VALUES[kind]))
    else:
        assert read() == VALUES[kind]


class TestConversions:
    def test_a_property_is_read_as_the_table_says_and_as_nothing_else(self) -> None:
        """Section 3.5.4."""
        message = jms.Message()
        for kind in PROPERTY_KINDS:
            getattr(message, f"set_{kind}_property")(kind, VALUES[kind])
            for wanted in PROPERTY_KINDS:
                check(kind, wanted, partial(getattr(message, f"get_{wanted}_property"), kind))

    def test_an_entry_of_a_map_is_read_as_the_table_says_and_as_nothing_else(self) -> None:
        """Section 3.11.3."""
        message = jms.MapMessage()
        for kind, value in VALUES.items():
            getattr(message, f"set_{kind}")(kind, value)
            for wanted in VALUES:
                check(kind, wanted, partial(getattr(message, f"get_{wanted}"), kind))

    def test_a_value_of_a_stream_is_read_as_the_table_says_and_as_nothing_else(self) -> None:
        """Section 3.11.3: what could not be read is still the next."""
        for kind, value in VALUES.items():
            message = jms.StreamMessage()
            getattr(message, f"write_{kind}")(value)
            for wanted in VALUES:
                message.reset()
                check(kind, wanted, getattr(message, f"read_{wanted}"))
                if wanted not in READABLE[kind]:
                    assert message.read_object() == value

    @pytest.mark.parametrize("kind", ["byte", "short", "int", "long", "float", "double"])
    def test_a_text_that_is_no_number_raises_and_is_still_the_next(self, kind: str) -> None:
        """Sections 3.5.4 and 3.11.3."""
        message = jms.StreamMessage(["seven"])
        message.set_string_property("x", "seven")
        entries = jms.MapMessage({"x": "seven"})
        message.reset()
        for read in (
            getattr(message, f"read_{kind}"),
            lambda: getattr(message, f"get_{kind}_property")("x"),
            lambda: getattr(entries, f"get_{kind}")("x"),
        ):
            with pytest.raises(jms.NumberFormatError, match="'seven'"):
                read()
        assert message.read_string() == "seven"

    def test_null_is_read_as_a_null_text_would_be(self) -> None:
        """Section 3.11.3; an entry that is not there is null."""
        stream = jms.StreamMessage([None])
        entries = jms.MapMessage()
        stream.reset()
        for kind, error in {
            "byte": jms.NumberFormatError,
            "short": jms.NumberFormatError,
            "int": jms.NumberFormatError,
            "long": jms.NumberFormatError,
            "float": TypeError,
            "double": TypeError,
            "char": TypeError,
        }.items():
            with pytest.raises(error):
                getattr(stream, f"read_{kind}")()
            with pytest.raises(error):
                getattr(entries, f"get_{kind}")("x")
        assert [entries.get_string("x"), entries.get_bytes("x"), entries.get_object("x")] == [None] * 3
        assert entries.get_boolean("x") is stream.read_boolean() is False


class TestWhoseTheyAre:
    @pytest.mark.parametrize(
        ("message", "write"),
        [
            (jms.TextMessage("x"), lambda message: setattr(message, "text", "y")),
            (jms.BytesMessage(b"x"), lambda message: message.write_byte(1)),
            (jms.MapMessage({"x": 1}), lambda message: message.set_long("y", 1)),
            (jms.StreamMessage([1]), lambda message: message.write_long(1)),
            (jms.ObjectMessage([1]), lambda message: setattr(message, "object", [2])),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_a_received_body_is_read_only_and_a_cleared_one_as_new(
        self, world: World, message: jms.Message, write: Callable[[Any], None]
    ) -> None:
        """Section 3.11.2."""
        arrived = world.exchange(message)
        with pytest.raises(jms.MessageNotWriteableError):
            write(arrived)
        assert arrived.body == message.body
        arrived.clear_body()
        new = type(message)()
        assert arrived.body == new.body
        if isinstance(arrived, jms.BytesMessage | jms.StreamMessage):
            with pytest.raises(jms.MessageNotReadableError):
                arrived.read_byte()
        write(arrived)
        write(new)
        assert arrived.body == new.body

    def test_header_fields_of_a_received_message_can_be_set(self, world: World) -> None:
        """Section 3.10."""
        arrived = world.exchange(jms.Message())
        arrived.jms_type, arrived.jms_priority, arrived.jms_correlation_id = "mine", 7, "mine"
        arrived.jms_reply_to = jms.Topic("mine")
        assert (arrived.jms_type, arrived.jms_priority, arrived.jms_correlation_id) == ("mine", 7, "mine")
        assert arrived.jms_reply_to == jms.Topic("mine")

    def test_what_a_program_did_to_a_message_is_gone_when_it_is_delivered_again(self, world: World) -> None:
        """Section 3.10."""
        receiver = world.receiver(jms.Session.CLIENT_ACKNOWLEDGE)
        consumer = receiver.create_consumer(jms.Topic("x"))
        world.wait("x")
        sent = jms.ObjectMessage({"list": [1]})
        sent.set_int_property("kept", 1)
        sent.jms_type = "kept"
        world.sender().create_producer().send(jms.Topic("x"), sent)
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert isinstance(first, jms.ObjectMessage)
        first.object["list"].append(2)
        first.clear_properties()
        first.set_int_property("changed", 1)
        first.jms_type = "changed"
        receiver.recover()
        again = consumer.receive(timeout_s=PATIENCE_S)
        assert again is not None
        assert (again.body, again.jms_type) == ({"list": [1]}, "kept")
        assert again.properties == {"kept": 1, "JMSXDeliveryCount": 2}

    def test_what_is_put_in_and_taken_out_is_a_copy(self) -> None:
        """Section 3.12."""
        content: Any = bytearray(b"abc")
        things = {"list": [1]}
        entries, stream, plain = jms.MapMessage(), jms.StreamMessage(), jms.BytesMessage()
        entries.set_bytes("x", content)
        stream.write_bytes(content)
        plain.write_bytes(content)
        message = jms.ObjectMessage(things)
        content[0] = 0
        things["list"].append(2)
        message.object["list"].append(3)
        entries.body["x"] = b""
        stream.body.clear()
        stream.reset()
        assert entries.get_bytes("x") == stream.read_bytes() == plain.body == b"abc"
        assert message.object == {"list": [1]}

    def test_null_can_be_set_and_is_read_as_null(self, world: World) -> None:
        """Section 3.12."""
        entries, stream = jms.MapMessage(), jms.StreamMessage()
        entries.set_string("text", None)
        entries.set_bytes("bytes", None)
        entries.set_string_property("text", None)
        entries.set_object_property("object", None)
        stream.write_string(None)
        stream.write_bytes(None)
        arrived = world.exchange(entries)
        assert isinstance(arrived, jms.MapMessage)
        assert (arrived.get_string("text"), arrived.get_bytes("bytes")) == (None, None)
        assert arrived.item_exists("bytes")
        assert arrived.get_string_property("text") is arrived.get_object_property("object") is None
        row = world.exchange(stream)
        assert isinstance(row, jms.StreamMessage)
        assert (row.read_string(), row.read_bytes()) == (None, None)

    @pytest.mark.parametrize("write", ["write_utf", "write_bytes", "write_object"])
    def test_null_cannot_be_written_into_bytes(self, write: str) -> None:
        """Section 3.12; Java has a NullPointerException for it."""
        message = jms.BytesMessage()
        with pytest.raises(TypeError, match="null cannot be written"):
            getattr(message, write)(None)
        assert message.body == b""

    def test_what_was_sent_does_not_change_with_the_message(self, world: World) -> None:
        """Section 3.9."""
        consumer = world.receiver().create_consumer(jms.Topic("x"))
        world.wait("x")
        message = jms.MapMessage({"x": types.Int(1)})
        message.set_int_property("x", 1)
        producer = world.sender().create_producer()
        for number in (1, 2):
            message.set_int("x", number)
            message.set_int_property("x", number)
            producer.send(jms.Topic("x"), message)
        message.clear_body()
        message.clear_properties()
        for number in (1, 2):
            arrived = consumer.receive(timeout_s=PATIENCE_S)
            assert isinstance(arrived, jms.MapMessage)
            assert arrived.get_int("x") == arrived.get_int_property("x") == number

    def test_a_message_of_a_programs_own_class_is_sent(self, world: World) -> None:
        """Section 3.12."""

        class Quote(jms.TextMessage):
            """Has its own idea of its text."""

            # As people do, though a reader is no place for a writer.
            @property  # type: ignore[misc]
            def text(self) -> str:
                return "ACME 10.25"

            body = text

        arrived = world.exchange(Quote())
        assert type(arrived) is jms.TextMessage
        assert arrived.text == "ACME 10.25"
