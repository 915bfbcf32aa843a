"""A program of JMS that does one thing, says so, and waits to be killed: `python playing.py WHAT DOMAIN`."""

import signal
import sys

from shoal import jms

PATIENCE_S = 30.0
WORK, PRICES = jms.Queue("work"), jms.Topic("prices")
DELAY_S, TTL_S = 1.5, 2.0
PERSISTENT, NON_PERSISTENT = jms.DeliveryMode.PERSISTENT, jms.DeliveryMode.NON_PERSISTENT


def main(what: str, domain: str) -> None:
    """Do it, say what is to be known of it, and wait."""
    factory = jms.ConnectionFactory("norm://", domain=domain, interface="lo", client_id=what)
    what, _, detail = what.partition("/")
    said = globals()[f"do_{what}"](factory, detail)
    print(said, flush=True)
    signal.pause()


def do_send(factory: jms.ConnectionFactory, mode: str) -> str:
    """Send, one of them delayed."""
    producer = factory.create_context().create_producer()
    producer.set_delivery_mode(jms.DeliveryMode[mode])
    producer.send(WORK, "now")
    producer.set_delivery_delay_s(DELAY_S).send(PRICES, "late")
    return "sent"


def do_hold(factory: jms.ConnectionFactory, mode: str) -> str:
    """Send in a transaction that is never committed."""
    producer = factory.create_context(jms.Session.SESSION_TRANSACTED).create_producer()
    producer.set_delivery_mode(jms.DeliveryMode[mode]).set_time_to_live_s(60)
    producer.send(WORK, "held").set_delivery_delay_s(0.1).send(PRICES, "held")
    return "held"


def do_take(factory: jms.ConnectionFactory, detail: str) -> str:
    """Receive a message, and do not acknowledge it. With `brief` it sends it itself: starting takes long."""
    context = factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE)
    if detail == "brief":
        producer = context.create_producer().set_time_to_live_s(TTL_S).send(WORK, detail)
        producer.set_time_to_live_s(0).send(WORK, "lasting")
    message = context.create_consumer(WORK).receive(timeout_s=PATIENCE_S)
    assert message is not None
    # The report that a program has it follows within this time.
    signal.sigtimedwait([], 0.3)
    return str(message.body)


def do_subscribe(factory: jms.ConnectionFactory, kind: str) -> str:
    """Use a durable subscription."""
    context = factory.create_context()
    if kind == "shared":
        context.create_shared_durable_consumer(PRICES, "own")
    else:
        context.create_durable_consumer(PRICES, "own")
    return "subscribed"


def do_own(factory: jms.ConnectionFactory, detail: str) -> str:
    """Have temporary destinations."""
    context = factory.create_context()
    queue, topic = context.create_temporary_queue(), context.create_temporary_topic()
    context.create_consumer(topic)
    return f"{queue.name} {topic.name}"


def do_answer(factory: jms.ConnectionFactory, detail: str) -> str:
    """Answer a request, and take the next one."""
    context = factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE)
    consumer = context.create_consumer(WORK)
    for _ in range(2):
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        if message.body == "first":
            assert message.jms_reply_to is not None
            context.create_producer().send(message.jms_reply_to, "answer")
            message.acknowledge()
    return "answered"


if __name__ == "__main__":
    main(*sys.argv[1:])
