"""asyncio: every wait can be cancelled and leaves nothing behind; none of them takes a thread."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import shoal
from shoal.bus.doorbell import CALLS_MAX
from shoal.errors import ClosedError, FullError, NoRespondersError, RemoteError

Make = Callable[[shoal.aio.Bus], Awaitable[Any]]


async def full(bus: shoal.aio.Bus) -> None:
    """Publish to a reader that does not read, for ever."""
    keep = bus.subscribe("full", queue_bytes_max=1000)
    while not keep.closed:
        await bus.publish("full", bytes(600))


async def many(bus: shoal.aio.Bus) -> None:
    bus.subscribe("deaf", ignore)
    async for _ in bus.request_many("deaf", timeout_s=60):
        pass


async def ask(bus: shoal.aio.Bus) -> None:
    bus.subscribe("deaf", ignore)
    await bus.request("deaf", timeout_s=60)


async def listen(bus: shoal.aio.Bus) -> None:
    async for _ in bus.subscribe("quiet"):
        pass


async def events(bus: shoal.aio.Bus) -> None:
    async for _ in bus.events():
        pass


async def ignore(_: shoal.Message) -> None:
    """A callback that answers nothing."""


WAITS: dict[str, Make] = {
    "receive": lambda bus: bus.subscribe("quiet").receive(),
    "iteration": listen,
    "publish": full,
    "request": ask,
    "request_many": many,
    "wait_for_subscribers": lambda bus: bus.wait_for_subscribers("nobody", timeout_s=None),
    "events": events,
    "run": lambda bus: bus.run(),
}


def has_no_more_than(before: tuple[int, int]) -> bool:
    """Threads and descriptors; what a test before left behind may go meanwhile."""
    return all(now <= then for now, then in zip(threads_and_descriptors(), before, strict=True))


def threads_and_descriptors() -> tuple[int, int]:
    gc.collect()
    return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


@asynccontextmanager
async def settled(tasks: int) -> AsyncIterator[None]:
    """Let tasks begin to wait."""
    for _ in range(tasks + 10):
        await asyncio.sleep(0)
    yield


@pytest.mark.parametrize("what", WAITS)
def test_a_wait_takes_no_thread_and_gives_everything_back_when_it_is_cancelled(
    domain: str, what: str
) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus:
            before = threads_and_descriptors()
            for _ in range(40):
                task = asyncio.ensure_future(WAITS[what](bus))
                async with settled(1):
                    assert not task.done()
                    assert threading.active_count() <= before[0]
                    task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            assert has_no_more_than(before)
            async with bus.subscribe("own") as own:
                await bus.publish("own", 7)
                message = await own.receive(5)
                assert message is not None
                assert message.body == 7

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("what", WAITS)
def test_closing_ends_a_wait(domain: str, what: str) -> None:
    async def main() -> None:
        bus = shoal.aio.connect(domain)
        task = asyncio.ensure_future(WAITS[what](bus))
        async with settled(1):
            await bus.close(0.1)
        done, _ = await asyncio.wait({task}, timeout=10)
        assert done
        error = task.exception()
        assert error is None or isinstance(error, ClosedError)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_closing_can_be_cancelled_and_the_connection_is_closed_all_the_same(domain: str) -> None:
    async def main() -> None:
        bus = shoal.aio.connect(domain)
        began = asyncio.Event()

        async def slow(_: shoal.Message) -> None:
            began.set()
            await asyncio.sleep(60)

        bus.subscribe("a", slow)
        await bus.publish("a")
        await began.wait()
        closing = asyncio.ensure_future(bus.close())
        async with settled(1):
            closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert bus.closed
        with pytest.raises(ClosedError):
            await bus.publish("a")

    asyncio.run(asyncio.wait_for(main(), 60))


def test_subscriptions_give_back_their_descriptors(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus:
            bus.subscribe("first").close()
            before = threads_and_descriptors()
            for number in range(300):
                bus.subscribe(f"a/{number}").close()
            keep = [bus.subscribe(f"b/{number}") for number in range(300)]
            assert has_no_more_than(before)
            await bus.publish("b/7", 7)
            message = await keep[7].receive(5)
            assert message is not None

    asyncio.run(main())


def test_a_cancelled_reader_loses_no_message_and_no_event(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, bus.subscribe("a") as subscription:

            async def next_event() -> shoal.Event:
                async for event in bus.events():
                    return event
                raise AssertionError("the connection was closed")

            got: list[Any] = []
            joined: list[shoal.Event] = []
            for number in range(20):
                receiving = asyncio.ensure_future(subscription.receive())
                watching = asyncio.ensure_future(next_event())
                async with settled(1), shoal.aio.connect(domain) as other:
                    await other.publish("a", number)
                    if number % 2:
                        receiving.cancel()
                        watching.cancel()
                for task, into in ((receiving, got), (watching, joined)):
                    await asyncio.wait({task})
                    if not task.cancelled():
                        into.append(task.result())
            got += subscription.receive_nowait()
            joined += [event async for event in bus.events(timeout_s=0)]
            assert [message.body for message in got] == list(range(20))
            assert sum(isinstance(event, shoal.MemberJoined) for event in joined) == 20
            assert sum(isinstance(event, shoal.MemberLeft) for event in joined) == 20

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_handler_under_way_at_close_may_still_publish(domain: str) -> None:
    async def main() -> list[Any]:
        async with shoal.aio.connect(domain) as other, other.subscribe("answer") as answers:
            bus = shoal.aio.connect(domain)
            began = asyncio.Event()

            async def callback(message: shoal.Message) -> None:
                began.set()
                await asyncio.sleep(0.05)
                await bus.publish("answer", message.body)

            bus.subscribe("a", callback)
            for number in range(100):
                await other.publish("a", number)
            await began.wait()
            await bus.close()
            return [message.body for message in answers.receive_nowait()]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [0]


def test_a_publisher_that_waits_goes_on_when_there_is_room(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, bus.subscribe("a", queue_bytes_max=2000) as slow:

            async def publish() -> None:
                for number in range(50):
                    await bus.publish("a", bytes([number]) * 600)

            task = asyncio.ensure_future(publish())
            got = [await slow.receive(5) for _ in range(50)]
            await task
            assert [message.body[0] for message in got if message] == list(range(50))
            await bus.publish("a", bytes(2000))
            with pytest.raises(FullError):
                await bus.publish("a", bytes(2000), timeout_s=0.02)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_callback_that_fills_its_own_queue_is_told_and_never_waits_for_itself(domain: str) -> None:
    async def main() -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with shoal.aio.connect(domain) as bus:

            async def callback(message: shoal.Message) -> None:
                if message.body == 0:
                    try:
                        # In tasks of its own, too: it waits for them.
                        for number in range(1, 101):
                            await asyncio.gather(bus.publish("a", number))
                    except FullError as refusal:
                        done.set_result(str(refusal))

            bus.subscribe("a", callback, queue_bytes_max=500)
            await bus.publish("a", 0)
            return await done

    assert "callback" in asyncio.run(asyncio.wait_for(main(), 60))


def test_a_task_that_outlives_the_callback_waits_for_the_queue(domain: str) -> None:
    async def main() -> None:
        numbers: list[int] = []
        tasks: list[asyncio.Task[None]] = []
        done = asyncio.Event()
        async with shoal.aio.connect(domain) as bus:

            async def publish() -> None:
                for number in range(1, 101):
                    await bus.publish("a", number)

            async def callback(message: shoal.Message) -> None:
                numbers.append(message.body)
                if message.body == 0:
                    tasks.append(asyncio.create_task(publish()))
                elif message.body == 100:
                    done.set()

            bus.subscribe("a", callback, queue_bytes_max=500)
            await bus.publish("a", 0)
            await done.wait()
            await tasks[0]
        assert numbers == list(range(101))

    asyncio.run(asyncio.wait_for(main(), 60))


def test_callbacks_that_feed_each_other_never_wait_for_ever(domain: str) -> None:
    async def main() -> str:
        done: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        async with shoal.aio.connect(domain, slow_after_s=0.05) as bus:

            async def callback(message: shoal.Message) -> None:
                try:
                    for _ in range(2):
                        await bus.publish("pong" if message.topic == "ping" else "ping", bytes(100))
                except FullError as refusal:
                    if not done.done():
                        done.set_result(str(refusal))

            for topic in ("ping", "pong"):
                bus.subscribe(topic, callback, queue_bytes_max=500)
            await bus.publish("ping", b"")
            return await done

    assert "each other" in asyncio.run(asyncio.wait_for(main(), 60))


def test_requests_fail_as_they_do_with_threads(domain: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, shoal.aio.connect(domain) as other:
            with pytest.raises(NoRespondersError):
                await bus.request("nobody", timeout_s=60)

            async def fail(request: shoal.Message) -> None:
                raise LookupError("no such price")

            async def count(request: shoal.Message) -> None:
                for number in range(3):
                    await other.reply(request, number, more=number < 2)

            other.subscribe("fails", fail)
            other.subscribe("count", count)
            with pytest.raises(RemoteError, match="LookupError: no such price"):
                await bus.request("fails", timeout_s=60)
            assert [answer.body async for answer in bus.request_many("count")] == [0, 1, 2]

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_connection_is_used_in_one_event_loop(domain: str) -> None:
    async def subscribe(bus: shoal.aio.Bus) -> None:
        bus.subscribe("a")

    bus = shoal.aio.connect(domain)
    asyncio.run(subscribe(bus))
    with pytest.raises(RuntimeError, match="belongs to another event loop"):
        asyncio.run(subscribe(bus))


def test_a_plain_function_may_be_a_callback(domain: str) -> None:
    async def main() -> None:
        called = asyncio.Event()
        async with shoal.aio.connect(domain) as bus:
            bus.subscribe("a", lambda _: called.set())
            await bus.publish("a")
            await asyncio.wait_for(called.wait(), 10)

    asyncio.run(main())


def test_publishing_and_reading_without_a_pause_leave_other_tasks_their_turn(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, bus.subscribe("a", queue_full="drop_new") as messages:
            others = 0

            async def other() -> None:
                nonlocal others
                while True:
                    others += 1
                    await asyncio.sleep(0)

            running = asyncio.ensure_future(other())
            for number in range(2000):
                await bus.publish("a", number)
            assert others >= 2000 // CALLS_MAX
            others = 0
            assert [(await messages.receive()).body for _ in range(2000)] == list(range(2000))  # type: ignore[union-attr]
            assert others >= 2000 // CALLS_MAX
            running.cancel()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_message_that_is_here_is_received_without_waiting_however_often(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus, bus.subscribe("a") as subscription:
            for number in range(2 * CALLS_MAX):
                await bus.publish("a", number)
                message = await subscription.receive(0)
                assert message is not None
                assert message.body == number

    asyncio.run(main())


def test_a_message_that_comes_while_nothing_is_here_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with shoal.aio.connect("inproc://aio-late") as bus:
            subscription = bus.subscribe("t")
            late = iter([[], [shoal.Message("t", "late")], []])
            monkeypatch.setattr(subscription, "_refill", lambda: next(late))
            got = subscription.receive_nowait() + subscription.receive_nowait()
            assert [message.body for message in got] == ["late"]

    asyncio.run(main())
