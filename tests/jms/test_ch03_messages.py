"""Chapter 3: messages, their header fields, properties and bodies, as receivers see them."""

import dataclasses
import datetime
import time
from typing import Any

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S, World

from shoal import codecs, jms, types


@dataclasses.dataclass
class Order:
    symbol: str
    amount: int


codecs.register_dataclass(Order, name="jms-tests.Order")


class TestHeaders:
    """Section 3.4."""

    @pytest.mark.every_link
    def test_sending_sets_id_timestamp_and_expiration_and_the_receiver_sees_the_same(
        self, world: World
    ) -> None:
        message = jms.TextMessage("hello")
        before = int(time.time() * 1000)
        arrived = world.exchange(message, priority=7, time_to_live_s=30.5)
        assert before <= message.jms_timestamp <= int(time.time() * 1000)
        assert message.jms_message_id is not None
        assert message.jms_message_id.startswith("ID:")
        assert message.jms_expiration == message.jms_timestamp + 30_500
        assert message.jms_delivery_time == message.jms_timestamp
        assert message.jms_priority == 7
        assert message.jms_delivery_mode is NON_PERSISTENT
        for field in (
            "message_id",
            "timestamp",
            "expiration",
            "delivery_time",
            "priority",
            "delivery_mode",
            "destination",
        ):
            assert getattr(arrived, f"jms_{field}") == getattr(message, f"jms_{field}"), field

    def test_message_ids_are_unique(self, world: World) -> None:
        message = jms.Message()
        ids = {world.exchange(message).jms_message_id for _ in range(3)}
        assert len(ids) == 3

    def test_the_id_hint_changes_nothing(self, world: World) -> None:
        """Section 3.4.3."""
        consumer = world.receiver().create_consumer(jms.Topic("x"))
        world.wait("x")
        message = jms.Message()
        world.sender().create_producer().set_disable_message_id(True).send(jms.Topic("x"), message)
        arrived = consumer.receive(timeout_s=PATIENCE_S)
        assert arrived is not None
        assert arrived.jms_message_id == message.jms_message_id is not None

    def test_what_the_program_sets_of_the_providers_fields_is_overwritten_by_sending(
        self, world: World
    ) -> None:
        message = jms.Message()
        message.jms_message_id, message.jms_timestamp, message.jms_expiration = "ID:mine", 1, 2
        message.jms_priority, message.jms_delivery_mode, message.jms_redelivered = 9, 2, True
        message.jms_destination, message.jms_delivery_time = jms.Topic("elsewhere"), 3
        arrived = world.exchange(message)
        assert message.jms_message_id != "ID:mine"
        assert arrived.jms_message_id == message.jms_message_id
        assert (arrived.jms_priority, arrived.jms_delivery_mode) == (4, NON_PERSISTENT)
        assert (arrived.jms_expiration, arrived.jms_redelivered) == (0, False)
        assert arrived.jms_timestamp > 3
        assert arrived.jms_destination == message.jms_destination != jms.Topic("elsewhere")

    def test_correlation_id_reply_to_and_type_are_the_programs(self, world: World) -> None:
        message = jms.Message()
        message.jms_correlation_id, message.jms_type = "order-7", "trade"
        message.jms_reply_to = jms.Queue("answers")
        arrived = world.exchange(message)
        assert (arrived.jms_correlation_id, arrived.jms_type) == ("order-7", "trade")
        assert arrived.jms_correlation_id_as_bytes == b"order-7"
        assert arrived.jms_reply_to == jms.Queue("answers")
        assert arrived.jms_reply_to != jms.Topic("answers")

    def test_a_correlation_id_may_be_bytes(self, world: World) -> None:
        message = jms.Message()
        message.jms_correlation_id_as_bytes = b"\xff\x00\xfe"
        assert world.exchange(message).jms_correlation_id_as_bytes == b"\xff\x00\xfe"

    def test_fields_that_were_not_set_are_none(self, world: World) -> None:
        arrived = world.exchange(jms.Message())
        assert arrived.jms_correlation_id is arrived.jms_reply_to is arrived.jms_type is None
        assert arrived.jms_correlation_id_as_bytes is None
        assert arrived.jms_expiration == 0

    def test_a_first_delivery_is_not_marked_and_counts_one(self, world: World) -> None:
        arrived = world.exchange(jms.Message())
        assert not arrived.jms_redelivered
        assert arrived.get_int_property("JMSXDeliveryCount") == 1

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("jms_priority", 10),
            ("jms_priority", "4"),
            ("jms_delivery_mode", 3),
            ("jms_correlation_id", 5),
            ("jms_reply_to", "answers"),
            ("jms_type", b"x"),
            ("jms_timestamp", "now"),
            ("jms_redelivered", 1),
        ],
    )
    def test_a_field_of_a_wrong_type_is_refused_by_name(self, field: str, value: Any) -> None:
        with pytest.raises((TypeError, ValueError), match=field.removeprefix("jms_")):
            setattr(jms.Message(), field, value)

    def test_the_timestamp_hint_makes_it_zero_unless_a_life_time_needs_it(self, world: World) -> None:
        sender, receiver = world.sender(), world.receiver()
        topic = receiver.create_topic("hints")
        consumer = receiver.create_consumer(topic)
        world.wait("hints")
        producer = sender.create_producer().set_disable_message_timestamp(True).set_disable_message_id(True)
        producer.send(topic, "without")
        producer.set_time_to_live_s(60).send(topic, "with")
        without, with_life = consumer.receive(timeout_s=PATIENCE_S), consumer.receive(timeout_s=PATIENCE_S)
        assert without is not None
        assert without.jms_timestamp == 0
        assert with_life is not None
        assert with_life.jms_expiration == with_life.jms_timestamp + 60_000


#: How each type is set, and a value of it.
TYPED = {
    "boolean": True,
    "byte": -128,
    "short": 32767,
    "int": -(2**31),
    "long": 2**63 - 1,
    "float": 0.10000000149011612,
    "double": 0.1,
    "string": "EU",
}


class TestProperties:
    """Section 3.5; the conversion table has tests of its own."""

    def test_properties_keep_their_types_across_the_wire(self, world: World) -> None:
        message = jms.Message()
        for kind, value in TYPED.items():
            getattr(message, f"set_{kind}_property")(f"a_{kind}", value)
        arrived = world.exchange(message)
        for kind, value in TYPED.items():
            assert getattr(arrived, f"get_{kind}_property")(f"a_{kind}") == value
        kinds = [type(arrived.get_object_property(f"a_{kind}")) for kind in TYPED]
        assert kinds == [bool, types.Byte, types.Short, types.Int, int, types.Float, float, str]

    def test_an_object_property_has_the_type_of_its_value(self, world: World) -> None:
        message = jms.Message()
        message.set_object_property("short", types.Short(5))
        message.set_object_property("plain", 5)
        arrived = world.exchange(message)
        assert arrived.get_short_property("short") == 5
        with pytest.raises(jms.MessageFormatError, match="'plain' is a long"):
            arrived.get_int_property("plain")

    @pytest.mark.parametrize("value", [b"bytes", [1], {"a": 1}, object(), types.Char("c"), 2**63, 1j])
    def test_other_types_are_refused(self, value: Any) -> None:
        with pytest.raises(jms.MessageFormatError):
            jms.Message().set_object_property("x", value)

    @pytest.mark.parametrize(
        "name",
        [
            "1a",
            "a-b",
            "a b",
            "NOT",
            "in",
            "Null",
            "JMSPriority",
            "JMSFoo",
            "JMSXDeliveryCount",
            "JMSXUserID",
            "JMS_Shoal_Held",
        ],
    )
    def test_a_name_that_no_selector_could_use_or_that_is_reserved_is_refused(self, name: str) -> None:
        with pytest.raises(jms.MessageFormatError, match=name):
            jms.Message().set_int_property(name, 1)

    def test_an_empty_name_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must not be empty"):
            jms.Message().set_int_property("", 1)

    @pytest.mark.parametrize("name", ["größe", "_x", "$x", "a1", "JMS_IBM_Format", "JMSXGroupID"])
    def test_java_identifiers_and_vendor_names_are_accepted(self, name: str) -> None:
        message = jms.Message()
        message.set_string_property(name, "x")
        assert message.property_names == [name]

    def test_group_properties_travel_and_keep_their_types(self, world: World) -> None:
        message = jms.Message()
        message.set_string_property("JMSXGroupID", "g")
        message.set_object_property("JMSXGroupSeq", 3)
        arrived = world.exchange(message, "JMSXGroupID = 'g' AND JMSXGroupSeq = 3")
        assert arrived.get_string_property("JMSXGroupID") == "g"
        assert arrived.get_int_property("JMSXGroupSeq") == 3

    def test_received_properties_cannot_be_set_until_they_are_cleared(self, world: World) -> None:
        message = jms.Message()
        message.set_int_property("x", 1)
        arrived = world.exchange(message)
        with pytest.raises(jms.MessageNotWriteableError):
            arrived.set_int_property("y", 2)
        arrived.clear_properties()
        assert arrived.property_names == []
        arrived.set_int_property("y", 2)
        assert arrived.properties == {"y": 2}

    def test_clearing_properties_does_not_clear_the_body_nor_the_other_way_round(self, world: World) -> None:
        message = jms.TextMessage("text")
        message.set_int_property("x", 1)
        arrived = world.exchange(message)
        assert isinstance(arrived, jms.TextMessage)
        arrived.clear_properties()
        assert arrived.text == "text"
        other = world.exchange(message)
        other.clear_body()
        assert other.get_int_property("x") == 1
        assert other.body is None

    def test_a_property_that_is_not_there_reads_as_null(self) -> None:
        message = jms.Message()
        assert message.get_object_property("x") is None
        assert message.get_string_property("x") is None
        assert message.get_boolean_property("x") is False
        assert not message.property_exists("x")
        for kind in ("byte", "short", "int", "long"):
            with pytest.raises(jms.NumberFormatError, match="'x' is not there"):
                getattr(message, f"get_{kind}_property")("x")
        for kind in ("float", "double"):
            with pytest.raises(TypeError, match="'x' is not there"):
                getattr(message, f"get_{kind}_property")("x")

    def test_iteration_gives_every_name_once(self, world: World) -> None:
        message = jms.Message()
        message.jms_type = message.jms_correlation_id = "no property"
        for name in ("a", "b", "c"):
            message.set_string_property(name, name)
        assert sorted(world.exchange(message).property_names) == ["JMSXDeliveryCount", "a", "b", "c"]


class TestBodies:
    """Section 3.11."""

    @pytest.mark.parametrize("text", ["hello", "", "größe 😀", None])
    def test_a_text_message_brings_its_text(self, world: World, text: str | None) -> None:
        arrived = world.exchange(jms.TextMessage(text))
        assert isinstance(arrived, jms.TextMessage)
        assert arrived.text == text
        assert arrived.property_names == ["JMSXDeliveryCount"]

    def test_a_bytes_message_is_read_as_it_was_written(self, world: World) -> None:
        message = jms.BytesMessage()
        message.write_boolean(True)
        message.write_byte(-5)
        message.write_short(-300)
        message.write_char("ä")
        message.write_int(70_000)
        message.write_long(-(2**40))
        message.write_float(0.5)
        message.write_double(0.1)
        message.write_utf("a\0ä😀")
        message.write_bytes(b"xyz", 1, 2)
        message.write_object(types.Short(7))
        arrived = world.exchange(message)
        assert isinstance(arrived, jms.BytesMessage)
        assert arrived.read_boolean() is True
        assert arrived.read_byte() == -5
        assert arrived.read_short() == -300
        assert arrived.read_char() == "ä"
        assert arrived.read_int() == 70_000
        assert arrived.read_long() == -(2**40)
        assert arrived.read_float() == 0.5
        assert arrived.read_double() == 0.1
        assert arrived.read_utf() == "a\0ä😀"
        assert arrived.read_bytes(2) == b"yz"
        assert arrived.read_short() == 7
        assert arrived.read_bytes() is None
        with pytest.raises(jms.MessageEOFError):
            arrived.read_byte()
        assert arrived.body_length == len(message.body)

    def test_a_bytes_message_that_is_written_cannot_be_read_until_reset(self) -> None:
        message = jms.BytesMessage(b"\x00\xff")
        with pytest.raises(jms.MessageNotReadableError):
            message.read_byte()
        with pytest.raises(jms.MessageNotReadableError):
            _ = message.body_length
        message.reset()
        assert message.read_unsigned_short() == 255
        with pytest.raises(jms.MessageNotWriteableError):
            message.write_byte(1)
        message.reset()
        assert (message.read_unsigned_byte(), message.read_byte()) == (0, -1)
        message.clear_body()
        message.write_byte(1)
        assert message.body == b"\x01"

    def test_reading_past_the_end_moves_nothing(self) -> None:
        message = jms.BytesMessage(b"\x00\x05a")
        message.reset()
        with pytest.raises(jms.MessageEOFError):
            message.read_utf()
        assert message.read_short() == 5

    def test_a_map_message_keeps_names_and_types(self, world: World) -> None:
        message = jms.MapMessage()
        for kind, value in (TYPED | {"char": "c", "bytes": b"\x00\x01"}).items():
            getattr(message, f"set_{kind}")(kind, value)
        message.set_object("null", None)
        arrived = world.exchange(message)
        assert isinstance(arrived, jms.MapMessage)
        for kind, value in (TYPED | {"char": "c", "bytes": b"\x00\x01"}).items():
            assert getattr(arrived, f"get_{kind}")(kind) == value
        assert type(arrived["byte"]) is types.Byte
        assert type(arrived["char"]) is types.Char
        assert arrived.item_exists("null")
        assert arrived.get_object("null") is None
        assert sorted(arrived) == sorted([*TYPED, "char", "bytes", "null"])
        with pytest.raises(jms.MessageNotWriteableError):
            arrived.set_int("x", 1)
        with pytest.raises(jms.MessageFormatError):
            arrived.get_short("int")

    def test_a_stream_message_is_read_in_order_and_a_failed_read_can_be_repeated(self, world: World) -> None:
        message = jms.StreamMessage()
        message.write_int(5)
        message.write_string("7")
        message.write_bytes(b"abcde")
        message.write_object(None)
        message.write_char("c")
        arrived = world.exchange(message)
        assert isinstance(arrived, jms.StreamMessage)
        with pytest.raises(jms.MessageFormatError, match="value 0 is an int"):
            arrived.read_short()
        assert arrived.read_long() == 5
        assert arrived.read_byte() == 7
        assert arrived.read_bytes(3) == b"abc"
        with pytest.raises(jms.MessageFormatError, match="read them to their end"):
            arrived.read_string()
        assert arrived.read_bytes(3) == b"de"
        assert arrived.read_string() is None
        assert arrived.read_object() == types.Char("c")
        with pytest.raises(jms.MessageEOFError):
            arrived.read_object()
        arrived.reset()
        assert arrived.read_int() == 5

    def test_bytes_that_are_read_by_their_exact_length_need_one_more_call(self) -> None:
        message = jms.StreamMessage([b"abc", 1])
        message.reset()
        assert message.read_bytes(3) == b"abc"
        assert message.read_bytes(3) is None
        assert message.read_long() == 1

    @pytest.mark.parametrize(
        "thing",
        [
            Order("ACME", 5),
            datetime.date(2026, 1, 2),
            "a text",
            b"bytes",
            {"a": 1, "when": datetime.date(2026, 1, 2)},
            [1, 2],
            5,
            True,
            None,
        ],
        ids=repr,
    )
    def test_an_object_message_brings_the_object_as_an_object(self, world: World, thing: Any) -> None:
        arrived = world.exchange(jms.ObjectMessage(thing))
        assert isinstance(arrived, jms.ObjectMessage)
        assert arrived.object == thing
        with pytest.raises(jms.MessageNotWriteableError):
            arrived.object = 5

    def test_an_object_of_an_unknown_type_is_refused_when_it_is_set(self) -> None:
        with pytest.raises(jms.MessageFormatError, match="cannot be sent"):
            jms.ObjectMessage(object())

    def test_changing_an_object_after_it_was_set_changes_no_message(self, world: World) -> None:
        thing = Order("ACME", 5)
        message = jms.ObjectMessage(thing)
        thing.amount = 6
        assert message.object.amount == 5
        assert world.exchange(message).body == Order("ACME", 5)

    def test_an_object_of_a_type_that_is_not_registered_here_raises_when_it_is_read(
        self, world: World
    ) -> None:
        @dataclasses.dataclass
        class Foreign:
            x: int

        codecs.register_dataclass(Foreign, name="jms-tests.Foreign")
        arrived = world.exchange(jms.ObjectMessage(Foreign(1)))
        codecs.unregister(Foreign)
        assert isinstance(arrived, jms.ObjectMessage)
        with pytest.raises(jms.MessageFormatError, match="not registered"):
            _ = arrived.object

    def test_a_plain_message_has_no_body(self, world: World) -> None:
        arrived = world.exchange(jms.Message())
        assert type(arrived) is jms.Message
        assert arrived.body is None
        assert arrived.get_body(str) is None
        assert arrived.is_body_assignable_to(dict)

    @pytest.mark.parametrize(
        ("message", "fits", "others"),
        [
            (jms.TextMessage("x"), (str, object), (bytes, dict)),
            (jms.BytesMessage(b"x"), (bytes, object), (str, dict)),
            (jms.MapMessage({"a": 1}), (dict, object), (str, bytes)),
            (jms.ObjectMessage(Order("A", 1)), (Order, object), (str, dict)),
            (jms.StreamMessage([1]), (), (list, object)),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_get_body_gives_types_the_body_is_of(self, message: jms.Message, fits: Any, others: Any) -> None:
        for kind in fits:
            assert message.is_body_assignable_to(kind)
            assert message.get_body(kind) == message.body
        for kind in others:
            assert not message.is_body_assignable_to(kind)
            with pytest.raises(jms.MessageFormatError):
                message.get_body(kind)

    def test_a_received_body_cannot_be_changed_until_it_is_cleared(self, world: World) -> None:
        arrived = world.exchange(jms.TextMessage("x"))
        assert isinstance(arrived, jms.TextMessage)
        with pytest.raises(jms.MessageNotWriteableError):
            arrived.text = "y"
        arrived.clear_body()
        assert arrived.text is None
        arrived.text = "y"
        assert arrived.jms_message_id is not None

    def test_clearing_keeps_the_header_fields(self, world: World) -> None:
        message = jms.MapMessage({"a": 1})
        message.jms_correlation_id, message.jms_type, message.jms_reply_to = "c", "t", jms.Topic("r")
        arrived = world.exchange(message, priority=8)
        before = [getattr(arrived, name) for name in dir(arrived) if name.startswith("jms_")]
        arrived.clear_body()
        arrived.clear_properties()
        assert [getattr(arrived, name) for name in dir(arrived) if name.startswith("jms_")] == before


class TestSendingAgain:
    """Sections 3.9, 3.10 and 3.12."""

    def test_a_sent_message_can_be_changed_and_sent_again(self, world: World) -> None:
        message = jms.TextMessage("first")
        first = world.exchange(message)
        message.text = "second"
        message.set_int_property("x", 1)
        second = world.exchange(message)
        assert (first.body, second.body) == ("first", "second")
        assert first.jms_message_id != second.jms_message_id

    @pytest.mark.parametrize(
        "message",
        [
            jms.Message(),
            jms.TextMessage("x"),
            jms.TextMessage(None),
            jms.BytesMessage(b"x"),
            jms.MapMessage({"a": types.Byte(1)}),
            jms.StreamMessage([types.Short(1), "x"]),
            jms.ObjectMessage("x"),
        ],
        ids=lambda message: type(message).__name__,
    )
    def test_a_received_message_is_forwarded_as_it_is(self, world: World, message: jms.Message) -> None:
        message.jms_correlation_id, message.jms_type, message.jms_reply_to = "c", "t", jms.Queue("r")
        message.set_byte_property("b", 1)
        first = world.exchange(message)
        old_id = first.jms_message_id
        second = world.exchange(first)
        assert type(second) is type(message)
        assert second.body == message.body
        assert second.get_byte_property("b") == 1
        assert (second.jms_correlation_id, second.jms_type, second.jms_reply_to) == ("c", "t", jms.Queue("r"))
        assert second.jms_message_id == first.jms_message_id != old_id

    def test_an_answer_goes_where_the_question_says(self, world: World) -> None:
        asking, answering = world.sender(), world.receiver()
        questions = answering.create_topic("questions")
        served = answering.create_consumer(questions)
        back = asking.create_temporary_topic()
        answers = asking.create_consumer(back)
        world.wait("questions")
        question = asking.create_text_message("?")
        asking.create_producer().set_jms_reply_to(back).send(questions, question)
        heard = served.receive(timeout_s=PATIENCE_S)
        assert heard is not None
        assert isinstance(heard.jms_reply_to, jms.TemporaryTopic)
        reply = answering.create_text_message("!")
        reply.jms_correlation_id = heard.jms_message_id
        assert world.receiving.wait_for_subscribers(back.name, 1, PATIENCE_S)
        answering.create_producer().send(heard.jms_reply_to, reply)
        answer = answers.receive(timeout_s=PATIENCE_S)
        assert answer is not None
        assert answer.jms_correlation_id == question.jms_message_id

    def test_what_is_no_message_is_refused(self, world: World) -> None:
        producer = world.sender()._session.create_producer(jms.Topic("x"))
        with pytest.raises(jms.MessageFormatError, match=r"must be a shoal\.jms message"):
            producer.send("text")  # type: ignore[arg-type]
