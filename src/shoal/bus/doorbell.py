"""How an event loop learns that something happened: it watches one descriptor per connection.

No thread waits for it, so a cancelled wait leaves nothing behind. What cannot be waited for by a descriptor,
the end of a store, has a thread of its own. So has a loop that watches no descriptors, as Windows' own.
"""

import asyncio
import contextlib
import functools
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from shoal import _core
from shoal.bus.operations import Operation
from shoal.system import Readable
from shoal.threads import start

if TYPE_CHECKING:
    from shoal.bus.retained import Source

T = TypeVar("T")

#: Calls in a row that may end without having waited; then the other tasks of the loop have their turn.
CALLS_MAX = 256
#: How often a thread that waits for a loop looks whether that is closed.
_LOOK_S = 5.0


class Doorbell:
    """The bell of one connection in one event loop. Lives as long as the connection or one of its
    subscriptions."""

    def __init__(
        self, attach: Callable[[_core.Bell], None], on_change: Callable[[], None] = lambda: None
    ) -> None:
        """Watch a bell; `attach` gives it to what rings it, `on_change` is called when that did."""
        self.loop = asyncio.get_running_loop()
        self._on_change = on_change
        #: `None` once it is closed.
        self._bell: _core.Bell | None = _core.Bell()
        self._changed: set[asyncio.Future[None]] = set()
        self._arrived: dict[int, asyncio.Event] = {}
        self._next = 1
        self._calls = 0
        attach(self._bell)
        watch = _watch(self.loop, self._bell, weakref.ref(self))
        #: `None` once it is closed: it holds the bell's descriptor.
        self._watch: _Reader | _Waiter | None = watch
        self._finalizer = weakref.finalize(self, watch.end)
        self._finalizer.atexit = False

    def check_loop(self) -> None:
        """Refuse to work in another event loop."""
        if asyncio.get_running_loop() is not self.loop:
            raise RuntimeError("this connection belongs to another event loop: open one in each")

    def watch(self, subscription: "Source") -> tuple[int, asyncio.Event]:
        """An event that is set when a subscription has something to receive, and the number to `forget`."""
        source, self._next = self._next, self._next + 1
        arrived = self._arrived[source] = asyncio.Event()
        if self._bell is not None:
            subscription.attach_bell(self._bell, source)
        return source, arrived

    def forget(self, source: int) -> None:
        """No task waits for a subscription any more. May be called on any thread."""
        self._arrived.pop(source, None)

    def answer(self) -> None:
        """Wake the tasks that wait for what happened."""
        taken = () if self._bell is None else self._bell.take()
        if self._watch is not None:
            self._watch.go_on()
        for source in taken:
            if source == 0:
                self._on_change()
                for waiting in self._changed:
                    if not waiting.done():
                        waiting.set_result(None)
            elif arrived := self._arrived.get(source):
                arrived.set()

    async def take_turn(self) -> None:
        """Let other tasks run now and then, for a call that may not have to wait."""
        self._calls += 1
        if self._calls >= CALLS_MAX:
            self._calls = 0
            await asyncio.sleep(0)

    async def wait(self, until: float | None) -> None:
        """Wait until the connection changes, at the latest until a time of `time.monotonic`."""
        waiting = self.loop.create_future()
        self._changed.add(waiting)
        left_s = None if until is None else max(until - time.monotonic(), 0.0)
        timer = None if left_s is None else self.loop.call_later(left_s, _wake, waiting)
        try:
            await waiting
        finally:
            self._changed.discard(waiting)
            if timer is not None:
                timer.cancel()

    async def run(self, operation: Operation[T]) -> T:
        """Carry out an operation in this loop."""
        self.check_loop()
        try:
            while True:
                await self.wait(next(operation))
        except StopIteration as done:
            result: T = done.value
            return result
        finally:
            operation.close()

    def close(self) -> None:
        """Give the descriptor back."""
        self._finalizer()
        self._bell = self._watch = None
        for waiting in self._changed:
            _wake(waiting)
        for arrived in self._arrived.values():
            arrived.set()


async def in_own_thread(work: Callable[[], T]) -> T:
    """Do what can only block, beside the loop. A cancelled task does not wait for it, and it goes on.

    The loop's own threads are for its application, which may have all of them waiting for something.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as raised:
            _tell(loop, done, functools.partial(done.set_exception, raised))
        else:
            _tell(loop, done, functools.partial(done.set_result, result))

    start(threading.Thread(target=run, name="shoal-close"))
    return await done


def _tell(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[T]", finish: Callable[[], None]) -> None:
    # No task waits where the loop is closed.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_finish, done, finish)


def _finish(done: "asyncio.Future[T]", finish: Callable[[], None]) -> None:
    if not done.done():
        finish()


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


def _rang(target: "weakref.ref[Doorbell]") -> None:
    doorbell = target()
    if doorbell is not None:
        doorbell.answer()


class _Reader:
    """A loop that watches the bell's descriptor."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, bell: _core.Bell, target: "weakref.ref[Doorbell]"
    ) -> None:
        self._loop, self._bell = loop, bell
        loop.add_reader(bell.fileno(), _rang, target)

    def go_on(self) -> None:
        """The bell was answered."""

    def end(self) -> None:
        """Take the descriptor out of the loop, before it is closed with the bell."""
        if self._loop.is_closed():
            return
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            is_here = not self._loop.is_running()
        if is_here:
            self._loop.remove_reader(self._bell.fileno())
        else:
            # Dropped on another thread: the bell lives until its loop comes to it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.end)


class _Waiter:
    """A thread that waits for the bell, for a loop that watches no descriptors."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, bell: _core.Bell, target: "weakref.ref[Doorbell]"
    ) -> None:
        self._loop, self._bell, self._target = loop, bell, target
        self._answered = threading.Event()
        self._ended = False
        start(threading.Thread(target=self._run, name="shoal-bell", daemon=True))

    def _run(self) -> None:
        rings = Readable(self._bell.fileno())
        while not self._ended:
            # An abandoned loop is noticed now and then.
            if not rings.wait(_LOOK_S):
                if self._loop.is_closed():
                    return
                continue
            self._answered.clear()
            try:
                self._loop.call_soon_threadsafe(_rang, self._target)
            except RuntimeError:
                return
            # It can be read until the loop has answered: one call for each time.
            while not self._ended and not self._answered.wait(_LOOK_S):
                if self._loop.is_closed():
                    return

    def go_on(self) -> None:
        """The bell was answered."""
        self._answered.set()

    def end(self) -> None:
        """End the thread; on any thread."""
        self._ended = True
        self._answered.set()
        self._bell.ring(0)


def _watch(
    loop: asyncio.AbstractEventLoop, bell: _core.Bell, target: "weakref.ref[Doorbell]"
) -> _Reader | _Waiter:
    try:
        return _Reader(loop, bell, target)
    except NotImplementedError:
        return _Waiter(loop, bell, target)
