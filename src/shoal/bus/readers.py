"""Readers: who took a message, and is done with it when it asks for the next one.

A reader is a thread, or the task that called `receive`. A thread's identifier is used again by the next
thread, and `asyncio.wait_for` runs `receive` in a task of its own; so neither `get_ident` nor the current
task tells who reads.
"""

import threading
from collections.abc import Callable, Hashable

#: Whether a reader, a thread or a task, is done. Who is not has its message in hand, and it comes again.
IsDone = Callable[[Hashable], bool]


class _Here(threading.local):
    """This thread as a reader: never the same as that of another thread, also of one that has ended."""

    def __init__(self) -> None:
        self.reader = object()


_here = _Here()


def thread_here() -> Hashable:
    """This thread, as a reader."""
    return _here.reader


def task_here() -> Hashable:
    """The task that calls, as a reader; the loop's callbacks are one reader together."""
    # Programs without an event loop do without its memory.
    import asyncio

    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def nobody(reader: Hashable) -> bool:
    """Nobody is, where nothing was closed."""
    return False


def threads_done(succeeded: bool) -> IsDone:
    """The thread that closes is done, if it `succeeded`; how another one ended is not known."""
    closing = thread_here()
    return lambda reader: succeeded and reader is closing


def tasks_done(succeeded: bool) -> IsDone:
    """Tasks that have ended well are done, and the closing one, if it `succeeded`; others go on."""
    # Programs without an event loop do without its memory.
    import asyncio

    closing = task_here()

    def is_done(reader: Hashable) -> bool:
        if reader is closing:
            return succeeded
        if not isinstance(reader, asyncio.Task):
            return True
        return reader.done() and not reader.cancelled() and reader.exception() is None

    return is_done
