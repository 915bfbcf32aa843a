"""Queues, durable subscriptions and transactions with asyncio."""

import asyncio
from pathlib import Path

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio

PATIENCE_S = 10.0


def test_a_program_with_an_event_loop_has_all_of_it(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain, client_id="desk") as bus:
            queue = bus.queue("orders")
            await queue.send("one")
            await bus.publish("prices/A", 1, persistent=True)
            for number in range(100):
                await bus.publish("prices/B", number, persistent=True, window=10)
            await bus.flush()
            assert len(store.rows) == 102
            assert [message.body async for message in queue.browse()] == ["one"]
            async with await queue.consume(ack="manual") as consumer:
                message = await consumer.receive(PATIENCE_S)
                assert message is not None
                async with await bus.transaction() as tx:
                    tx.ack(message)
                    tx.send("done", message.body)
            message = await bus.queue("done").receive(PATIENCE_S)
            assert message is not None
            assert message.body == "one"
            subscription = await bus.subscribe("prices/>", durable="seven")
            await bus.publish("prices/C", 3, persistent=True)
            async for message in subscription:
                assert message.body == 3
                break
            await subscription.close()
            await bus.unsubscribe("seven")

    asyncio.run(main())


def test_what_a_cancelled_loop_had_not_read_is_read_by_the_next(domain: str, store: PlainStore) -> None:
    async def work(bus: aio.Bus, taken: list[object]) -> None:
        async for message in bus.queue("tasks"):
            taken.append(message.body)

    async def main() -> None:
        async with aio.connect(domain) as bus:
            taken: list[object] = []
            for number in range(50):
                await bus.queue("tasks").send(number)
            for _ in range(10):
                working = asyncio.create_task(work(bus, taken))
                wanted = len(taken) + 3
                while len(taken) < wanted:
                    await asyncio.sleep(0)
                working.cancel()
                await asyncio.gather(working, return_exceptions=True)
            working = asyncio.create_task(work(bus, taken))
            async with asyncio.timeout(PATIENCE_S):
                while len(taken) < 50:
                    await asyncio.sleep(0.001)
            working.cancel()
            assert taken == list(range(50))

    asyncio.run(main())


def test_whoever_is_cancelled_has_taken_nothing(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            queue = bus.queue("orders")
            consumer = await queue.consume()
            for number in range(50):
                waiting = asyncio.create_task(consumer.receive())
                await asyncio.sleep(0)
                sending = asyncio.create_task(queue.send(number))
                await asyncio.sleep(0.0005 * (number % 5))
                waiting.cancel()
                taken = await asyncio.gather(waiting, return_exceptions=True)
                await sending
                if not isinstance(taken[0], shoal.Message):
                    message = await consumer.receive(PATIENCE_S)
                    assert message is not None
                    assert message.body == number
            assert await consumer.receive(0.01) is None

    asyncio.run(main())


def test_a_cancelled_publish_neither_hangs_nor_is_lost(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            await bus.publish("a", 0, persistent=True)
            store.deaf.add("send")
            sending = asyncio.create_task(bus.publish("a", 1, persistent=True))
            await asyncio.sleep(0.05)
            sending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sending
            store.stop()
            store.deaf.clear()
            store.start()
            await bus.publish("a", 2, persistent=True)
            assert [row.message.body for row in store.rows] == [0, 1, 2]

    asyncio.run(main())


def test_callbacks_are_awaited_and_an_outbox_works(domain: str, store: PlainStore, tmp_path: Path) -> None:
    async def main() -> None:
        async with aio.connect(domain, outbox=tmp_path / "out") as bus:
            seen: asyncio.Queue[int] = asyncio.Queue()

            async def take(message: shoal.Message) -> None:
                await seen.put(message.body)

            await bus.subscribe("work", take, shared="workers")
            for number in range(3):
                await bus.publish("work", number, persistent=True)
            async with asyncio.timeout(PATIENCE_S):
                assert [await seen.get() for _ in range(3)] == [0, 1, 2]

    asyncio.run(main())


def test_waiting_for_a_message_in_a_task_of_its_own_acknowledges_the_one_before(
    domain: str, store: PlainStore
) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            queue = bus.queue("tasks")
            for number in range(20):
                await queue.send(number)
            consumer = await queue.consume()
            for number in range(20):
                message = await asyncio.wait_for(consumer.receive(), PATIENCE_S)
                assert message is not None
                assert message.body == number
            assert await asyncio.wait_for(consumer.receive(0.2), PATIENCE_S) is None
            async with asyncio.timeout(PATIENCE_S):
                while any(each.held for each in store.consumers.values()):
                    await asyncio.sleep(0.001)
            await consumer.close()

    asyncio.run(main())


def test_of_two_messages_that_are_waited_for_together_neither_is_acknowledged(
    domain: str, store: PlainStore
) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            queue = bus.queue("tasks")
            for number in range(2):
                await queue.send(number)
            consumer = await queue.consume(prefetch=10)
            both = await asyncio.gather(consumer.receive(), consumer.receive())
            assert sorted(message.body for message in both if message is not None) == [0, 1]
            await asyncio.sleep(0.2)
            assert [len(each.held) for each in store.consumers.values()] == [2]
            await consumer.close()

    asyncio.run(main())
