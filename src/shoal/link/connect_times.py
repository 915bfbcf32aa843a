"""How long connections to several places take, all of them tried at once."""

import contextlib
import selectors
import socket
import time
from collections.abc import Iterable

from shoal.config.target import Target

#: How long a connection may take that is measured.
PATIENCE_S = 1.0


def connect_times(places: Iterable[Target], patience_s: float = PATIENCE_S) -> dict[Target, float]:
    """How many seconds a connection to each place took. Those that cannot be connected to are missing."""
    took_s = {}
    with contextlib.ExitStack() as stack:
        waiting = stack.enter_context(selectors.DefaultSelector())
        for place in places:
            with contextlib.suppress(OSError):
                family, kind, proto, _, address = socket.getaddrinfo(
                    place.host, place.port, type=socket.SOCK_STREAM
                )[0]
                connection = stack.enter_context(socket.socket(family, kind, proto))
                connection.setblocking(False)
                began = time.monotonic()
                connection.connect_ex(address)
                waiting.register(connection, selectors.EVENT_WRITE, (connection, place, began))
        until = time.monotonic() + patience_s
        while waiting.get_map() and (left_s := until - time.monotonic()) > 0:
            for key, _ in waiting.select(left_s):
                connection, place, began = key.data
                waiting.unregister(connection)
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    took_s[place] = time.monotonic() - began
    return took_s
