"""The thread of an outbox: appends what event loops publish, waits for live subscribers, and tidies the disk.

An event loop takes no lock that is held while the disk works, and appends nothing itself. A task that is
cancelled waits no more, and the thread finishes its message all the same. A message is kept once it is
durable: if live subscribers have no room until its deadline, its caller learns that it is kept, and the
thread publishes it when there is room.
"""

import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from shoal import _core
from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import FULL_CHECK_S
from shoal.bus.store_session import Done
from shoal.errors import ShoalError
from shoal.threads import start

#: Appends a message, and returns its number.
Add = Callable[[], int]


@dataclass(slots=True)
class Entry:
    """A message that an event loop publishes."""

    add: Add
    #: When its caller waits no longer for live subscribers.
    deadline: float | None
    #: Called with its number, or with why it is not kept.
    done: Done
    number: int = 0


#: An entry; "look" if there is something to do; none ends the thread.
_Entries = queue.SimpleQueue[Entry | str | None]


class OutboxThread:
    """One thread for all tasks that publish. May be shared between threads; starts when it is needed."""

    def __init__(
        self, outbox: Outbox, node: Callable[[], _core.Node | None], pump: Callable[[], None]
    ) -> None:
        """`node` publishes for live subscribers; `pump` brings what is durable to the store."""
        self._entries: _Entries = queue.SimpleQueue()
        worker = _Worker(self._entries, outbox, node, pump)
        self._thread = threading.Thread(target=worker.run, name="shoal-outbox", daemon=True)
        self._starting = threading.Lock()
        self._end = weakref.finalize(self, self._entries.put, None)

    def add(self, add: Add, deadline: float | None, done: Done) -> None:
        """Append a message, make it durable, publish it, and call `done`."""
        self._put(Entry(add, deadline, done))

    def look(self) -> None:
        """Live subscribers lack a message, or the store has more than is noted."""
        self._put("look")

    def _put(self, entry: Entry | str) -> None:
        with self._starting:
            if self._thread.ident is None:
                start(self._thread)
        self._entries.put(entry)

    def close(self) -> None:
        """Finish what was added, and end the thread."""
        self._end()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()


class _Worker:
    """What the thread does."""

    def __init__(
        self,
        entries: _Entries,
        outbox: Outbox,
        node: Callable[[], _core.Node | None],
        pump: Callable[[], None],
    ) -> None:
        self._entries, self._outbox, self._node, self._pump = entries, outbox, node, pump
        #: Durable, and not live.
        self._kept: deque[Entry] = deque()

    def run(self) -> None:
        is_over = False
        while not is_over:
            batch = self._next()
            is_over = None in batch
            self._add([entry for entry in batch if isinstance(entry, Entry)])
            self._publish()
            self._pump()
            self._tell(is_over=is_over)
            self._outbox.note_if_due()

    def _next(self) -> list[Entry | str | None]:
        """What came; waits, but not while live subscribers lack a message."""
        try:
            batch = [self._entries.get(timeout=FULL_CHECK_S if self._outbox.unlive else None)]
        except queue.Empty:
            return []
        while not self._entries.empty():
            batch.append(self._entries.get())
        return batch

    def _add(self, entries: list[Entry]) -> None:
        added: list[Entry] = []
        for entry in entries:
            try:
                entry.number = entry.add()
            except Exception as error:
                entry.done(None, error)
            else:
                added.append(entry)
        try:
            if added:
                self._outbox.sync()
        except ShoalError as error:
            for entry in added:
                entry.done(None, error)
        else:
            self._kept += added

    def _publish(self) -> None:
        """Publish what is durable, as far as live subscribers have room."""
        node = self._node()
        try:
            if node is not None:
                self._outbox.pass_on(node, 0.0)
        except ShoalError as error:
            # Their messages are kept.
            self._outbox.give_up_live(error)

    def _tell(self, *, is_over: bool) -> None:
        """Tell callers whose message is live, or that wait no longer."""
        now = time.monotonic()
        waiting: deque[Entry] = deque()
        for entry in self._kept:
            is_late = entry.deadline is not None and entry.deadline <= now
            if is_over or is_late or self._outbox.is_live(entry.number):
                entry.done({"number": entry.number}, None)
            else:
                waiting.append(entry)
        self._kept = waiting
