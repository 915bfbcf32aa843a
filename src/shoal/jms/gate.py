"""Whether a connection delivers: what its sessions look at before every message."""

import threading


class Gate:
    """The lock of a connection, and whether it is started. May be shared between threads."""

    def __init__(self) -> None:
        self.renew()
        self.started = False

    def renew(self) -> None:
        """Forget who has the lock: after a fork that may be a thread that there is no more."""
        self.lock = threading.RLock()
        #: Rung whenever something changed that somebody may wait for.
        self.changed = threading.Condition(self.lock)
