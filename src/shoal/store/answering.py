"""A store in a process of its own answers `shoal nodes`, `shoal top` and consoles, and watches its load.

It serves its metrics, too, if it is asked to.
"""

import threading
import time
from typing import Any

from shoal.monitor.answers import Answers
from shoal.monitor.backlogs import store_status
from shoal.monitor.capacity import CapacityWatch
from shoal.monitor.config import HttpConfig
from shoal.monitor.http import HttpEndpoint
from shoal.monitor.load import totals
from shoal.store.role import Store
from shoal.system import processor_s


class StoreAnswers:
    """Answers with the status of a store's node and of the store, until it is closed. Call `turn` often.

    Args:
        metrics: where to serve `/metrics`, `/status` and `/health`, such as `127.0.0.1:9464`.
    """

    def __init__(self, store: Store, metrics: str | None = None) -> None:
        self._store = store
        self._connection = store._bus._connection
        self._monitor = self._connection.watch()
        self._lock = threading.Lock()
        self._capacity = CapacityWatch(store.name)
        self._http = None if metrics is None else HttpEndpoint(HttpConfig(listen=metrics), self.status)
        self._answers = Answers(self._connection, self.status)

    @property
    def metrics_url(self) -> str | None:
        """Where metrics are served; `None` if nowhere."""
        return None if self._http is None else self._http.url

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
        why = self._store.failure
        named = {"name": self._store.name, "roles": ["store"], "store": store, "capacity": capacity}
        health = {"healthy": why is None, "trouble": "" if why is None else f"store: {why}"}
        return {**self._monitor.status(), **named, **health}

    def close(self) -> None:
        """Answer no more."""
        self._answers.close()
        if self._http is not None:
            self._http.close()
