"""How a thread waits for a connection: in the system, for a descriptor, without the GIL."""

import atexit
import threading
import time
import weakref
from dataclasses import replace
from typing import TypeVar

from shoal import _core
from shoal.bus.connection import Connection, closed_error
from shoal.bus.operations import STALL_S, Operation, deliver
from shoal.bus.readers import nobody
from shoal.errors import ShoalError
from shoal.signals import SIGNAL_S
from shoal.system import Readable
from shoal.threads import start

T = TypeVar("T")

#: What a connection that is still open when the interpreter exits may take.
_EXIT_LINGER_S = 1.0
_EXIT_STALL_S = 0.2

_open: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def close_at_exit(connection: Connection) -> None:
    """Close a connection at the latest when the interpreter exits."""
    _open.add(connection)


def linger(connection: Connection) -> None:
    """Close a connection that has no reference any more as `close` does, on a thread, if it has published.

    If the program ends meanwhile, it is closed as one that is still open. A subscription that has a reference
    keeps the node, which goes on delivering.
    """
    if connection.closed or connection.is_foreign or not connection.node.has_unconfirmed():
        return
    if all(reader.closed for reader in connection.readers):
        start(threading.Thread(target=_linger, args=(connection,), name="shoal-linger", daemon=True))


def _linger(connection: Connection) -> None:
    try:
        undelivered = run(connection, deliver(connection, None, STALL_S))
    except (ShoalError, SystemExit):
        # The program ends, which closed it meanwhile.
        return
    if not connection.closed:
        connection.closed = True
        connection.shut_down()
        connection.say_undelivered(undelivered)


def run(connection: Connection, operation: Operation[T]) -> T:
    """Carry out an operation on this thread."""
    bell: _core.Bell | None = None
    try:
        until = next(operation)
        bell = _core.Bell()
        connection.node.attach_bell(bell)
        bell_rings = Readable(bell.fileno())
        # What happened before the bell was there is seen now.
        until = next(operation)
        while True:
            bell_rings.wait(_left_s(until))
            bell.take()
            until = next(operation)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        operation.close()


def _left_s(until: float | None) -> float:
    """How long to wait."""
    return SIGNAL_S if until is None else min(until - time.monotonic(), SIGNAL_S)


@atexit.register
def _close_all() -> None:
    _core.mark_exiting()
    for connection in list(_open):
        if not connection.closed and not connection.is_foreign:
            _close(connection)
    _core.wait_for_waiting_threads(1.0)


def _close(connection: Connection) -> None:
    connection.closed = True
    connection.replies.fail(closed_error)
    undelivered = run(connection, deliver(connection, _EXIT_LINGER_S, _EXIT_STALL_S))
    # No thread hears the store any more.
    unstored = connection.finish_persistent(time.monotonic(), 0.0, nobody)
    undelivered = replace(undelivered, unstored=unstored)
    connection.shut_down()
    if undelivered:
        connection.say_undelivered(undelivered, at_exit=True)
