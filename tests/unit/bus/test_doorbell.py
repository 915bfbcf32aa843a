"""Event loops that watch no descriptors, as Windows' own: a thread waits for the connection's bell."""

import asyncio
import gc
import threading
import time
from collections.abc import Coroutine
from typing import Any

import pytest

import shoal
from shoal.bus import doorbell as doorbell_module
from shoal.bus.doorbell import Doorbell

WITHIN_S = 30.0


class ProactorLike(asyncio.SelectorEventLoop):
    """A loop without `add_reader`."""

    def add_reader(self, fd: Any, callback: Any, *args: Any) -> None:
        raise NotImplementedError

    def remove_reader(self, fd: Any) -> bool:
        raise NotImplementedError


def run(main: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=ProactorLike) as runner:
        runner.run(main)


def bell_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "shoal-bell"]


def await_no_bell_thread() -> None:
    deadline = time.monotonic() + WITHIN_S
    while bell_threads():
        assert time.monotonic() < deadline, "the thread goes on"
        time.sleep(0.01)


@pytest.mark.parametrize("url", ["inproc://doorbell", "tcp"])
def test_messages_requests_and_flushes_work(url: str) -> None:
    async def main() -> None:
        listening = shoal.aio.listen("tcp://127.0.0.1:0") if url == "tcp" else shoal.aio.connect(url)
        async with listening as one:  # noqa: SIM117
            async with shoal.aio.connect(one.links[0].url if url == "tcp" else url) as other:
                subscription = other.subscribe("a")
                assert await one.wait_for_subscribers("a", timeout_s=WITHIN_S)
                for number in range(1000):
                    await one.publish("a", number)
                assert [(await subscription.receive(WITHIN_S)).body for _ in range(1000)] == list(range(1000))
                await one.flush(WITHIN_S)

                async def double(question: shoal.Message) -> None:
                    await question.reply(question.body * 2)

                other.subscribe("double", double)
                assert await one.wait_for_subscribers("double", timeout_s=WITHIN_S)
                assert (await one.request("double", 21)).body == 42
                assert bell_threads()

    run(main())
    await_no_bell_thread()


def test_a_connection_that_is_dropped_ends_its_thread() -> None:
    async def main() -> None:
        bus = shoal.aio.connect("inproc://dropped")
        await bus.wait_for_subscribers("a", timeout_s=0.01)
        assert bell_threads()
        del bus
        gc.collect()
        await asyncio.to_thread(await_no_bell_thread)

    run(main())


def test_a_closed_loop_ends_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doorbell_module, "_LOOK_S", 0.01)
    kept: list[Doorbell] = []

    async def main() -> None:
        kept.append(Doorbell(lambda _: None))

    run(main())
    await_no_bell_thread()
    kept[0].close()


def test_a_loop_that_is_busy_is_called_once() -> None:
    async def main() -> None:
        bells: list[Any] = []
        calls: list[None] = []
        doorbell = Doorbell(bells.append, lambda: calls.append(None))
        for _ in range(100):
            bells[0].ring(0)
        await doorbell.wait(time.monotonic() + WITHIN_S)
        assert len(calls) == 1
        bells[0].ring(0)
        await doorbell.wait(time.monotonic() + WITHIN_S)
        assert len(calls) == 2
        doorbell.close()

    run(main())
    await_no_bell_thread()
