"""Queues and shared subscriptions where a domain has no store: the same machine, over a log in memory.

What it has is gone with its process. A real store wins over it at once.
"""

import logging
import os
import secrets
import threading
import time
from typing import Any, Self

from shoal._core import Log
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.errors import StoreError
from shoal.messages import store as notices
from shoal.store.machine import Identity
from shoal.store.presence import Presence, description
from shoal.store.serving import Serving

log = logging.getLogger("shoal.store")

#: What messages in memory may take.
MEMORY_BYTES_MAX = 256 << 20
#: Segments in memory are short, so that what was acknowledged goes soon.
SEGMENT_BYTES = 4 << 20
#: How often it looks what can go.
TRIM_EVERY_S = 0.5


class MemoryStore:
    """A store in memory. May be shared between threads."""

    def __init__(self, connection: ConnectionConfig, term: int, bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self.log = Log.in_memory(
            store_id=secrets.randbits(64),
            incarnation=os.urandom(16),
            bytes_max=bytes_max,
            segment_bytes=SEGMENT_BYTES,
        )
        self._error: BaseException | None = None
        self._closing = threading.Event()
        self._bus = Bus(connection)
        identity = Identity(name="memory", run=secrets.token_hex(8), term=term, node=self._bus.node)
        since = time.time()
        self._presence = Presence(
            self._bus,
            lambda: description(self.log, identity, since, [], self._state(), connection.domain, memory=True),
            self._fail,
            doors=[],
            listen_s=0.0,
        )
        self._serving = Serving(self.log, self._bus, identity, endpoint=None, failed=self._fail)
        self._serving.start()
        self._presence.start()
        self._trimming = threading.Thread(target=self._trim, name="shoal-trim", daemon=True)
        self._trimming.start()

    @property
    def channel(self) -> str:
        """The name of an inproc domain on which programs of this process ask."""
        return self._serving.channel

    def status(self) -> dict[str, Any]:
        """How queues, subscriptions and sessions are."""
        return self._serving.status()

    def _state(self) -> str:
        if self._error is not None:
            return "failed"
        return "closing" if self._closing.is_set() else "open"

    def _trim(self) -> None:
        while not self._closing.wait(TRIM_EVERY_S):
            pin = self._serving.pin
            try:
                self.log.trim(self.log.durable_end if pin is None else pin)
            except StoreError as error:
                self._fail(error)
                return

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
            notices.MEMORY_STORE_STOPPED(why=error).log(log)

    def close(self) -> None:
        """Tell clients, and forget everything. Closing again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._serving.stop()
        status = self._serving.status()
        lost = sum(each["messages"] for each in [*status["queues"], *status["subscriptions"]])
        if lost:
            notices.MEMORY_STORE_LOST(messages=lost).log(log)
        self._presence.stop()
        self._trimming.join()
        self._serving.close(failed=self._error is not None)
        self._bus.close(0.5)
        self.log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def open_memory(connection: ConnectionConfig, term: int) -> MemoryStore:
    """A store in memory for a domain that has no other; `term` is higher than that of the one before."""
    return MemoryStore(connection, term)
