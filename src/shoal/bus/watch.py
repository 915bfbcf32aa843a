"""A thread that reads a connection's events though no program asks, so that losses are logged."""

import threading
import weakref

from shoal import _core
from shoal.bus.connection import Connection
from shoal.system import Readable
from shoal.threads import start


class Watch:
    """The thread of one connection, which it does not keep."""

    def __init__(self, connection: Connection) -> None:
        self._bell = _core.Bell()
        connection.node.attach_bell(self._bell)
        self._stopped = False
        target = weakref.ref(connection)
        self._thread = threading.Thread(
            target=self._run, args=(target, self._bell), name="shoal-events", daemon=True
        )
        start(self._thread)

    def _run(self, target: "weakref.ref[Connection]", bell: _core.Bell) -> None:
        bell_rings = Readable(bell.fileno())
        while not self._stopped:
            bell_rings.wait()
            bell.take()
            connection = target()
            if connection is None or _core.is_abandoned():
                return
            if not connection.closed:
                connection.on_change()
            del connection

    def stop(self) -> None:
        """End the thread."""
        self._stopped = True
        self._bell.ring(0)
        if self._thread is not threading.current_thread():
            self._thread.join(5)
