"""How a thread, and how a task, waits for what a store says."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from shoal.bus.arguments import check_seconds
from shoal.bus.store_errors import seconds
from shoal.bus.store_session import Body, Done
from shoal.errors import StoreUnavailableError

if TYPE_CHECKING:
    import asyncio


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
        # A pause that ends twice, because two things ended it, ends once.
        with contextlib.suppress(RuntimeError):
            self._lock.release()

    def is_over(self) -> bool:
        """Whether the outcome is known."""
        return not self._lock.locked()

    def wait(self, timeout_s: float | None) -> bool:
        """Whether the outcome is known in time."""
        return self._lock.acquire(
            timeout=-1.0 if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX)
        )

    def outcome(self) -> Body:
        """The answer, or an exception."""
        if self._error is not None:
            raise self._error
        return self._value or {}


class Waits:
    """The waits of one user of a connection that has others, who can end them and leave the rest alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._pauses: set[Pause] = set()
        self._error: BaseException | None = None

    @contextlib.contextmanager
    def here(self) -> Iterator[None]:
        """Whatever this thread waits for meanwhile is one of these waits."""
        before, _here.waits = _here.waits, self
        try:
            yield
        finally:
            _here.waits = before

    @contextlib.contextmanager
    def holding(self, pause: Pause) -> Iterator[None]:
        """A thread waits."""
        with self._changed:
            if self._error is not None:
                raise self._error
            self._pauses.add(pause)
        try:
            yield
        finally:
            with self._changed:
                self._pauses.discard(pause)
                self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._pauses)

    def end(self, error: BaseException, patience_s: float) -> None:
        """Raise an error in threads that still wait after `patience_s`, and in those that begin to."""
        with self._changed:
            self._changed.wait_for(lambda: not self._pauses, patience_s)
            self._error = error
            pauses = list(self._pauses)
        for pause in pauses:
            pause(None, error)


class _Here(threading.local):
    """Whose waits this thread has."""

    waits: Waits | None = None


_here = _Here()


#: Hears what a store says on the thread that waits, until something is over or for a number of seconds.
Hear = Callable[[Callable[[], bool], float | None], None]
#: Says why the store cannot be reached; nothing if that is not known.
Why = Callable[[], str]


def ask(
    begin: Callable[[Done], None],
    timeout_s: float | None,
    what: str,
    *,
    hear: Hear | None = None,
    why: Why | None = None,
) -> Body:
    """Begin something, and wait for its outcome on this thread."""
    check_seconds("timeout_s", timeout_s, none="no end")
    pause, waits = Pause(), _here.waits
    with contextlib.nullcontext() if waits is None else waits.holding(pause):
        return _waited(pause, begin, timeout_s, what, hear, why)


def _waited(
    pause: Pause,
    begin: Callable[[Done], None],
    timeout_s: float | None,
    what: str,
    hear: Hear | None,
    why: Why | None,
) -> Body:
    begin(pause)
    left_s = timeout_s
    if hear is not None and not pause.is_over():
        began = time.monotonic()
        hear(pause.is_over, timeout_s)
        left_s = None if timeout_s is None else max(timeout_s - (time.monotonic() - began), 0.0)
    if not pause.wait(left_s):
        raise away(what, timeout_s, why)
    return pause.outcome()


def begin_in_loop(begin: Callable[[Done], None]) -> "asyncio.Future[Body]":
    """Begin something; its outcome comes to this event loop."""
    # Programs without an event loop do without its memory.
    import asyncio

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
        # No task waits where the loop is closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, value, error)

    begin(done)
    return waiting


async def ask_in_loop(
    begin: Callable[[Done], None], timeout_s: float | None, what: str, *, why: Why | None = None
) -> Body:
    """Begin something, and wait for its outcome in this event loop. A cancelled task waits no more."""
    import asyncio

    check_seconds("timeout_s", timeout_s, none="no end")
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await begin_in_loop(begin)
    except TimeoutError:
        if not limit.expired():
            raise
        raise away(what, timeout_s, why) from None


def away(what: str, timeout_s: float | None, why: Why | None = None) -> StoreUnavailableError:
    """The store did not answer in time."""
    within = "in time" if timeout_s is None else f"within {seconds(timeout_s)}"
    known = "" if why is None else why()
    reason = f" ({known})" if known else ""
    return StoreUnavailableError(f"the store did not answer {within}: {what}{reason}")
