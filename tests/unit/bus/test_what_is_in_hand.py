"""What a program had in hand when it failed comes again; what it was done with does not."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from plain_store import PlainStore

import shoal
import shoal.aio

PATIENCE_S = 10.0


def read_queue(bus: shoal.Bus) -> int:
    return next(message.body for message in bus.queue("jobs"))


def receive(bus: shoal.Bus) -> int:
    message = bus.queue("jobs").receive(PATIENCE_S)
    assert message is not None
    return int(message.body)


def read_subscription(bus: shoal.Bus) -> int:
    bus.publish("news", 0, persistent=True)
    return next(message.body for message in bus.subscribe("news", shared="desk", durable=True))


def fill(bus: shoal.Bus) -> None:
    bus.subscribe("news", shared="desk", durable=True).close()
    for number in range(3):
        bus.queue("jobs").send(number)


@pytest.mark.parametrize("take", [read_queue, receive, read_subscription])
def test_a_connection_that_is_left_with_an_exception_acknowledges_nothing(
    bus: shoal.Bus, domain: str, store: PlainStore, take: Callable[[shoal.Bus], int]
) -> None:
    fill(bus)

    def fail() -> None:
        with shoal.connect(domain) as worker:
            assert take(worker) == 0
            raise LookupError

    with pytest.raises(LookupError):
        fail()
    with shoal.connect(domain) as next_one:
        reading = (
            next_one.subscribe("news", shared="desk", durable=True)
            if take is read_subscription
            else next_one.queue("jobs").consume()
        )
        again = reading.receive(PATIENCE_S)
        assert again is not None
        assert (again.body, again.redelivered) == (0, True)


def test_a_connection_that_is_left_in_order_acknowledges_the_last(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    fill(bus)
    with shoal.connect(domain) as worker:
        assert receive(worker) == 0
    assert receive(bus) == 1


def test_what_another_thread_has_in_hand_is_not_acknowledged_by_closing(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    fill(bus)
    has_it, may_end = threading.Event(), threading.Event()
    with shoal.connect(domain) as worker:

        def work() -> None:
            assert receive(worker) == 0
            has_it.set()
            may_end.wait(PATIENCE_S)

        thread = threading.Thread(target=work)
        thread.start()
        assert has_it.wait(PATIENCE_S)
    may_end.set()
    thread.join()
    again = bus.queue("jobs").receive(PATIENCE_S)
    assert again is not None
    assert (again.body, again.redelivered) == (0, True)


def test_what_a_thread_received_that_has_ended_is_not_acknowledged_by_closing(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    fill(bus)
    with shoal.connect(domain) as worker:
        thread = threading.Thread(target=receive, args=(worker,))
        thread.start()
        thread.join()
    assert receive(bus) == 0, "nobody knows whether it had finished"


def test_with_an_event_loop_what_failed_comes_again_and_what_was_done_does_not(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    fill(bus)

    async def work(fails: bool) -> None:
        async with shoal.aio.connect(domain) as worker:
            message = await worker.queue("jobs").receive(PATIENCE_S)
            assert message is not None
            assert message.body == 0
            if fails:
                raise LookupError

    with pytest.raises(LookupError):
        asyncio.run(work(fails=True))
    asyncio.run(work(fails=False))
    assert receive(bus) == 1


def test_what_a_task_has_in_hand_is_not_acknowledged_by_closing(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    fill(bus)

    async def main() -> None:
        has_it = asyncio.Event()

        async def work() -> None:
            assert await worker.queue("jobs").receive(PATIENCE_S) is not None
            has_it.set()
            await asyncio.Event().wait()

        async with shoal.aio.connect(domain) as worker:
            task = asyncio.create_task(work())
            await has_it.wait()
        task.cancel()

    asyncio.run(main())
    again = bus.queue("jobs").receive(PATIENCE_S)
    assert again is not None
    assert (again.body, again.redelivered) == (0, True)


# --- without a store ---


def test_receiving_ends_in_time_though_the_store_is_away(bus: shoal.Bus, store: PlainStore) -> None:
    bus.queue("jobs").send(0)
    store.stop()
    assert bus.queue("others").receive(0.05) is None
    threads = [threading.Thread(target=bus.queue("others").receive, args=(0.05,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()


def test_closing_ends_whoever_waits_for_a_store_to_receive(
    bus: shoal.Bus, domain: str, store: PlainStore
) -> None:
    ended = threading.Event()
    with shoal.connect(domain) as waiting:
        waiting.queue("jobs").send(0)
        store.stop()

        def wait() -> None:
            with pytest.raises(shoal.ClosedError):
                waiting.queue("others").receive()
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
    assert ended.wait(PATIENCE_S)
    thread.join()


def test_receiving_in_an_event_loop_ends_in_time_though_the_store_is_away(
    domain: str, store: PlainStore
) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus:
            await bus.queue("jobs").send(0)
            store.stop()
            assert await bus.queue("others").receive(0.05) is None

    asyncio.run(main())
