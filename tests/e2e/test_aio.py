"""`shoal.aio` in processes of its own: delivery, requests, cancellation, closing."""

import pytest
from conftest import StartPeers
from programs import Program, run_script
from test_delivery import whole

HEAD = """
import asyncio, sys, time
import shoal.aio
"""


def runs_well(source: str, *arguments: str) -> str:
    """Run an asyncio program that must end by itself, with success and nothing on stderr."""
    ran = run_script(HEAD + source + "\nasyncio.run(main(), debug=False)", *arguments)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    return ran.stdout


def beside(source: str, url: str) -> Program:
    """An asyncio program that runs beside others of its test."""
    return Program(["-W", "error", "-c", HEAD + source + "\nasyncio.run(main(), debug=False)", url])


def test_everything_published_by_another_program_arrives_in_order(start: StartPeers, url: str) -> None:
    (publisher,) = start(1)
    reader = beside(
        """
from traffic import Audit
async def main():
    audit = Audit()
    async with shoal.aio.connect(sys.argv[1]) as bus, bus.subscribe("t/>") as subscription:
        async for message in subscription:
            audit.take(message)
            if audit.count() == 20_000:
                break
    assert audit.report()["0"]["faults"] == [], audit.report()
""",
        url,
    )
    try:
        publisher.ask("wait_for_subscribers", topic="t/x", count=1)
        publisher.ask("publish", topic="t/x", count=20_000, sizes=[64, 3000])
        reader.finish(30)
    finally:
        reader.kill()


def test_what_a_loop_publishes_arrives_and_is_flushed(start: StartPeers, url: str) -> None:
    (subscriber,) = start(1)
    subscriber.ask("subscribe", pattern="t/>")
    runs_well(
        """
from traffic import make_body
async def main():
    async with shoal.aio.connect(sys.argv[1]) as bus:
        assert await bus.wait_for_subscribers("t/x", timeout_s=60)
        for number in range(5000):
            await bus.publish("t/x", make_body(0, number, 500))
        await bus.flush(60)
""",
        url,
    )
    whole(subscriber.ask("wait_received", pattern="t/>", source=0, count=5000), 0, 5000)


def test_a_loop_asks_and_answers(start: StartPeers, url: str) -> None:
    (answering,) = start(1)
    answering.ask("subscribe", pattern="ask", reply=True)
    loop = beside(
        """
async def main():
    done = asyncio.Event()
    async with shoal.aio.connect(sys.argv[1]) as bus:
        async def answer(message):
            await bus.reply(message, message.body * 2)
            done.set()
        bus.subscribe("double", answer)
        assert await bus.wait_for_subscribers("ask", timeout_s=60)
        replies = await asyncio.gather(*(bus.request("ask", number, timeout_s=60) for number in range(50)))
        assert [reply.body["asked"] for reply in replies] == list(range(50))
        await asyncio.wait_for(done.wait(), 60)
""",
        url,
    )
    try:
        answering.ask("wait_for_subscribers", topic="double", count=1)
        assert answering.ask("request", topic="double", body=21, timeout_s=60)["body"] == 42
        loop.finish(30)
    finally:
        loop.kill()


def test_a_request_that_nobody_answers_fails_in_time(url: str) -> None:
    runs_well(
        """
async def main():
    async with shoal.aio.connect(sys.argv[1]) as bus:
        began = time.monotonic()
        try:
            await bus.request("nobody", timeout_s=0.2)
        except shoal.errors.NoReplyError:
            assert time.monotonic() - began < 5
        else:
            raise AssertionError("somebody answered")
""",
        url,
    )


WAITS = {
    "receive": "bus.subscribe('a').receive()",
    "iteration": "anext(bus.subscribe('a'))",
    "request": "bus.request('nobody', timeout_s=60)",
}


@pytest.mark.parametrize("what", WAITS)
def test_a_task_that_waits_is_cancelled_at_once_and_the_connection_goes_on(url: str, what: str) -> None:
    runs_well(
        f"""
async def main():
    async with shoal.aio.connect(sys.argv[1]) as bus, bus.subscribe("own") as own:
        task = asyncio.ensure_future({WAITS[what]})
        await asyncio.sleep(0.05)
        task.cancel()
        began = time.monotonic()
        try:
            await task
        except asyncio.CancelledError:
            pass
        assert task.cancelled() and time.monotonic() - began < 5
        await bus.publish("own", 7)
        assert (await own.receive(5)).body == 7
""",
        url,
    )


def test_closing_ends_every_reader_and_callback_of_the_loop(url: str) -> None:
    out = runs_well(
        """
async def main():
    bus = shoal.aio.connect(sys.argv[1])
    async def called(message):
        await asyncio.sleep(0)
    bus.subscribe("b", called)
    subscription = bus.subscribe("a")
    async def read():
        return [message.body async for message in subscription]
    reader = asyncio.create_task(read())
    await bus.publish("a", 1)
    await asyncio.sleep(0.1)
    assert await bus.close() is True
    assert await bus.close() is True
    print(await asyncio.wait_for(reader, 5))
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
    try:
        await bus.publish("a", 2)
    except shoal.errors.ClosedError:
        print("closed")
""",
        url,
    )
    assert out == "[1]\nclosed\n"


def test_closing_inside_a_callback_is_allowed(url: str) -> None:
    runs_well(
        """
async def main():
    bus = shoal.aio.connect(sys.argv[1])
    closed = asyncio.Event()
    async def called(message):
        await bus.close()
        closed.set()
    bus.subscribe("a", called)
    await bus.publish("a", 1)
    await asyncio.wait_for(closed.wait(), 60)
""",
        url,
    )


def test_connections_that_are_dropped_unclosed_leave_no_threads_and_no_descriptors(url: str) -> None:
    runs_well(
        """
import gc, os, warnings
warnings.simplefilter("ignore", ResourceWarning)

async def ignore(message):
    pass

def drop(number):
    bus = shoal.aio.connect(sys.argv[1])
    bus.subscribe("a/*")
    if number % 2:
        bus.subscribe("b", ignore)

def state():
    gc.collect()
    return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))

async def main():
    threads, descriptors = state()
    for number in range(12):
        drop(number)
    # A listener ends when its loop comes to it, and its connection with it.
    async with asyncio.timeout(60):
        while len(asyncio.all_tasks()) > 1 or state() != (threads, descriptors):
            await asyncio.sleep(0.01)
""",
        url,
    )


@pytest.mark.parametrize("what", ["bus.flush(None)", "bus.publish('t/x', bytes(100_000))", "bus.close()"])
def test_waiting_for_a_frozen_member_can_be_cancelled(start: StartPeers, url: str, what: str) -> None:
    (frozen,) = start(1)
    frozen.ask("subscribe", pattern="t/>", read=False)
    waiting = beside(
        f"""
import threading
async def main():
    bus = shoal.aio.connect(sys.argv[1], slow_after_s=60)
    assert await bus.wait_for_subscribers("t/x", timeout_s=60)
    print("{{}}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    threads = threading.active_count()
    async def wait():
        for _ in range(200):
            await bus.publish("t/x", bytes(100_000), timeout_s=None if "publish" in {what!r} else 0.001)
        await {what}
    async def fill():
        try:
            await wait()
        except shoal.FullError:
            await {what}
    task = asyncio.ensure_future(fill())
    await asyncio.sleep(0.5)
    assert not task.done()
    assert threading.active_count() == threads
    task.cancel()
    began = time.monotonic()
    try:
        await task
    except asyncio.CancelledError:
        pass
    assert task.cancelled() and time.monotonic() - began < 5
    await bus.close(0)
""",
        url,
    )
    try:
        waiting.answer()
        frozen.freeze()
        waiting.tell("go")
        waiting.finish(
            30, says="" if what == "bus.close()" else "closed before every member had every message"
        )
    finally:
        waiting.kill()
