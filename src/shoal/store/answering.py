"""A store in a process of its own answers `shoal nodes`, `shoal top` and consoles, and watches its load."""

import threading
import time
from typing import Any

from shoal.monitor.answers import Answers
from shoal.monitor.backlogs import store_status
from shoal.monitor.capacity import CapacityWatch
from shoal.monitor.load import totals
from shoal.store.role import Store
from shoal.system import processor_s


class StoreAnswers:
    """Answers with the status of a store's node and of the store, until it is closed. Call `turn` often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._connection = store._bus._connection
        self._monitor = self._connection.watch()
        self._lock = threading.Lock()
        self._capacity = CapacityWatch(store.name)
        self._answers = Answers(self._connection, self.status)

    def turn(self) -> None:
        """Look at the counters if a second is over; a load that is high for long is an event."""
        with self._lock:
            event = self._capacity.turn(time.monotonic(), self._counted)
        if event is not None:
            self._connection.events.add(event)

    def _counted(self) -> dict[str, Any]:
        stats = self._store._bus.stats()
        return {"load": totals(stats), "cpu_s": processor_s(), "store": self._store}

    def status(self) -> dict[str, Any]:
        """What it answers."""
        with self._lock:
            capacity = self._capacity.status()
        store = store_status(self._store)
        named = {"name": self._store.name, "roles": ["store"], "store": store, "capacity": capacity}
        return {**self._monitor.status(), **named}

    def close(self) -> None:
        """Answer no more."""
        self._answers.close()
