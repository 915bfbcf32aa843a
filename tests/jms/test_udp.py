"""Best effort, `udp://`: what it cannot promise is refused at once (sections 7.7 and 8.3)."""

import secrets

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S

from shoal import jms

X, ORDERS = jms.Topic("x"), jms.Queue("orders")


@pytest.fixture
def factory() -> jms.ConnectionFactory:
    return jms.ConnectionFactory("udp://", domain=f"jms-{secrets.token_hex(8)}", interface="lo")


def test_messages_that_are_not_persistent_travel(factory: jms.ConnectionFactory) -> None:
    with factory.create_context() as context:
        consumer = context.create_consumer(X)
        context.create_producer().set_delivery_mode(NON_PERSISTENT).send(X, "light")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "light"


@pytest.mark.parametrize(
    "what",
    [
        lambda context: context.create_producer().send(X, "persistent"),
        lambda context: context.create_producer().set_delivery_mode(NON_PERSISTENT).send(ORDERS, "queue"),
        lambda context: context.create_consumer(ORDERS),
        lambda context: context.create_browser(ORDERS),
        lambda context: context.create_temporary_queue(),
        lambda context: context.create_durable_consumer(X, "audit"),
        lambda context: context.create_shared_consumer(X, "work"),
        lambda context: (
            context.create_context(0).create_producer().set_delivery_mode(1).send(X, "transacted")
        ),
    ],
)
def test_what_it_cannot_promise_is_refused(factory: jms.ConnectionFactory, what: object) -> None:
    with factory.create_context() as context:
        context.client_id = secrets.token_hex(8)
        with pytest.raises(jms.ResourceAllocationError, match="udp"):
            what(context)  # type: ignore[operator]
        context._connection.close()
