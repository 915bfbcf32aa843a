"""The same on asyncio: what waits is awaited, and cancelling it loses nothing."""

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

import pytest
from conftest import NON_PERSISTENT, PATIENCE_S

import shoal
from shoal import jms
from shoal.jms import aio
from shoal.jms.feeds import StoreFeed

X, ORDERS = jms.Topic("x"), jms.Queue("orders")
AUTO, DUPS_OK = aio.Session.AUTO_ACKNOWLEDGE, aio.Session.DUPS_OK_ACKNOWLEDGE
CLIENT, TRANSACTED = aio.Session.CLIENT_ACKNOWLEDGE, aio.Session.SESSION_TRANSACTED


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine; whatever it waits for has an end."""
    asyncio.run(asyncio.wait_for(work, 60.0))


@pytest.fixture
def plain(url: str) -> aio.ConnectionFactory:
    """Connections without a store."""
    return aio.ConnectionFactory(url, default_delivery_mode=NON_PERSISTENT)


@pytest.fixture
def stored(factory: jms.ConnectionFactory) -> aio.ConnectionFactory:
    """Connections with a store."""
    return aio.ConnectionFactory.of(factory)


async def bodies(consumer: aio.MessageConsumer, count: int) -> list[object]:
    found = [await consumer.receive(timeout_s=PATIENCE_S) for _ in range(count)]
    return [message.body for message in found if message is not None]


async def here(consumer: aio.MessageConsumer, count: int) -> None:
    """Wait until so many messages of a queue are ahead of their reader."""
    feed = consumer._consumer._feed
    assert isinstance(feed, StoreFeed)
    while feed._consumer.pending < count:
        await asyncio.sleep(0.001)


async def send_all(factory: aio.ConnectionFactory, bodies: Iterable[object]) -> None:
    async with await factory.create_context() as context:
        for body in bodies:
            await context.create_producer().send(ORDERS, body)


class Completed:
    """A completion listener that remembers what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str | None, str]] = []
        self.failed: list[Exception] = []

    async def on_completion(self, message: jms.Message) -> None:
        await asyncio.sleep(0)
        self.told.append((message.jms_message_id, threading.current_thread().name))

    def on_exception(self, message: jms.Message, error: Exception) -> None:
        self.failed.append(error)


class TestTheSameSurface:
    def test_every_public_name_of_the_classes_is_there_on_asyncio_too(self) -> None:
        #: What is said in another way, because an attribute and a message cannot be awaited.
        otherwise = {"client_id", "body_type"}
        for name in aio.__all__:
            ours, theirs = getattr(aio, name), getattr(jms, name)
            if inspect.isclass(ours):
                missing = (
                    {each for each in dir(theirs) if not each.startswith("_")} - set(dir(ours)) - otherwise
                )
                assert not missing, f"{name} has no {missing}"

    def test_classic_and_simplified(self, plain: aio.ConnectionFactory) -> None:
        async def classic() -> None:
            async with await plain.create_connection() as connection:
                session = connection.create_session()
                consumer = await session.create_consumer(X, "region = 'EU'")
                connection.start()
                for region in ("US", "EU"):
                    message = session.create_text_message(region)
                    message.set_string_property("region", region)
                    await session.create_producer(X).send(message)
                arrived = await consumer.receive(timeout_s=PATIENCE_S)
                assert arrived is not None
                assert (arrived.body, arrived.jms_destination) == ("EU", X)
                assert await consumer.receive_no_wait() is None

        async def simplified() -> None:
            async with await plain.create_context() as context:
                consumer = await context.create_consumer(X)
                await context.create_producer().set_property("region", "EU").send(X, {"bid": 10.25})
                assert await consumer.receive_body(dict, timeout_s=PATIENCE_S) == {"bid": 10.25}

        run(classic())
        run(simplified())

    def test_an_iteration_goes_on_until_the_consumer_is_closed(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await plain.create_context() as context:
                consumer, heard = await context.create_consumer(X), []
                producer = context.create_producer()
                for number in range(3):
                    await producer.send(X, number)
                async for message in consumer:
                    heard.append(message.body)
                    if len(heard) == 3:
                        await consumer.close()
                assert heard == [0, 1, 2]

        run(main())

    def test_administered_factories_are_those_of_asyncio(self, tmp_path: Path) -> None:
        file = tmp_path / "jms.toml"
        file.write_text('[factories.desk]\nurl = "inproc://desk"\n[topics]\nprices = "prices/>"\n')
        assert isinstance(aio.lookup("desk", file), aio.ConnectionFactory)
        assert aio.lookup("prices", file) == jms.Topic("prices/>")

    def test_closed_things_refuse(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            context = await plain.create_context()
            consumer, producer = await context.create_consumer(X), context.create_producer()
            await context.close()
            await context.close()
            for refused in (
                consumer.receive(timeout_s=0),
                producer.send(X, "x"),
                context.commit(),
                context.recover(),
            ):
                with pytest.raises(jms.IllegalStateError, match="closed"):
                    await refused

        run(main())

    def test_another_event_loop_is_refused(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await plain.create_context() as context:
                consumer = await context.create_consumer(X)

                def elsewhere() -> None:
                    with pytest.raises(RuntimeError, match="another event loop"):
                        asyncio.run(consumer.receive(timeout_s=0))

                await asyncio.to_thread(elsewhere)

        run(main())


class TestCancelling:
    def test_a_cancelled_receive_leaves_the_message(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await plain.create_context() as context:
                consumer = await context.create_consumer(X)
                for number in range(50):
                    waiting = asyncio.ensure_future(consumer.receive())
                    await asyncio.sleep(0)
                    await context.create_producer().send(X, number)
                    waiting.cancel()
                    await asyncio.wait([waiting])
                    if not waiting.cancelled():
                        assert waiting.result().body == number
                    else:
                        assert await bodies(consumer, 1) == [number]

        run(main())

    def test_nor_does_one_of_a_queue_while_the_store_gets_word(self, stored: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await stored.create_context() as context:
                consumer, heard = await context.create_consumer(ORDERS), []
                for number in range(20):
                    await context.create_producer().send(ORDERS, number)
                turns = 0
                while len(heard) < 20:
                    waiting = asyncio.ensure_future(consumer.receive(timeout_s=PATIENCE_S))
                    # Each time somewhere else: before the message is taken, and while it is acknowledged.
                    for _ in range(turns % 4):
                        await asyncio.sleep(0)
                    if turns % 2 == 0:
                        waiting.cancel()
                    turns += 1
                    await asyncio.wait([waiting])
                    if not waiting.cancelled():
                        heard.append(waiting.result().body)
                assert heard == list(range(20))
                assert await consumer.receive(timeout_s=0.2) is None
            async with await stored.create_context() as context:
                assert await (await context.create_consumer(ORDERS)).receive(timeout_s=0.2) is None

        run(main())

    @pytest.mark.parametrize(("mode", "before"), [(AUTO, 0), (DUPS_OK, 99)])
    @pytest.mark.parametrize("turns", range(3))
    def test_nor_does_one_before_a_close(
        self, stored: aio.ConnectionFactory, mode: int, before: int, turns: int
    ) -> None:
        async def main() -> None:
            await send_all(stored, range(before + 1))
            async with await stored.create_context(mode) as context:
                consumer = await context.create_consumer(ORDERS)
                heard = await bodies(consumer, before)
                await here(consumer, 1)
                waiting = asyncio.ensure_future(consumer.receive(timeout_s=PATIENCE_S))
                for _ in range(turns):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
            async with await stored.create_context() as context:
                consumer = await context.create_consumer(ORDERS)
                if waiting.cancelled():
                    assert await bodies(consumer, 1) == [before]
                else:
                    heard.append(waiting.result().body)
                    assert heard == list(range(before + 1))
                assert await consumer.receive(timeout_s=0.2) is None

        run(main())

    @pytest.mark.parametrize(
        ("mode", "asked", "rest"),
        [
            (TRANSACTED, "rollback", [0, 1, 2]),
            (TRANSACTED, "commit", [1, 2]),
            (CLIENT, "recover", [0, 1, 2]),
            (CLIENT, "acknowledge", [1, 2]),
        ],
    )
    def test_what_is_received_after_a_cancelled_rollback_comes_after_it(
        self, stored: aio.ConnectionFactory, mode: int, asked: str, rest: list[int]
    ) -> None:
        async def main() -> None:
            async with await stored.create_context(mode) as context:
                await send_all(stored, range(3))
                consumer, go_on = await context.create_consumer(ORDERS), threading.Event()
                assert await bodies(consumer, 1) == [0]
                await here(consumer, 2)
                before = asyncio.ensure_future(context._session._delivering.worker.run(go_on.wait))
                asking = asyncio.ensure_future(getattr(context, asked)())
                await asyncio.sleep(0)
                asking.cancel()
                assert await consumer.receive(timeout_s=0) is None
                receiving = asyncio.ensure_future(consumer.receive(timeout_s=PATIENCE_S))
                for _ in range(10):
                    await asyncio.sleep(0)
                assert not receiving.done()
                go_on.set()
                await before
                message = await receiving
                assert message is not None
                assert [message.body, *await bodies(consumer, len(rest) - 1)] == rest
                await (context.commit() if mode == TRANSACTED else context.acknowledge())
            async with await stored.create_context() as context:
                assert await (await context.create_consumer(ORDERS)).receive(timeout_s=0.2) is None

        run(main())

    def test_a_cancelled_close_goes_on(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            context = await plain.create_context()
            consumer = await context.create_consumer(X)
            closing = asyncio.ensure_future(context.close())
            await asyncio.sleep(0)
            closing.cancel()
            # It may be closed already.
            with contextlib.suppress(jms.IllegalStateError):
                assert await consumer.receive(timeout_s=PATIENCE_S) is None
            while context._session._session._closed is False:
                await asyncio.sleep(0.001)

        run(main())

    @pytest.mark.parametrize("what", ["connection", "session"])
    def test_one_that_the_end_of_the_loop_cancels_leaves_no_thread(
        self, stored: aio.ConnectionFactory, what: str
    ) -> None:
        workers: list[threading.Thread] = []
        connections: list[aio.Connection] = []

        async def main() -> None:
            connection = await stored.create_connection()
            connections.append(connection)
            session = connection.create_session()
            await session.create_producer(ORDERS).send(session.create_text_message("1"))
            worker = session._delivering.worker._thread
            assert worker is not None
            workers.append(worker)
            closing = asyncio.ensure_future((connection if what == "connection" else session).close())
            await asyncio.sleep(0)
            closing.cancel()

        asyncio.run(main())
        workers[0].join(PATIENCE_S)
        assert not workers[0].is_alive()
        connections[0]._connection.close()


class TestListeners:
    def test_they_run_in_the_loop_one_at_a_time_and_may_be_coroutines(
        self, plain: aio.ConnectionFactory
    ) -> None:
        async def main() -> None:
            heard: list[object] = []
            running, done = 0, asyncio.Event()

            async def listen(message: jms.Message) -> None:
                nonlocal running
                running += 1
                assert running == 1
                await asyncio.sleep(0)
                heard.append(message.body)
                running -= 1
                if len(heard) == 20:
                    done.set()

            async with await plain.create_context() as context:
                for topic in (X, jms.Topic("y")):
                    (await context.create_consumer(topic)).message_listener = listen
                async with context.create_context() as sender:
                    for number in range(10):
                        await sender.create_producer().send(X, number)
                        await sender.create_producer().send(jms.Topic("y"), number)
                    await done.wait()
            assert sorted(heard, key=str) == sorted([*range(10), *range(10)], key=str)

        run(main())

    def test_one_that_raises_is_given_the_message_again(self, stored: aio.ConnectionFactory) -> None:
        async def main() -> None:
            heard: list[tuple[object, bool]] = []
            done = asyncio.Event()

            def listen(message: jms.Message) -> None:
                heard.append((message.body, message.jms_redelivered))
                if len(heard) == 1:
                    raise ValueError("not yet")
                if len(heard) == 3:
                    done.set()

            async with await stored.create_context() as context, context.create_context() as sender:
                (await context.create_consumer(ORDERS)).message_listener = listen
                for number in range(2):
                    await sender.create_producer().send(ORDERS, number)
                await done.wait()
            assert (0, False) in heard
            assert (0, True) in heard
            assert {body for body, _ in heard} == {0, 1}

        run(main())

    def test_one_may_send_commit_and_close_its_consumer_but_not_its_session(
        self, stored: aio.ConnectionFactory
    ) -> None:
        async def main() -> None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            async with await stored.create_context(TRANSACTED) as context:
                consumer = await context.create_consumer(ORDERS)

                async def listen(message: jms.Message) -> None:
                    with pytest.raises(jms.IllegalStateError, match="cannot close"):
                        await context.close()
                    await context.create_producer().send(jms.Queue("done"), message.body)
                    await context.commit()
                    await consumer.close()
                    done.set_result(None)

                async with await stored.create_context() as other:
                    await other.create_producer().send(ORDERS, "order")
                    consumer.message_listener = listen
                    await done
                    assert await bodies(await other.create_consumer(jms.Queue("done")), 1) == ["order"]

        run(main())

    def test_stop_and_close_wait_for_one_that_runs(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            began, go_on, ended = asyncio.Event(), asyncio.Event(), []

            async def listen(message: jms.Message) -> None:
                began.set()
                await go_on.wait()
                ended.append(message.body)

            async with await plain.create_context() as context, context.create_context() as sender:
                (await context.create_consumer(X)).message_listener = listen
                await sender.create_producer().send(X, 1)
                await began.wait()
                stopping = asyncio.ensure_future(context.stop())
                await asyncio.sleep(0.05)
                assert not stopping.done()
                go_on.set()
                await stopping
                assert ended == [1]

        run(main())

    def test_receiving_beside_one_is_refused(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await plain.create_context() as context:
                consumer = await context.create_consumer(X)
                consumer.message_listener = lambda message: None
                with pytest.raises(jms.IllegalStateError, match="listener"):
                    await consumer.receive(timeout_s=0)

        run(main())


class TestStores:
    def test_acknowledging_is_the_sessions(self, stored: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with await stored.create_context(CLIENT) as context:
                await context.create_producer().send(ORDERS, "1")
                consumer = await context.create_consumer(ORDERS)
                message = await consumer.receive(timeout_s=PATIENCE_S)
                assert message is not None
                with pytest.raises(jms.IllegalStateError, match="the session acknowledges"):
                    message.acknowledge()
                await context.recover()
                again = await consumer.receive(timeout_s=PATIENCE_S)
                assert again is not None
                assert again.jms_redelivered
                await context.acknowledge()
                await context.recover()
                assert await consumer.receive(timeout_s=0.2) is None

        run(main())

    def test_a_transaction_is_done_or_not(self, stored: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with (
                await stored.create_context(TRANSACTED) as context,
                await stored.create_context() as other,
            ):
                await context.create_producer().send(ORDERS, "never")
                await context.rollback()
                await context.create_producer().send(ORDERS, "once")
                await context.commit()
                consumer = await other.create_consumer(ORDERS)
                assert await bodies(consumer, 1) == ["once"]
                assert await consumer.receive(timeout_s=0.2) is None

        run(main())

    def test_durable_subscriptions_and_browsers(self, bus: shoal.Bus) -> None:
        async def main() -> None:
            factory = aio.ConnectionFactory(bus=bus)
            async with await factory.create_context() as context:
                await context.set_client_id("desk")
                assert context.client_id == "desk"
                await (await context.create_durable_consumer(X, "audit")).close()
                await context.create_producer().send(X, "missed")
                for number in range(3):
                    await context.create_producer().send(ORDERS, number)
                async with await context.create_browser(ORDERS) as browser:
                    assert [message.body async for message in browser] == [0, 1, 2]
            async with await aio.ConnectionFactory(bus=bus, client_id="desk").create_context() as context:
                consumer = await context.create_durable_consumer(X, "audit")
                assert await bodies(consumer, 1) == ["missed"]
                await consumer.close()
                await context.unsubscribe("audit")
                with pytest.raises(jms.InvalidDestinationError):
                    await context.unsubscribe("audit")

        run(main())

    def test_sends_of_several_tasks_stay_whole_and_completions_come_in_order(
        self, stored: aio.ConnectionFactory
    ) -> None:
        async def main() -> None:
            listener = Completed()
            async with await stored.create_context() as context:
                producer = context.create_producer().set_async(listener)
                for number in range(20):
                    await producer.send(ORDERS, number)
                consumer = await context.create_consumer(ORDERS)
                assert await bodies(consumer, 20) == list(range(20))
            assert len({message_id for message_id, _ in listener.told}) == 20
            assert {thread for _, thread in listener.told} == {threading.main_thread().name}

        run(main())

    def test_a_completion_listener_cannot_close_its_session(self, plain: aio.ConnectionFactory) -> None:
        async def main() -> None:
            refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            async with await plain.create_connection() as connection:
                session = connection.create_session()

                class Closing(Completed):
                    async def on_completion(self, message: jms.Message) -> None:
                        try:
                            await session.close()
                        except jms.IllegalStateError as error:
                            refused.set_result(str(error))

                message = session.create_text_message("x")
                await session.create_producer(X).send(message, completion_listener=Closing())
                assert "completion listener" in await refused

        run(main())

    def test_requestors_ask_and_are_answered(self, stored: aio.ConnectionFactory) -> None:
        async def main() -> None:
            async with (
                await stored.create_connection() as connection,
                await stored.create_context() as server,
            ):
                connection.start()
                for kind, where in ((aio.QueueRequestor, ORDERS), (aio.TopicRequestor, X)):
                    questions = await server.create_consumer(where)

                    async def answer(message: jms.Message) -> None:
                        assert message.jms_reply_to is not None
                        async with server.create_context() as answering:
                            await answering.create_producer().send(message.jms_reply_to, f"{message.body}!")

                    async with kind(connection.create_session(), where) as requestor:
                        session = connection.create_session()
                        asking = asyncio.ensure_future(
                            requestor.request(session.create_text_message("who"), timeout_s=PATIENCE_S)
                        )
                        question = await questions.receive(timeout_s=PATIENCE_S)
                        assert question is not None
                        await answer(question)
                        reply = await asking
                        assert reply is not None
                        assert reply.body == "who!"

        run(main())


def test_a_publisher_that_is_held_back_leaves_the_loop_free(url: str) -> None:
    """What members cannot take is waited for by a thread, and the order stays."""

    async def main() -> None:
        factory = aio.ConnectionFactory(
            url, default_delivery_mode=NON_PERSISTENT, queue_bytes_max=100_000, window_bytes=1 << 20
        )
        async with await factory.create_context() as context, await factory.create_context() as reader:
            consumer = await reader.create_consumer(X)
            producer, count = context.create_producer(), 400

            async def send() -> None:
                for number in range(count):
                    await producer.send(X, number.to_bytes(4, "big") * 2500)

            sending, turns = asyncio.ensure_future(send()), 0
            while not sending.done() and turns < 50:
                await asyncio.sleep(0.001)
                turns += 1
            for number in range(count):
                message = await consumer.receive(timeout_s=PATIENCE_S)
                assert message is not None
                assert message.body[:4] == number.to_bytes(4, "big")
            await sending

    run(main())
