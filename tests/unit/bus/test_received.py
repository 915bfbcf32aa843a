"""What a program does with a message it received, and with what it gets for one it sent."""

import asyncio
import socket
import threading
from typing import Any

import pytest
from plain_store import PlainStore

import shoal
from shoal import aio

PATIENCE_S = 10.0


def test_persistent_publish_and_send_give_the_same_kind_of_receipt(bus: shoal.Bus, store: PlainStore) -> None:
    published = bus.publish("prices", 1, persistent=True)
    sent = bus.queue("orders").send(2)
    assert type(published) is type(sent) is shoal.Receipt
    assert [row.message.message_id for row in store.rows] == [published.id, sent.id]
    assert (published.stored, sent.stored) == (True, True)
    assert not bus.publish("prices", 3, persistent=True, window=10).stored
    bus.flush()
    assert isinstance(bus.publish("prices", 4), int), "a plain one keeps its number"


def test_a_message_is_acknowledged_by_itself(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    queue.send("first")
    queue.send("second")
    with queue.consume(ack="manual") as consumer:
        first = consumer.receive(PATIENCE_S)
        assert first is not None
        first.ack()
        with pytest.raises(ValueError, match="acknowledged or given back before"):
            first.ack()
    with queue.consume() as consumer:
        again = consumer.receive(PATIENCE_S)
        assert again is not None
        assert again.body == "second", "the first one never comes again"


def test_a_message_is_given_back_by_itself(bus: shoal.Bus, store: PlainStore) -> None:
    queue = bus.queue("orders")
    queue.send("first")
    with queue.consume(ack="manual") as consumer:
        first = consumer.receive(PATIENCE_S)
        assert first is not None
        first.release(delay_s=0.0)
        again = consumer.receive(PATIENCE_S)
        assert again is not None
        assert (again.body, again.redelivered) == ("first", True)
        again.ack()
    with pytest.raises(ValueError, match="was not received"):
        shoal.Message("a", 1).release()


def test_what_cannot_be_acknowledged_says_why(bus: shoal.Bus, other: shoal.Bus) -> None:
    with bus.subscribe("a") as subscription:
        other.publish("a", 1)
        message = subscription.receive(PATIENCE_S)
        assert message is not None
        with pytest.raises(ValueError, match="no store keeps its subscription"):
            message.ack()
    with pytest.raises(ValueError, match="was not received"):
        shoal.Message("a", 1).ack()
    with pytest.raises(ValueError, match="was not received"):
        shoal.Message("a", 1).reply()


def test_a_message_is_answered_by_itself(bus: shoal.Bus, other: shoal.Bus) -> None:
    def answer(message: shoal.Message) -> None:
        for part in range(message.body):
            message.reply(part, more=True)
        message.reply("end", properties={"last": True})

    bus.subscribe("count", answer)
    answers = list(other.request_many("count", 2, timeout_s=PATIENCE_S))
    assert [answer.body for answer in answers] == [0, 1, "end"]
    assert answers[-1].properties["last"] is True


def test_a_message_that_is_kept_does_not_keep_its_connection(domain: str, other: shoal.Bus) -> None:
    subscription: shoal.Subscription | None
    subscription = (bus := shoal.connect(domain)).subscribe("a")
    other.publish("a", 1)
    message = subscription.receive(PATIENCE_S)
    assert message is not None
    bus.close()
    del bus, subscription
    with pytest.raises(shoal.ClosedError):
        message.reply()


def test_asyncio_awaits_the_same(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:

            async def answer(message: shoal.Message) -> None:
                await message.reply(message.body * 2)

            bus.subscribe("double", answer)
            assert (await bus.request("double", 21, timeout_s=PATIENCE_S)).body == 42
            receipt = await bus.publish("a", persistent=True)
            assert receipt.stored
            await bus.queue("orders").send("x")
            async with await bus.queue("orders").consume(ack="manual") as consumer:
                message = await consumer.receive(PATIENCE_S)
                assert message is not None
                await message.ack()
            assert await bus.queue("orders").receive(0.1) is None

    asyncio.run(main())


def test_what_a_transaction_received_is_acknowledged_with_it(bus: shoal.Bus, store: PlainStore) -> None:
    bus.queue("in").send("task")
    tx = bus.transaction()
    assert tx.receive("in", PATIENCE_S) is not None
    tx.rollback()
    with bus.transaction() as tx:
        again = tx.receive("in", PATIENCE_S)
        assert again is not None
        assert again.redelivered
        tx.send("out", again.body)
    done = bus.queue("out").receive(PATIENCE_S)
    assert done is not None
    assert done.body == "task"
    with bus.transaction() as tx:
        assert tx.receive("in", 0.1) is None


def test_a_transaction_of_asyncio_receives(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            await bus.queue("in").send("task")
            async with await bus.transaction() as tx:
                message = await tx.receive("in", PATIENCE_S)
                assert message is not None
                assert message.body == "task"
            assert await bus.queue("in").receive(0.1) is None

    asyncio.run(main())


# --- callbacks at the same time ---


def test_callbacks_run_at_the_same_time_if_asked_to(bus: shoal.Bus, other: shoal.Bus) -> None:
    together = threading.Barrier(3, timeout=PATIENCE_S)
    done = threading.Semaphore(0)

    def handle(message: shoal.Message) -> None:
        together.wait()
        done.release()

    bus.subscribe("a", handle, concurrency=3)
    for number in range(6):
        other.publish("a", number)
    for _ in range(6):
        assert done.acquire(timeout=PATIENCE_S)


def test_callbacks_of_a_store_run_at_the_same_time(domain: str, store: PlainStore) -> None:
    together = threading.Barrier(2, timeout=PATIENCE_S)
    done = threading.Semaphore(0)

    def handle(message: shoal.Message) -> None:
        together.wait()
        done.release()

    with shoal.connect(domain, client_id="desk") as bus:
        bus.subscribe("a", handle, durable="two", concurrency=2)
        for number in range(4):
            bus.publish("a", number, persistent=True)
        for _ in range(4):
            assert done.acquire(timeout=PATIENCE_S)


def test_one_callback_at_a_time_keeps_the_order(bus: shoal.Bus, other: shoal.Bus) -> None:
    seen: list[int] = []
    done = threading.Event()

    def handle(message: shoal.Message) -> None:
        seen.append(message.body)
        if message.body == 999:
            done.set()

    bus.subscribe("a", handle)
    for number in range(1000):
        other.publish("a", number)
    assert done.wait(PATIENCE_S)
    assert seen == list(range(1000))


def test_tasks_run_callbacks_at_the_same_time(domain: str, other: shoal.Bus) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            together = asyncio.Barrier(3)
            done = asyncio.Semaphore(0)

            async def handle(message: shoal.Message) -> None:
                await together.wait()
                done.release()

            await bus.subscribe("a", handle, concurrency=3)
            for number in range(6):
                other.publish("a", number)
            async with asyncio.timeout(PATIENCE_S):
                for _ in range(6):
                    await done.acquire()

    asyncio.run(main())


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": 2}, {"concurrency": True}])
def test_concurrency_needs_a_callback(bus: shoal.Bus, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, shoal.ConfigError), match="concurrency"):
        bus.subscribe("a", **options)


# --- a subscription of asyncio is one kind of thing ---


def test_every_subscription_of_asyncio_can_be_awaited_or_used_at_once(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain, client_id="desk") as bus:
            plain, stored = bus.subscribe("a"), bus.subscribe("a", durable="seven")
            assert await plain is plain
            assert await stored is stored
            await bus.publish("a", 1, persistent=True)
            for subscription in (plain, stored):
                async for message in subscription:
                    assert message.body == 1
                    break
            await stored.close()
            async with bus.subscribe("a", wait=True) as waited, bus.subscribe("a", durable="seven") as again:
                await bus.publish("a", 2, persistent=True)
                for subscription in (waited, again):
                    received = await subscription.receive(PATIENCE_S)
                    assert received is not None
                    assert received.body == 2

    asyncio.run(main())


def test_a_store_that_refuses_a_subscription_tells_whoever_awaits_it(domain: str, store: PlainStore) -> None:
    async def main() -> None:
        async with aio.connect(domain) as bus:
            with pytest.raises(shoal.ConfigError, match="client id"):
                bus.subscribe("a", durable="seven")
        async with aio.connect(f"{domain}-nobody", client_id="desk") as bus:
            with pytest.raises(shoal.StoreUnavailableError):
                await bus.subscribe("a", durable="seven", timeout_s=0.1)
            with pytest.raises(shoal.StoreUnavailableError):
                await bus.subscribe("a", durable="seven", timeout_s=0.1).receive(PATIENCE_S)

    asyncio.run(main())


# --- nobody is there ---


@pytest.fixture
def nowhere() -> str:
    """An address at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"tcp://127.0.0.1:{taken.getsockname()[1]}"


def test_every_connection_whose_messages_reached_no_program_says_so(
    nowhere: str, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with shoal.connect(nowhere) as bus:
            bus.publish("a", 1)
    lines = [line for line in caplog.messages if line.startswith("SHOAL-2117")]
    assert len(lines) == 2
    assert all(f"none answered at {nowhere}" in line and "required=True" in line for line in lines)
    bus = shoal.connect(nowhere)
    bus.publish("a")
    assert not bus.close()


def test_a_flush_raises_if_no_program_was_reached(nowhere: str) -> None:
    with shoal.connect(nowhere) as bus:
        bus.publish("a", 1)
        with pytest.raises(shoal.FlushError, match=f"no program was reached at {nowhere}"):
            bus.flush()


def test_a_connection_that_published_nothing_does_not(nowhere: str, caplog: pytest.LogCaptureFixture) -> None:
    with shoal.connect(nowhere):
        pass
    assert "SHOAL-2117" not in caplog.text


def test_a_required_connection_raises_where_nobody_is(nowhere: str) -> None:
    with pytest.raises(shoal.LinkError, match=f"cannot reach {nowhere}"):
        shoal.connect(nowhere, required=True)

    async def main() -> None:
        with pytest.raises(shoal.LinkError, match=f"cannot reach {nowhere}"):
            async with aio.connect(nowhere, required=True):
                pass

    asyncio.run(main())
    with shoal.listen("tcp://127.0.0.1:0") as hub, shoal.connect(hub.links[0].url, required=True) as leaf:
        leaf.flush()
    with pytest.raises(shoal.ConfigError, match="required"):
        shoal.connect("inproc://required", required=True)
    with pytest.raises(shoal.ConfigError, match="required"):
        shoal.listen("tcp://127.0.0.1:0", required=True)
