"""Much at once, and everything in the middle of something else: sections 6.1, 6.2.5 and 6.1.8 under load."""

import asyncio
import random
import threading
from pathlib import Path

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S, World
from waiting import until

import shoal
from shoal import jms
from shoal.jms import aio

X, ORDERS = jms.Topic("x"), jms.Queue("orders")


def together(*works: object, patience_s: float = 60.0) -> list[BaseException]:
    """Run functions on threads of their own, to an end: what they raised beside what JMS may raise."""
    raised: list[BaseException] = []

    def run(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except jms.JMSError:
            pass
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience_s)
        assert not thread.is_alive(), "a thread hangs"
    return raised


def test_a_hundred_connections_are_one_node_and_each_gets_everything(url: str) -> None:
    factory = jms.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT)
    before = threading.active_count()
    contexts = [factory.create_context() for _ in range(100)]
    assert len({id(each._connection._node) for each in contexts}) == 1
    assert [each._connection.number for each in contexts] == list(range(1, 101))
    consumers = [each.create_consumer(X) for each in contexts]
    contexts[0].create_producer().send(X, "all")
    assert all(consumer.receive_body(str, timeout_s=PATIENCE_S) == "all" for consumer in consumers)
    for each in contexts:
        each.close()
    until(lambda: threading.active_count() <= before + 1)


@pytest.mark.parametrize("seed", range(3))
def test_closing_anything_while_everything_runs_ends_all_of_it(url: str, seed: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")
    factory = jms.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT)
    connection = factory.create_connection()
    sender = factory.create_context()
    connection.start()
    sessions = [connection.create_session(chance.choice([0, 1, 2, 3])) for _ in range(6)]
    consumers = [session.create_consumer(X) for session in sessions]
    for consumer in consumers[:3]:
        consumer.message_listener = lambda message: message.acknowledge()
    stop = threading.Event()

    def send() -> None:
        while not stop.is_set():
            sender.create_producer().send(X, "x" * 100)

    def receive(consumer: jms.MessageConsumer) -> None:
        while consumer.receive(timeout_s=PATIENCE_S) is not None:
            if consumer._session.transacted:
                consumer._session.commit()

    def close() -> None:
        for _ in range(3):
            chance.choice([consumers, sessions])[chance.randrange(6)].close()  # type: ignore[index]
            connection.stop()
            connection.start()
        connection.close()

    sending = threading.Thread(target=send, daemon=True)
    sending.start()
    try:
        raised = together(
            *[lambda each=each: receive(each) for each in consumers[3:]], close, connection.close
        )
    finally:
        stop.set()
        sending.join(PATIENCE_S)
        sender.close()
    assert not raised
    assert not sending.is_alive()


def test_a_commit_while_the_store_goes_is_done_or_says_that_the_outcome_is_unknown(
    tmp_path: Path, url: str
) -> None:
    with shoal.connect(url, store=tmp_path / "store") as bus:
        context = jms.ConnectionFactory(bus=bus).create_context(jms.Session.SESSION_TRANSACTED)
        for number in range(50):
            context.create_producer().send(ORDERS, number)
        began = threading.Event()
        rolled_back: list[str] = []

        def commit() -> None:
            began.set()
            try:
                context.commit()
            except jms.TransactionRolledBackError as error:
                rolled_back.append(str(error))

        def close() -> None:
            began.wait(PATIENCE_S)
            bus.close(0)

        assert not together(commit, close)
        context.close()
    again = jms.ConnectionFactory(url + "-again", store=tmp_path / "store")
    with again.create_context() as context:
        kept = [message.body for message in context.create_browser(ORDERS)]
    # All, or none; and none if that was said.
    assert kept in ([], list(range(50)))
    assert not (rolled_back and kept)


def test_two_hundred_tasks_that_are_cancelled_lose_nothing(url: str) -> None:
    async def main() -> None:
        factory = aio.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT)
        async with await factory.create_context() as context, await factory.create_context() as sender:
            consumer, heard = await context.create_consumer(X), []
            for number in range(200):
                waiting = asyncio.ensure_future(consumer.receive())
                sending = asyncio.ensure_future(sender.create_producer().send(X, number))
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting, sending])
                if not waiting.cancelled():
                    heard.append(waiting.result().body)
                while (message := await consumer.receive_no_wait()) is not None:
                    heard.append(message.body)
            while len(heard) < 200:
                message = await consumer.receive(timeout_s=PATIENCE_S)
                assert message is not None
                heard.append(message.body)
            assert heard == list(range(200))

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_attribute_that_a_producer_does_not_have_is_not_set_in_vain(world: World) -> None:
    producer = world.sender()._session.create_producer(jms.Topic("x"))
    with pytest.raises(AttributeError):
        producer.time_to_live = 5000
    with pytest.raises(AttributeError):
        world.sender().create_producer().time_to_live = 5000


def test_a_mode_that_is_none_is_refused_before_anything_is_opened() -> None:
    factory = jms.ConnectionFactory("tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="acknowledge_mode is 9"):
        factory.create_context(9)


def test_names_that_cannot_be_sent_are_refused_and_harm_no_other_program(tmp_path: Path, url: str) -> None:
    bad = "t\ud800"
    factory = jms.ConnectionFactory(url, store=tmp_path)
    with factory.create_context() as context, factory.create_context() as other:
        for make in (jms.Queue, jms.Topic):
            with pytest.raises(jms.InvalidDestinationError, match="cannot be sent"):
                make(bad)
        with factory.create_connection() as connection, pytest.raises(jms.InvalidClientIDError):
            connection.client_id = bad
        with pytest.raises(jms.InvalidSelectorError, match="at position 6"):
            context.create_consumer(ORDERS, f"a = '{bad}'")
        with pytest.raises(jms.JMSError, match="1 to 128 characters"):
            context.create_shared_durable_consumer(X, bad)
        other.create_producer().send(ORDERS, "1")
        message = other.create_consumer(ORDERS).receive(timeout_s=PATIENCE_S)
        assert message is not None
        assert message.body == "1"
