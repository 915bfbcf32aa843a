"""Sections 3.8.1.1 to 3.8.1.3: what a selector is true of. `crates/selector` has the tests of its grammar."""

import pytest
from conftest import PATIENCE_S, World

from shoal import jms

#: Of a message with the properties below.
TRUE = [
    "age BETWEEN 15 AND 19",
    "age NOT BETWEEN 20 AND 30",
    "country IN ('UK', 'US', 'France')",
    "country NOT IN ('Peru')",
    "phone LIKE '12%3'",
    "word like 'l_se'",
    r"under LIKE '\_%' ESCAPE '\'",
    "phone NOT LIKE '13%'",
    "absent IS NULL",
    "age IS NOT NULL",
    "NOT (absent = 1) OR is_new",
    "age + 3 * 2 = 24 AND -age < 0 AND (age + 3) * 2 = 42",
    "age = 18.0 AND ratio > 0",
    "age <> 17 and TRUE",
    "quote = 'it''s'",
    "age = 022 AND age = 0x12",
    "JMSType = 'car' AND JMSPriority = 7 AND JMSCorrelationID = 'c'",
    "JMSDeliveryMode = 'NON_PERSISTENT'",
    "JMSMessageID LIKE 'ID:%' AND JMSTimestamp > 0",
    "JMSXUserID IS NULL AND JMS_Other_Vendor IS NULL",
]
FALSE = [
    "absent = 1",
    "NOT (absent = 1)",
    "absent IN ('x')",
    "absent NOT IN ('x')",
    "absent LIKE 'x'",
    "absent NOT LIKE 'x'",
    "absent = 1 AND is_new",
    "AGE = 18",
    "orders > 1",
    "orders = 2",
    "country = 'uk'",
    "JMSDeliveryMode = 'PERSISTENT'",
]


@pytest.mark.parametrize("is_true", [True, False])
def test_the_examples_of_the_specification_choose_as_it_says(world: World, is_true: bool) -> None:
    receiver = world.receiver()
    chosen = TRUE if is_true else FALSE
    consumers = {each: receiver.create_consumer(jms.Topic("x"), f"({each}) OR is_last") for each in chosen}
    message = jms.TextMessage("first")
    message.jms_type, message.jms_correlation_id = "car", "c"
    message.set_int_property("age", 18)
    message.set_float_property("ratio", 0.5)
    message.set_boolean_property("is_new", True)
    # A text that could be read as a number, which selectors do not.
    message.set_string_property("orders", "2")
    for name, text in {
        "country": "UK",
        "phone": "12993",
        "word": "lose",
        "under": "_foo",
        "quote": "it's",
    }.items():
        message.set_string_property(name, text)
    last = jms.TextMessage("last")
    last.set_boolean_property("is_last", True)
    world.wait("x")
    producer = world.sender().create_producer().set_priority(7)
    producer.send(jms.Topic("x"), message).send(jms.Topic("x"), last)
    for selector, consumer in consumers.items():
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == ("first" if is_true else "last"), selector


@pytest.mark.parametrize(
    "name", ["JMSDestination", "JMSReplyTo", "JMSExpiration", "JMSRedelivered", "JMSFoo"]
)
def test_other_header_fields_cannot_be_asked_for(world: World, name: str) -> None:
    """Section 3.8.1.1."""
    with pytest.raises(jms.InvalidSelectorError, match=name):
        world.receiver().create_consumer(jms.Topic("x"), f"{name} IS NULL")
