"""Who is done with the message that it received last, when something is closed: that one is acknowledged."""

import threading
from collections.abc import Callable, Hashable

#: Whether a reader, a thread or a task, is done. Who is not has its message in hand, and it comes again.
IsDone = Callable[[Hashable], bool]


def nobody(reader: Hashable) -> bool:
    """Nobody is, where nothing was closed."""
    return False


def threads_done(succeeded: bool) -> IsDone:
    """Threads that have ended are done, and the one that closes, if it `succeeded`; others go on."""
    working = {thread.ident for thread in threading.enumerate()}
    if succeeded:
        working.discard(threading.get_ident())
    return lambda reader: reader not in working


def tasks_done(succeeded: bool) -> IsDone:
    """Tasks that have ended well are done, and the one that closes, if it `succeeded`; others go on."""
    # Programs without an event loop do without its memory.
    import asyncio

    closing = asyncio.current_task()

    def is_done(reader: Hashable) -> bool:
        if reader is closing:
            return succeeded
        if not isinstance(reader, asyncio.Task):
            return True
        return reader.done() and not reader.cancelled() and reader.exception() is None

    return is_done
