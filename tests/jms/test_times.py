"""Sections 3.4.9, 7.9: what `JMSExpiration` says holds, wherever a message waits, whatever stands still."""

import threading
import time
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S, World
from killed_store import KilledStore
from waiting import until

import shoal
from shoal import jms

QUEUE, TOPIC = jms.Queue("work"), jms.Topic("prices")
TTL_S, DELAY_S = 0.8, 1.0
TRANSACTED = jms.Session.SESSION_TRANSACTED

Consume = Callable[[jms.JMSContext], jms.JMSConsumer]
CONSUMERS: dict[str, tuple[jms.Destination, Consume]] = {
    "queue": (QUEUE, lambda context: context.create_consumer(QUEUE)),
    "topic": (TOPIC, lambda context: context.create_consumer(TOPIC)),
    "durable": (TOPIC, lambda context: context.create_durable_consumer(TOPIC, "own")),
}


def sleep_until(at: float) -> None:
    threading.Event().wait(max(at - time.monotonic(), 0.0))


def brief(context: jms.JMSContext, to: jms.Destination, ttl_s: float = TTL_S) -> None:
    """Send a message that lives for a short time, in whatever way the context sends."""
    context.create_producer().set_time_to_live_s(ttl_s).send(to, "brief")
    if context.transacted:
        context.commit()


def lasting(context: jms.JMSContext, to: jms.Destination) -> None:
    """Send one that lives for ever behind it."""
    context.create_producer().send(to, "lasting")
    if context.transacted:
        context.commit()


@pytest.mark.parametrize("stands", ["killed", "stopped"])
@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, TRANSACTED], ids=["sent", "committed"])
@pytest.mark.parametrize("kind", CONSUMERS)
def test_time_that_a_message_waits_for_its_store_counts(
    store: KilledStore, kind: str, mode: int, stands: str
) -> None:
    to, consume = CONSUMERS[kind]
    with (
        store.factory(client_id="desk").create_context() as receiver,
        store.factory().create_context(mode) as sender,
    ):
        consumer = consume(receiver)
        # The sender has its session with the store.
        lasting(sender, to)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "lasting"
        store.kill() if stands == "killed" else store.suspend()
        began = time.monotonic()
        sending = threading.Thread(target=lambda: (brief(sender, to), lasting(sender, to)))
        sending.start()
        # Live subscribers of a topic have it at once where the store gave credit before.
        is_live = kind == "topic" and stands == "stopped" and mode != TRANSACTED
        if is_live:
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "brief"
        sleep_until(began + TTL_S + 0.2)
        store.start() if stands == "killed" else store.resume()
        sending.join(PATIENCE_S)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "lasting"
        assert consumer.receive(timeout_s=0.1) is None


@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.CLIENT_ACKNOWLEDGE])
def test_a_message_that_expires_while_receive_waits_for_the_store_is_not_returned(
    store: KilledStore, mode: int
) -> None:
    """`receive` waits for the acknowledgement, or for the report of a message that comes again."""
    with store.factory().create_context(mode) as context, store.factory().create_context() as sender:
        consumer = context.create_consumer(QUEUE)
        pending = consumer._consumer._feed._consumer  # type: ignore[attr-defined]
        began = time.monotonic()
        # Enough for a slow machine to take it, and to suspend the store.
        ttl_s = 4 * TTL_S
        brief(sender, QUEUE, ttl_s)
        if mode == jms.Session.CLIENT_ACKNOWLEDGE:
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "brief"
            context.recover()
        until(lambda: pending.pending == 1)
        store.suspend()
        found: list[jms.Message | None] = []
        reader = threading.Thread(target=lambda: found.append(consumer.receive(timeout_s=PATIENCE_S)))
        reader.start()
        until(lambda: not pending.pending)
        assert time.monotonic() < began + ttl_s, "it has to be taken in time"
        sleep_until(began + ttl_s + 0.2)
        store.resume()
        lasting(sender, QUEUE)
        reader.join(PATIENCE_S)
        assert [message and message.body for message in found] == ["lasting"]
        if context._session.acknowledge_mode == jms.Session.CLIENT_ACKNOWLEDGE:
            context.acknowledge()
        assert consumer.receive(timeout_s=0.1) is None


def test_time_before_a_message_was_received_counts_when_it_is_recovered(world: World) -> None:
    receiver, sender = world.receiver(jms.Session.CLIENT_ACKNOWLEDGE), world.sender()
    consumer = receiver.create_consumer(TOPIC)
    began = time.monotonic()
    brief(sender, TOPIC)
    lasting(sender, TOPIC)
    sleep_until(began + 0.6 * TTL_S)
    assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "brief"
    assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "lasting"
    sleep_until(began + 1.1 * TTL_S)
    receiver.recover()
    again = consumer.receive(timeout_s=PATIENCE_S)
    assert again is not None
    assert (again.body, again.jms_redelivered) == ("lasting", True)


def test_time_that_a_message_waits_in_a_stopped_connection_counts(world: World) -> None:
    connection, sender = world.connection(), world.sender()
    consumer = connection.create_session().create_consumer(TOPIC)
    found: list[jms.Message | None] = []
    connection.start()
    reader = threading.Thread(target=lambda: found.append(consumer.receive(timeout_s=PATIENCE_S)))
    reader.start()
    until(lambda: consumer._session._delivering._receiving is consumer)
    # `receive` gets it from the bus, and puts it back.
    connection.stop()
    began = time.monotonic()
    brief(sender, TOPIC)
    lasting(sender, TOPIC)
    until(lambda: consumer._feed.first)
    sleep_until(began + TTL_S + 0.1)
    connection.start()
    reader.join(PATIENCE_S)
    assert [message and message.body for message in found] == ["lasting"]


def test_a_delayed_message_that_was_due_in_time_and_is_read_too_late_never_comes(world: World) -> None:
    receiver, sender = world.receiver(), world.sender()
    consumer = receiver.create_consumer(TOPIC)
    began = time.monotonic()
    sender.create_producer().set_delivery_delay_s(0.2).set_time_to_live_s(TTL_S).send(TOPIC, "brief")
    # Whoever looks now holds it back.
    assert consumer.receive(timeout_s=0.0) is None
    sleep_until(began + 0.4)
    lasting(sender, TOPIC)
    sleep_until(began + TTL_S + 0.1)
    assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "lasting"
    assert consumer.receive(timeout_s=0.1) is None


@pytest.mark.parametrize("consumer_of", ["its own program", "another"])
def test_times_of_a_transaction_count_from_send_in_the_program_that_sends_too(
    world: World, consumer_of: str
) -> None:
    sender = world.sender(TRANSACTED)
    receiver = world.receiver() if consumer_of == "another" else world._kept(sender.create_context(1))
    consumer = receiver.create_consumer(TOPIC)
    began = time.monotonic()
    sender.create_producer().set_time_to_live_s(TTL_S).send(TOPIC, "brief")
    sender.create_producer().set_delivery_delay_s(1.0).send(TOPIC, "late")
    sleep_until(began + 0.6 * TTL_S)
    sender.commit()
    # No program reads before the first is too old; by its commit it is not.
    sleep_until(began + 1.1 * TTL_S)
    message = consumer.receive(timeout_s=PATIENCE_S)
    took_s = time.monotonic() - began
    assert message is not None
    assert message.body == "late"
    assert 1.0 <= took_s < 1.0 + 0.5 * TTL_S


@pytest.mark.parametrize("kind", ["queue", "durable"])
def test_a_sender_that_stands_still_has_no_message_delivered_before_its_time(
    bus: shoal.Bus, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The pause was part of the age of the message, and counted as time on its way, too."""
    to, consume = CONSUMERS[kind]
    with jms.ConnectionFactory(bus=bus, client_id="desk").create_context() as context:
        consumer = consume(context)
        # A request that was not held up: others are compared with it.
        lasting(context, to)
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "lasting"
        chain = bus._connection.persistence(to.bus_name).chain
        take, pauses = chain._take, iter([DELAY_S / 2])

        def take_late() -> tuple[bytes, int, int] | None:
            if chain._size():
                threading.Event().wait(next(pauses, 0.0))
            return take()

        monkeypatch.setattr(chain, "_take", take_late)
        began = time.monotonic()
        context.create_producer().set_delivery_delay_s(DELAY_S).send(to, "late")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "late"
        assert time.monotonic() - began >= DELAY_S
