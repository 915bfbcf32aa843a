"""Sections 3.4.9, 3.5.11, 4.2.7, 6.1.5, 6.2.7, 7.7, 7.9, 8.3.3: a program or its store is killed."""

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import playing
import pytest
from conftest import HERE, PATIENCE_S
from killed_store import KilledStore
from playing import PRICES, WORK
from waiting import until

from shoal import jms

MODES = [mode.name for mode in (playing.PERSISTENT, playing.NON_PERSISTENT)]
#: A store notices by itself that a program has gone.
GONE_S = 60.0


@contextlib.contextmanager
def program(what: str, store: KilledStore) -> Iterator[str]:
    """A program that did something, and is killed in the end."""
    command = [sys.executable, str(HERE / "playing.py"), what, store.domain]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline().strip()
            assert said, "it failed"
            yield said
        finally:
            process.kill()


def slept(seconds: float) -> None:
    threading.Event().wait(max(seconds, 0.0))


@pytest.mark.parametrize("mode", MODES)
def test_what_a_killed_producer_sent_comes_once_and_in_time(store: KilledStore, mode: str) -> None:
    with store.factory(client_id="desk").create_context() as context:
        plain = context.create_consumer(PRICES)
        durable = context.create_durable_consumer(PRICES, "own")
        work = context.create_consumer(WORK)
        began = time.monotonic()
        with program(f"send/{mode}", store):
            sent = time.monotonic()
        message = work.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert (message.body, message.get_int_property("JMSXDeliveryCount")) == ("now", 1)
        for consumer in (plain, durable):
            assert (
                consumer.receive(timeout_s=max(sent + playing.DELAY_S - 1.0 - time.monotonic(), 0.0)) is None
            )
        for consumer in (plain, durable):
            late = consumer.receive(timeout_s=PATIENCE_S)
            assert late is not None
            assert (late.body, late.jms_redelivered) == ("late", False)
            assert time.time() * 1000 >= late.jms_delivery_time
            assert time.monotonic() >= began + playing.DELAY_S
        for consumer in (plain, durable, work):
            assert consumer.receive(timeout_s=0.1) is None


@pytest.mark.parametrize("mode", MODES)
def test_nothing_comes_of_a_transaction_whose_producer_was_killed(store: KilledStore, mode: str) -> None:
    with store.factory(client_id="desk").create_context() as context:
        consumers = [context.create_consumer(WORK), context.create_durable_consumer(PRICES, "own")]
        with program(f"hold/{mode}", store):
            pass
        for consumer, to in zip(consumers, (WORK, PRICES), strict=True):
            context.create_producer().set_delivery_delay_s(0.5).send(to, "after")
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "after"


def test_a_message_that_expires_at_a_killed_consumer_does_not_come_again(store: KilledStore) -> None:
    with store.factory().create_context() as context:
        with program("take/brief", store) as taken:
            assert taken == "brief"
            slept(playing.TTL_S + 0.1)
        assert context.create_consumer(WORK).receive_body(str, timeout_s=GONE_S) == "lasting"


@pytest.mark.parametrize("mode", MODES)
def test_what_a_killed_consumer_had_comes_again_once_marked_and_counted(
    store: KilledStore, mode: str
) -> None:
    with store.factory().create_context() as context:
        context.create_producer().set_delivery_mode(jms.DeliveryMode[mode]).send(WORK, "x")
        with program("take/", store) as taken:
            assert taken == "x"
        consumer = context.create_consumer(WORK)
        again = consumer.receive(timeout_s=GONE_S)
        assert again is not None
        assert (again.body, again.jms_redelivered) == ("x", True)
        assert again.get_int_property("JMSXDeliveryCount") == 2
        assert consumer.receive(timeout_s=0.1) is None


def test_a_delayed_message_comes_in_time_though_store_and_consumer_were_killed(store: KilledStore) -> None:
    factory = store.factory(client_id="subscribe/")
    with program("subscribe/", store), store.factory().create_context() as sender:
        began = time.monotonic()
        sender.create_producer().set_delivery_delay_s(4.0).send(PRICES, "late")
    store.kill()
    # On a slow machine the consumer that was killed may have had it ready.
    was_ready = time.monotonic() >= began + 4.0
    store.start()
    with factory.create_context() as context:
        consumer = context.create_durable_consumer(PRICES, "own")
        assert consumer.receive(timeout_s=max(began + 3.9 - time.monotonic(), 0.0)) is None
        message = consumer.receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.body == "late"
        assert was_ready or not message.jms_redelivered
        assert time.monotonic() >= began + 4.0


@pytest.mark.parametrize("kind", ["shared", ""])
def test_a_durable_subscription_keeps_its_kind_though_its_consumer_was_killed(
    store: KilledStore, kind: str
) -> None:
    with program(f"subscribe/{kind}", store):
        pass
    with store.factory(client_id=f"subscribe/{kind}").create_context() as context:
        shared, own = context.create_shared_durable_consumer, context.create_durable_consumer
        for create in (own if kind == "shared" else shared,) * 2:
            with pytest.raises(jms.IllegalStateError, match="shared"):
                create(PRICES, "own")
        (shared if kind == "shared" else own)(PRICES, "own")


def test_sends_to_temporary_destinations_of_a_killed_program_raise(store: KilledStore) -> None:
    with store.factory().create_context() as context:
        with program("own/", store) as names:
            queue, topic = names.split()
            producer = context.create_producer()
            producer.send(jms.Queue(queue), "x")
            producer.send(jms.Topic(topic), "x")

        def is_gone(destination: jms.Destination) -> bool:
            try:
                producer.send(destination, "y")
            except jms.InvalidDestinationError:
                return True
            return False

        until(lambda: is_gone(jms.Queue(queue)), GONE_S)
        until(lambda: is_gone(jms.Topic(topic)), GONE_S)


def test_a_temporary_queue_is_used_on_though_the_program_that_answers_was_killed(store: KilledStore) -> None:
    with store.factory().create_context() as asking:
        answers = asking.create_temporary_queue()
        consumer = asking.create_consumer(answers)

        def ask(body: str) -> None:
            message = asking.create_text_message(body)
            message.jms_reply_to = answers
            asking.create_producer().send(WORK, message)

        ask("first")
        ask("second")
        with program("answer/", store):
            assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "answer"
        with store.factory().create_context() as other:
            second = other.create_consumer(WORK).receive(timeout_s=GONE_S)
            assert second is not None
            assert (second.body, second.jms_redelivered) == ("second", True)
            assert second.jms_reply_to is not None
            other.create_producer().send(second.jms_reply_to, "another answer")
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "another answer"


@pytest.mark.parametrize("mode", MODES)
def test_nothing_is_delivered_after_stop_though_the_store_is_killed_while_receive_acknowledges(
    store: KilledStore, mode: str
) -> None:
    """Section 6.1.5: a message is returned before `stop` is, or when the connection is started again."""
    with store.factory(default_delivery_mode=jms.DeliveryMode[mode]).create_connection() as connection:
        connection.start()
        session = connection.create_session()
        consumer = session.create_consumer(WORK)
        producer = connection.create_session().create_producer(WORK)
        for body in ("first", "second"):
            producer.send(session.create_text_message(body))
        inner = consumer._feed._consumer  # type: ignore[attr-defined]
        until(lambda: inner.pending == 2)
        store.suspend()
        returned: list[tuple[object, float]] = []

        end_receive, ends = session._delivering.end_receive, [0.0]

        def end_at() -> None:
            # The thread that receives may stand still after `receive` has said that it returns.
            ends.append(time.monotonic())
            end_receive()

        session._delivering.end_receive = end_at  # type: ignore[method-assign]

        def receive() -> None:
            while (message := consumer.receive(timeout_s=5.0)) is not None:
                returned.append((message.body, ends[-1]))

        reader = threading.Thread(target=receive)
        reader.start()
        until(lambda: inner.pending == 1)
        stopping = threading.Thread(target=connection.stop)
        stopping.start()
        store.kill()
        stopping.join(PATIENCE_S)
        assert not stopping.is_alive()
        stopped = time.monotonic()
        store.start()
        slept(1.0)
        assert all(at <= stopped for _, at in returned), "after stop() had returned"
        connection.start()
        reader.join(PATIENCE_S)
        bodies = [body for body, _ in returned]
        if mode == "NON_PERSISTENT":
            assert bodies == ["first", "second"] or bodies == ["first"]
        else:
            assert [*dict.fromkeys(bodies)] == ["first", "second"]
