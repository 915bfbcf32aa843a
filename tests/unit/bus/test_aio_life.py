"""What becomes of an asyncio connection that nobody closes."""

import asyncio
import gc
import importlib
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import shoal.aio
from shoal.errors import StoreLockedError

WARNING = "SHOAL-2115 .*Bus.* with callbacks was not closed"


async def ignore(_: shoal.Message) -> None:
    """A callback that keeps nothing."""


def listeners() -> set[asyncio.Task[object]]:
    """The tasks of callbacks."""
    return {task for task in asyncio.all_tasks() if task.get_name().startswith("shoal-")}


def forget(kept: list[shoal.aio.Bus]) -> None:
    """Nobody has them any more."""
    kept.clear()
    gc.collect()


def here(drop: Callable[[], None]) -> None:
    """Drop it on the loop's own thread."""
    drop()


def elsewhere(drop: Callable[[], None]) -> None:
    """Drop it on another thread, while the loop waits."""
    thread = threading.Thread(target=drop)
    thread.start()
    thread.join(10)


@pytest.mark.parametrize("where", [here, elsewhere])
def test_a_connection_that_nobody_keeps_ends_its_callbacks_and_warns(
    domain: str, where: Callable[[Callable[[], None]], None]
) -> None:
    async def main() -> None:
        kept = [shoal.aio.connect(domain)]
        kept[0].subscribe("a", ignore)
        kept[0].subscribe("b/*", ignore)
        await asyncio.sleep(0)
        tasks = listeners()
        assert len(tasks) == 2

        with pytest.warns(ResourceWarning, match=WARNING):
            where(lambda: forget(kept))
        _, pending = await asyncio.wait(tasks, timeout=10)
        assert not pending

    asyncio.run(main())


def test_a_connection_that_only_asked_is_not_kept_by_its_answers(domain: str) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as other:
            other.subscribe("double", lambda request: other.reply(request, request.body * 2))
            kept = [shoal.aio.connect(domain)]
            assert (await kept[0].request("double", 4)).body == 8
            before = listeners()
            with pytest.warns(ResourceWarning, match=WARNING):
                forget(kept)
            done, _ = await asyncio.wait(before, timeout=10, return_when=asyncio.FIRST_COMPLETED)
            assert [task.get_name()[:13] for task in done] == ["shoal-_reply/"]

    asyncio.run(main())


def test_a_connection_that_outlives_its_loop_unclosed_warns(domain: str) -> None:
    async def main() -> shoal.aio.Bus:
        bus = shoal.aio.connect(domain)
        bus.subscribe("a", ignore)
        await asyncio.sleep(0)
        return bus

    kept = [asyncio.run(main())]
    with pytest.warns(ResourceWarning, match=WARNING):
        forget(kept)


def test_a_subscription_is_kept_by_its_reader_and_keeps_the_connection(domain: str) -> None:
    async def main() -> None:
        subscription = shoal.aio.connect(domain).subscribe("a")
        gc.collect()
        async with shoal.aio.connect(domain) as publisher:
            await publisher.publish("a", 1)
            message = await subscription.receive(10)
            assert message is not None
            assert message.body == 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()


def test_a_connection_that_was_closed_warns_of_nothing(domain: str, recwarn: pytest.WarningsRecorder) -> None:
    async def main() -> None:
        async with shoal.aio.connect(domain) as bus:
            bus.subscribe("a", ignore)

    asyncio.run(main())
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]


def test_closing_ends_the_store_though_all_threads_of_the_loop_are_taken(domain: str, tmp_path: Path) -> None:
    async def main() -> None:
        loop, release = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(1))
        taken = loop.run_in_executor(None, release.wait, 60)
        bus = shoal.aio.connect(domain, store=tmp_path / "store", record=["prices/>"])
        assert not bus.store.wait(0)
        await bus.close()
        assert bus.store.wait(0), "it is closed"
        release.set()
        await taken

    asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("tidy", [True, False])
def test_a_connection_whose_loop_is_closed_can_be_closed_in_another(domain: str, tidy: bool) -> None:
    async def use() -> shoal.aio.Bus:
        bus = shoal.aio.connect(domain)
        bus.subscribe("a", lambda message: None)
        await bus.publish("a", 1)
        # The callback's task waits for more.
        await asyncio.sleep(0)
        return bus

    if tidy:
        bus = asyncio.run(use())
    else:
        loop = asyncio.new_event_loop()
        bus = loop.run_until_complete(use())
        loop.close()
    with shoal.connect(domain) as other:
        assert other.members == [bus.node]
        assert asyncio.run(asyncio.wait_for(bus.close(), 20))
        assert other.members == []
    assert bus.closed


@pytest.mark.parametrize("option", ["store", "outbox"])
def test_logs_are_recovered_beside_the_loop(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str
) -> None:
    async def main() -> None:
        def slowly(*arguments: Any, **options: Any) -> Any:
            # As long as the loop does something else; on the loop's own thread that is for ever.
            assert going_on.wait(10)
            return original(*arguments, **options)

        monkeypatch.setattr(module, "Log", slowly)
        bus = shoal.aio.connect(domain, **{option: tmp_path / option})
        entering = asyncio.create_task(bus.__aenter__())
        await asyncio.sleep(0)
        assert not entering.done()
        going_on.set()
        await entering
        assert (await bus.publish("a", 1, persistent=True)).id
        await bus.close()

    going_on = threading.Event()
    module = importlib.import_module({"store": "shoal.store.role", "outbox": "shoal.bus.outbox"}[option])
    original = module.Log
    asyncio.run(asyncio.wait_for(main(), 60))


def test_entering_says_why_a_store_cannot_be_opened(domain: str, tmp_path: Path) -> None:
    async def main() -> None:
        with shoal.connect(domain, store=tmp_path), pytest.raises(StoreLockedError):
            async with shoal.aio.connect(domain, store=tmp_path):
                pass
        async with shoal.aio.connect(domain, store=tmp_path) as bus:
            assert bus.store.wait_open(10)

    asyncio.run(asyncio.wait_for(main(), 60))


def test_entering_says_so_too_if_opening_failed_before(domain: str, tmp_path: Path) -> None:
    async def main() -> None:
        with shoal.connect(domain, store=tmp_path):
            late = shoal.aio.connect(domain, store=tmp_path)
            with pytest.raises(StoreLockedError):
                late._connection.wait_opened()
            with pytest.raises(StoreLockedError):
                async with late:
                    pass

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_task_that_is_cancelled_while_a_store_opens_leaves_none_open(
    domain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        going_on = threading.Event()

        def slowly(*arguments: Any, **options: Any) -> Any:
            assert going_on.wait(10)
            return original(*arguments, **options)

        monkeypatch.setattr(module, "Log", slowly)
        bus = shoal.aio.connect(domain, store=tmp_path)
        entering = asyncio.create_task(bus.__aenter__())
        await asyncio.sleep(0.01)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        going_on.set()
        bus._connection.wait_opened()
        monkeypatch.undo()
        with shoal.connect(domain, store=tmp_path):
            pass

    module = importlib.import_module("shoal.store.role")
    original = module.Log
    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_connection_that_is_awaited_is_open_until_it_is_closed(domain: str) -> None:
    async def main() -> None:
        bus = await shoal.aio.connect(domain)
        subscription = bus.subscribe("a")
        await bus.publish("a", 1)
        assert (await subscription.receive(timeout_s=5)).body == 1  # type: ignore[union-attr]
        assert await bus.close()
        with shoal.listen("tcp://127.0.0.1:0") as listening:
            async with await shoal.aio.connect(listening.links[0].url) as bus:
                assert bus.members == [listening.node], "awaiting it connects, and entering it does not again"

    asyncio.run(main())
