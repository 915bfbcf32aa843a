"""Sections 6.1.5, 6.1.8: what a forked child may do with the connections of its parent: close them."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S

from shoal import jms

QUEUE, TOPIC = jms.Queue("work"), jms.Topic("prices")

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def refused_in_child(calls: list[Callable[[], object]], then: Callable[[], object]) -> int:
    """How many calls a forked child refuses, up to the first that it does not; one less if `then` raises."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    # Nothing here may wait.
    signal.alarm(int(PATIENCE_S))
    refused = 0
    try:
        for call in calls:
            try:
                call()
                break
            except jms.IllegalStateError as error:
                refused += error.error_code == "ForkedError"
        then()
    except BaseException:
        refused -= 1
    os._exit(refused)


def test_a_child_is_refused_and_closes_what_its_parent_has(factory: jms.ConnectionFactory) -> None:
    """Also where another thread is in the middle of something, and has the connection's locks."""
    connection = factory.create_connection()
    session, listening = connection.create_session(), connection.create_session()
    context = factory.create_context(jms.Session.CLIENT_ACKNOWLEDGE)
    work, prices = session.create_consumer(QUEUE), session.create_consumer(TOPIC)
    producer, message = session.create_producer(), session.create_text_message("of the child")
    mine = context.create_consumer(TOPIC)
    calls, heard = threading.Event(), threading.Event()

    def listen(message: jms.Message) -> None:
        calls.set()
        assert heard.wait(PATIENCE_S)

    listening.create_consumer(TOPIC).message_listener = listen
    connection.start()
    context.create_producer().set_delivery_mode(jms.DeliveryMode.NON_PERSISTENT).send(TOPIC, "first")
    assert calls.wait(PATIENCE_S)
    tries: list[Callable[[], object]] = [
        lambda: work.receive(timeout_s=0),
        lambda: prices.receive(timeout_s=0),
        lambda: mine.receive_body(str, timeout_s=0),
        lambda: producer.send(message, destination=QUEUE),
        lambda: producer.send(message, destination=TOPIC, delivery_mode=jms.DeliveryMode.NON_PERSISTENT),
        lambda: context.create_producer().send(QUEUE, "of the child"),
        context.acknowledge,
        connection.stop,
        lambda: connection.create_session(),
        lambda: session.create_browser(QUEUE),
        lambda: session.create_consumer(QUEUE),
    ]

    def close_all() -> None:
        for each in (work, producer, session, listening, connection, context):
            each.close()

    with connection._gate.lock:
        # The child has a lock that this thread never gives back there.
        refused = threading.Thread(target=lambda: found.append(refused_in_child(tries, close_all)))
        found: list[int] = []
        refused.start()
        refused.join(PATIENCE_S)
    assert found == [len(tries)]
    heard.set()
    assert prices.receive(timeout_s=PATIENCE_S) is not None
    producer.send(session.create_text_message("of the parent"), destination=QUEUE)
    again = work.receive(timeout_s=PATIENCE_S)
    assert again is not None
    assert again.body == "of the parent"
    connection.close()
    context.close()
