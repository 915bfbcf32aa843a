"""Sections 6.1.8, 6.2.15 and 8.8: every method of a closed thing raises, and closing it again does not."""

import inspect
from typing import Any

import pytest
from conftest import World

from shoal import jms

#: What can be called on a closed thing: closing, and what only looks.
FREE = {"close", "number", "started", "completion_listener", "auto_start"}
ARGUMENTS: dict[str, Any] = {
    "destination": jms.Topic("x"),
    "topic": jms.Topic("x"),
    "queue": jms.Queue("q"),
    "name": "name",
    "message": jms.Message(),
    "kind": str,
    "body": "text",
}


def calls(thing: Any) -> list[str]:
    return [
        name
        for name in dir(type(thing))
        if not name.startswith("_") and not name.isupper() and name not in FREE
    ]


def use(thing: Any, name: str) -> None:
    found = inspect.getattr_static(type(thing), name)
    if isinstance(found, property):
        getattr(thing, name)
        return
    method = getattr(thing, name)
    if callable(method):
        needed = [
            parameter.name
            for parameter in inspect.signature(method).parameters.values()
            if parameter.default is inspect.Parameter.empty
            and parameter.kind is not inspect.Parameter.VAR_POSITIONAL
        ]
        method(**{each: ARGUMENTS[each] for each in needed})


def things(world: World) -> dict[str, Any]:
    connection = world.connection()
    session = connection.create_session(jms.Session.CLIENT_ACKNOWLEDGE)
    context = world.receiver()
    made = {
        "connection": connection,
        "session": session,
        "transacted": connection.create_session(True),
        "consumer": session.create_consumer(jms.Topic("x")),
        "producer": session.create_producer(),
        "context": context,
        "context consumer": context.create_consumer(jms.Topic("x")),
    }
    context.close()
    connection.close()
    return made


@pytest.mark.parametrize(
    "kind", ["connection", "session", "transacted", "consumer", "producer", "context", "context consumer"]
)
def test_every_method_refuses(world: World, kind: str) -> None:
    thing = things(world)[kind]
    names = calls(thing)
    assert len(names) > 3
    for name in names:
        with pytest.raises(jms.IllegalStateError, match="closed"):
            use(thing, name)
    thing.close()


def test_setting_refuses_too(world: World) -> None:
    made = things(world)
    for kind, name, value in [
        ("connection", "client_id", "x"),
        ("connection", "exception_listener", print),
        ("consumer", "message_listener", print),
        ("producer", "priority", 5),
        ("producer", "delivery_mode", 1),
        ("producer", "time_to_live_s", 1),
        ("producer", "delivery_delay_s", 1),
        ("producer", "disable_message_id", True),
        ("producer", "disable_message_timestamp", True),
        ("context", "client_id", "x"),
        ("context", "auto_start", True),
    ]:
        with pytest.raises(jms.IllegalStateError, match="closed"):
            setattr(made[kind], name, value)


def test_a_closed_consumer_of_an_open_session_refuses(world: World) -> None:
    session = world.connection().create_session()
    consumer, producer = session.create_consumer(jms.Topic("x")), session.create_producer(jms.Topic("x"))
    consumer.close()
    producer.close()
    for name in calls(consumer):
        with pytest.raises(jms.IllegalStateError, match="consumer is closed"):
            use(consumer, name)
    for name in calls(producer):
        with pytest.raises(jms.IllegalStateError, match="producer is closed"):
            use(producer, name)
