"""How a thread, and how a task, waits for what a store says."""

import asyncio
import contextlib
import threading
from collections.abc import Callable

from shoal.bus.arguments import check_seconds
from shoal.bus.store_session import Body, Done
from shoal.errors import StoreAwayError


class Pause:
    """One wait of a thread; called with the outcome, on whatever thread."""

    __slots__ = ("_error", "_lock", "_value")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._value: Body | None = None
        self._error: BaseException | None = None

    def __call__(self, value: Body | None, error: BaseException | None) -> None:
        """It is over."""
        self._value, self._error = value, error
        # Whoever ends twice, because two things ended it, ends once.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def wait(self, timeout_s: float | None, what: str) -> Body:
        """The outcome."""
        limit = -1.0 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=limit):
            raise away(what, timeout_s)
        if self._error is not None:
            raise self._error
        return self._value or {}


def ask(begin: Callable[[Done], None], timeout_s: float | None, what: str) -> Body:
    """Begin something, and wait for its outcome on this thread."""
    check_seconds("timeout_s", timeout_s, none="no end")
    pause = Pause()
    begin(pause)
    return pause.wait(timeout_s, what)


async def ask_in_loop(begin: Callable[[Done], None], timeout_s: float | None, what: str) -> Body:
    """Begin something, and wait for its outcome in this event loop. Whoever is cancelled waits no more."""
    check_seconds("timeout_s", timeout_s, none="no end")
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[Body] = loop.create_future()

    def finish(value: Body | None, error: BaseException | None) -> None:
        if waiting.done():
            return
        if error is None:
            waiting.set_result(value or {})
        else:
            waiting.set_exception(error)

    def done(value: Body | None, error: BaseException | None) -> None:
        # Nobody waits where the loop is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, value, error)

    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            begin(done)
            return await waiting
    except TimeoutError:
        if not limit.expired():
            raise
        raise away(what, timeout_s) from None


def away(what: str, timeout_s: float | None) -> StoreAwayError:
    """The store did not answer in time."""
    return StoreAwayError(f"the store did not answer within {timeout_s} s: {what}")
