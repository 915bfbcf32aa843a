"""What a program of Java's finds when its names are used unchanged."""

from typing import Any

import pytest
from conftest import World

from shoal import jms

FACTORY = jms.ConnectionFactory("inproc://java-names")


@pytest.mark.parametrize(
    ("java", "python"),
    [("createConnection", "create_connection"), ("createContext", "create_context")],
)
def test_a_java_name_hints_at_its_name_here(java: str, python: str) -> None:
    with pytest.raises(AttributeError, match=f"Java's {java} is '{python}' here"):
        getattr(FACTORY, java)


@pytest.mark.parametrize(
    ("made", "java", "python"),
    [
        (jms.TextMessage("x"), "getText", "text"),
        (jms.TextMessage("x"), "setJMSCorrelationID", "jms_correlation_id"),
        (jms.TextMessage("x"), "propertyExists", "property_exists"),
        (jms.Topic("prices"), "getTopicName", "topic_name"),
    ],
)
def test_getters_and_setters_hint_at_their_attribute(made: Any, java: str, python: str) -> None:
    with pytest.raises(AttributeError, match=f"is '{python}' here"):
        getattr(made, java)


def test_an_unknown_name_gets_no_hint() -> None:
    with pytest.raises(AttributeError) as told:
        FACTORY.createTea  # type: ignore[attr-defined] # noqa: B018
    assert str(told.value) == "'ConnectionFactory' object has no attribute 'createTea'"


def test_java_milliseconds_are_not_taken_for_seconds(world: World) -> None:
    consumer = world.receiver().create_consumer(jms.Topic("prices"))
    with pytest.raises(jms.InvalidArgumentError, match=r"Java's 1000 is timeout_s=1 here"):
        consumer.receive(1000)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Java's 250 is timeout_s=0\.25 here"):
        consumer.receive_body(str, 250)  # type: ignore[arg-type]
    plain = world.connection().create_session().create_consumer(jms.Topic("prices"))
    with pytest.raises(TypeError, match=r"Java's 1000 is timeout_s=1 here"):
        plain.receive(1000)  # type: ignore[arg-type]


def test_what_java_tells_by_position_has_names_here(world: World) -> None:
    producer = world.connection().create_session().create_producer(jms.Topic("prices"))
    with pytest.raises(TypeError, match="delivery_mode, priority, time_to_live_s"):
        producer.send(jms.TextMessage("x"), 1, 4, 1000)  # type: ignore[arg-type]
