"""The thread that finishes what event loops put into an outbox: makes it durable, then publishes it.

A task that is cancelled waits no more, and what it put there is finished all the same.
"""

import queue
import threading
import weakref
from collections.abc import Callable

from shoal.bus.store_session import Done
from shoal.bus.threads import start
from shoal.errors import ShoalError

#: Publishes what is durable.
Finish = Callable[[], None]
_Entries = queue.SimpleQueue[tuple[Finish, Done] | None]


class OutboxThread:
    """One thread for all tasks that publish. May be shared between threads; starts with the first message."""

    def __init__(self, sync: Callable[[], None]) -> None:
        """`sync` returns when everything before is durable."""
        self._entries: _Entries = queue.SimpleQueue()
        self._thread = threading.Thread(
            target=_run, args=[self._entries, sync], name="shoal-outbox", daemon=True
        )
        self._starting = threading.Lock()
        self._end = weakref.finalize(self, self._entries.put, None)

    def add(self, finish: Finish, done: Done) -> None:
        """A message was appended: make it durable, finish it, and call `done`."""
        with self._starting:
            if self._thread.ident is None:
                start(self._thread)
        self._entries.put((finish, done))

    def close(self) -> None:
        """Finish what was added, and end the thread."""
        self._end()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()


def _run(entries: _Entries, sync: Callable[[], None]) -> None:
    is_over = False
    while not is_over:
        batch = [entries.get()]
        while not entries.empty():
            batch.append(entries.get())
        is_over = None in batch
        added = [entry for entry in batch if entry is not None]
        try:
            if added:
                sync()
        except ShoalError as error:
            for _, done in added:
                done(None, error)
            continue
        for finish, done in added:
            try:
                finish()
            except ShoalError as error:
                done(None, error)
            else:
                done({}, None)
