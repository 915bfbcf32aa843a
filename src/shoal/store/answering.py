"""A store in a process of its own answers `shoal nodes`, `shoal top` and consoles, as daemons do."""

from typing import Any

from shoal.monitor.answers import Answers
from shoal.monitor.backlogs import store_status
from shoal.store.role import Store


def answer_for(store: Store) -> Answers:
    """Answer with the status of a store's node and of the store, until it is closed."""
    connection = store._bus._connection
    monitor = connection.watch()

    def status() -> dict[str, Any]:
        return {**monitor.status(), "name": store.name, "roles": ["store"], "store": store_status(store)}

    return Answers(connection, status)
