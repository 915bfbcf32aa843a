"""A thread beside an event loop for what a session has to wait for: its store, or room in the network."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

#: Calls of one session that wait for its thread; one more waits for room.
WAITING_MAX = 1000


class _Job(NamedTuple):
    """What to do, and whom to tell; what undoes it, should nobody wait for it any more."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    done: "asyncio.Future[Any]"
    undo: Callable[[Any], object] | None
    ended: Callable[[], None]


class Worker:
    """Does one thing after the other, in the order in which it was asked. For the tasks of one loop."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(WAITING_MAX)
        self._thread: threading.Thread | None = None
        self._under_way = 0

    @property
    def is_busy(self) -> bool:
        """Whether something is not done yet, so that what comes now has to queue behind it."""
        return self._under_way > 0

    async def run(
        self,
        work: Callable[[], T],
        undo: Callable[[T], object] | None = None,
        ended: Callable[[], None] = lambda: None,
    ) -> T:
        """Do something in the thread.

        Whoever is cancelled does not wait for it. It is done all the same, and then undone, where that is
        possible. `ended` is called in the loop when it is over, or will never be begun.
        """
        self._under_way += 1
        try:
            await self._room.acquire()
        except BaseException:
            self._under_way -= 1
            ended()
            raise
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        here = contextvars.copy_context()
        self._jobs.put(_Job(lambda: here.run(work), loop, done, undo, ended))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="shoal-jms-worker", daemon=True)
            self._thread.start()
        return await done

    def close(self) -> None:
        """End the thread when it has done what it was asked; nothing more may be asked."""
        if self._thread is not None:
            self._jobs.put(None)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, error = None, None
            try:
                result = job.work()
            except BaseException as raised:
                error = raised
            # Nobody waits where the loop is closed.
            with contextlib.suppress(RuntimeError):
                job.loop.call_soon_threadsafe(self._finish, job, result, error)

    def _finish(self, job: _Job, result: Any, error: BaseException | None) -> None:
        self._under_way -= 1
        self._room.release()
        job.ended()
        done = job.done
        if done.done():
            if error is None and job.undo is not None:
                threading.Thread(target=job.undo, args=(result,), name="shoal-jms-undo", daemon=True).start()
        elif error is None:
            done.set_result(result)
        else:
            done.set_exception(error)
