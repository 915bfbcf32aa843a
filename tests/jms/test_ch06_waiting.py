"""Sections 6.1.5, 6.2.10, 8.3.3 and 8.4: which calls wait for a store, and which do not."""

import asyncio
import threading
import time
from collections.abc import Callable

import pytest
from conftest import PATIENCE_S
from killed_store import KilledStore
from test_kills import inner_of, until_ready
from waiting import until

from shoal import jms
from shoal.jms import aio
from shoal.jms.feeds import Entry

QUEUE, TOPIC = jms.Queue("work"), jms.Topic("told")
CLIENT = jms.Session.CLIENT_ACKNOWLEDGE
#: What a call may take beyond its timeout on a machine that does something else.
SLACK_S = 1.5


def count_of(message: jms.Message) -> int:
    return message.get_int_property("JMSXDeliveryCount")


def stopped_in_between(context: jms.JMSContext, consumer: jms.JMSConsumer) -> None:
    """Call `receive` and stop the connection while it takes a message: no program gets it."""
    feed = consumer._consumer._feed
    take: Callable[[float | None], Entry | None] = feed.take

    def take_and_stop(timeout_s: float | None) -> Entry | None:
        entry = take(timeout_s)
        if entry is not None:
            context.stop()
        return entry

    feed.take = take_and_stop  # type: ignore[method-assign]
    assert consumer.receive(timeout_s=0.3) is None
    feed.take = take  # type: ignore[method-assign]
    assert len(feed.first) == 1


def test_a_message_that_stop_kept_back_is_not_counted_by_recover(factory: jms.ConnectionFactory) -> None:
    with factory.create_context(CLIENT) as context:
        consumer = context.create_consumer(QUEUE)
        for number in range(3):
            context.create_producer().send(QUEUE, str(number))
        first = consumer.receive(timeout_s=PATIENCE_S)
        assert first is not None
        until_ready(consumer)
        stopped_in_between(context, consumer)
        context.recover()
        context.start()
        found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(3)]
        counts = [(message.body, count_of(message)) for message in found if message is not None]
        assert counts == [("0", 2), ("1", 1), ("2", 1)]


def test_a_message_that_stop_kept_back_while_its_store_died_comes_once_and_uncounted(
    store: KilledStore,
) -> None:
    with store.factory().create_context(CLIENT) as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "x")
        until_ready(consumer)
        stopped_in_between(context, consumer)
        inbox = inner_of(consumer)._inbox
        before = inbox.lease
        store.kill()
        store.start()
        # From then on it comes again, and the one that was kept back is not delivered.
        until(lambda: inbox.lease not in (None, before))
        context.start()
        found = consumer.receive(timeout_s=PATIENCE_S)
        assert found is not None
        assert (found.body, found.jms_redelivered, count_of(found)) == ("x", False, 1)
        found.acknowledge()
        assert consumer.receive(timeout_s=0.2) is None


def test_a_topic_message_that_stop_kept_back_is_not_counted_by_recover(
    factory: jms.ConnectionFactory,
) -> None:
    with factory.create_context(CLIENT) as context:
        consumer = context.create_consumer(TOPIC)
        for number in range(3):
            context.create_producer().send(TOPIC, str(number))
        assert consumer.receive_body(str, timeout_s=PATIENCE_S) == "0"
        stopped_in_between(context, consumer)
        context.recover()
        context.start()
        found = [consumer.receive(timeout_s=PATIENCE_S) for _ in range(3)]
        counts = [(message.body, count_of(message)) for message in found if message is not None]
        assert counts == [("0", 2), ("1", 1), ("2", 1)]


def test_a_dups_ok_consumer_that_is_closed_leaves_its_subscription(factory: jms.ConnectionFactory) -> None:
    factory = jms.ConnectionFactory(bus=factory._bus, client_id="desk")
    with factory.create_context(jms.Session.DUPS_OK_ACKNOWLEDGE) as context:
        for number in range(3):
            consumer = context.create_durable_consumer(TOPIC, "all")
            context.create_producer().send(TOPIC, str(number))
            found = consumer.receive(timeout_s=PATIENCE_S)
            assert found is not None
            # What was received before does not come again: its consumer acknowledged it as it closed.
            assert (found.body, found.jms_redelivered) == (str(number), False)
            consumer.close()
            consumer.close()
        context.unsubscribe("all")


def test_nothing_waits_for_a_durable_consumer_that_waits_for_its_store(store: KilledStore) -> None:
    with store.factory(client_id="desk").create_connection() as connection:
        session, other = connection.create_session(), connection.create_session()
        session.create_durable_consumer(TOPIC, "warm").close()
        store.suspend()
        made: list[jms.MessageConsumer] = []
        making = threading.Thread(target=lambda: made.append(session.create_durable_consumer(TOPIC, "all")))
        making.start()
        until(lambda: "all" in connection._durable)
        began = time.monotonic()
        connection.start()
        connection.stop()
        other.close()
        with pytest.raises(jms.IllegalStateError, match="in use"):
            connection.create_session().create_durable_consumer(TOPIC, "all")
        assert time.monotonic() - began < SLACK_S
        store.kill()
        store.start()
        making.join(PATIENCE_S)
        assert made


def test_a_durable_consumer_that_could_not_be_made_can_be_made_again(factory: jms.ConnectionFactory) -> None:
    factory = jms.ConnectionFactory(bus=factory._bus, client_id="desk")
    with factory.create_context() as context:
        with pytest.raises(jms.InvalidSelectorError):
            context.create_durable_consumer(TOPIC, "all", "no selector at all")
        context.create_durable_consumer(TOPIC, "all").close()
        context.create_durable_consumer(TOPIC, "all")


@pytest.mark.parametrize("mode", [jms.Session.AUTO_ACKNOWLEDGE, jms.Session.DUPS_OK_ACKNOWLEDGE, CLIENT])
@pytest.mark.parametrize("timeout_s", [0.0, 1.0])
def test_receive_keeps_its_timeout_while_the_store_stands_still(
    store: KilledStore,
    mode: int,
    timeout_s: float,
) -> None:
    with store.factory().create_context(mode) as context:
        consumer = context.create_consumer(QUEUE)
        for number in range(3):
            context.create_producer().send(QUEUE, str(number))
        until(lambda: inner_of(consumer).pending == 3)
        store.suspend()
        for number in range(4):
            began = time.monotonic()
            message = consumer.receive(timeout_s=timeout_s)
            assert time.monotonic() - began < timeout_s + SLACK_S
            # It is here, and the program gets it; what comes of its acknowledgement is seen later.
            assert (None if message is None else message.body) == (str(number) if number < 3 else None)
        store.kill()
        store.start()


@pytest.mark.parametrize("what", ["queue", "temporary", "durable", "browser", "unsubscribe"])
def test_closing_ends_a_call_that_waits_for_the_store(store: KilledStore, what: str) -> None:
    connection = store.factory(client_id="desk").create_connection()
    session = connection.create_session()
    session.create_durable_consumer(TOPIC, "warm").close()
    calls: dict[str, Callable[[], object]] = {
        "queue": lambda: session.create_consumer(QUEUE),
        "temporary": lambda: session.create_temporary_queue(),
        "durable": lambda: session.create_durable_consumer(TOPIC, "all"),
        "browser": lambda: list(session.create_browser(QUEUE)),
        "unsubscribe": lambda: session.unsubscribe("warm"),
    }
    store.suspend()
    raised: list[BaseException] = []
    is_calling = threading.Event()

    def call() -> None:
        is_calling.set()
        try:
            calls[what]()
        except jms.JMSError as error:
            raised.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    assert is_calling.wait(PATIENCE_S)
    until(lambda: len(session._sender.waits))
    began = time.monotonic()
    connection.close()
    calling.join(PATIENCE_S)
    assert [type(each) for each in raised] == [jms.IllegalStateError]
    # Two seconds of patience each: for the call, for the goodbye, and for links that do not answer.
    assert time.monotonic() - began < 6 + SLACK_S


@pytest.mark.parametrize("timeout_s", [0.0, 1.0])
def test_receive_of_asyncio_keeps_its_timeout_while_the_store_stands_still(
    store: KilledStore,
    timeout_s: float,
) -> None:
    async def main() -> None:
        factory = aio.ConnectionFactory("norm://", domain=store.domain, interface="lo")
        async with await factory.create_context() as context:
            consumer = await context.create_consumer(QUEUE)
            for number in range(3):
                await context.create_producer().send(QUEUE, str(number))
            inner = consumer._consumer._feed._consumer
            while inner.pending < 3:
                await asyncio.sleep(0.001)
            store.suspend()
            for number in range(4):
                began = time.monotonic()
                message = await consumer.receive(timeout_s=timeout_s)
                assert time.monotonic() - began < timeout_s + SLACK_S
                assert (None if message is None else message.body) == (str(number) if number < 3 else None)
            store.kill()
            store.start()

    asyncio.run(main())


def test_closing_ends_a_receive_that_waits_for_the_store(store: KilledStore) -> None:
    with store.factory().create_context() as context:
        consumer = context.create_consumer(QUEUE)
        context.create_producer().send(QUEUE, "x")
        until_ready(consumer)
        store.suspend()
        found: list[jms.Message | None] = []
        reader = threading.Thread(target=lambda: found.append(consumer.receive()))
        reader.start()
        until(lambda: consumer._consumer._session._delivering._pause)
        began = time.monotonic()
        consumer.close()
        reader.join(PATIENCE_S)
        # Two seconds for the goodbye to the store.
        assert time.monotonic() - began < 2 + SLACK_S
        assert [message is not None and message.body for message in found] == ["x"]
        store.kill()
        store.start()
