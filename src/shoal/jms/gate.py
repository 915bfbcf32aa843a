"""Whether a connection delivers: what its sessions look at before every message."""

import threading


class Gate:
    """The lock of a connection, and whether it is started. May be shared between threads."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: Rung whenever something changed that somebody may wait for.
        self.changed = threading.Condition(self.lock)
        self.started = False
