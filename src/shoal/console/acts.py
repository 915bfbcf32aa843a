"""What operators do to a domain.

Publish, browse, move, purge, delete, release, unsubscribe. Waits; for threads of a pool.
"""

import itertools
from collections.abc import Callable
from typing import Any

import shoal
from shoal.bus.persistent import check_queue_name
from shoal.console.bodies import message_row
from shoal.errors import NoStoreError, StoreDeniedError

#: How long a store may take.
ANSWER_S, MOVE_S = 10.0, 60.0
#: Messages that one answer of a store moves, and that a browser shows.
MOVE_MAX, BROWSED_MAX = 1000, 500


class Acts:
    """Acts through a connection. May be shared between threads."""

    def __init__(self, bus: shoal.Bus, connect_as: Callable[[str], shoal.Bus]) -> None:
        """`connect_as` makes a connection with another client id."""
        self._bus, self._connect_as = bus, connect_as

    def publish(
        self,
        topic: str,
        body: Any,
        *,
        properties: dict[str, Any] | None,
        persistent: bool,
        priority: int,
        ttl_s: float | None,
    ) -> dict[str, Any]:
        """Publish a message, and wait until subscribers, or the store, have it."""
        options: dict[str, Any] = {"properties": properties or None, "priority": priority, "ttl_s": ttl_s}
        if topic.startswith("_"):
            raise shoal.InvalidTopicError(
                f"{topic!r} is reserved: topics that begin with '_' are Shoal's own"
            )
        if persistent:
            self._bus.publish(topic, body, persistent=True, timeout_s=ANSWER_S, **options)
        else:
            self._bus.publish(topic, body, timeout_s=ANSWER_S, **options)
        return {"subscribers": len(self._bus.subscribers(topic))}

    def send(
        self, queue: str, body: Any, *, properties: dict[str, Any] | None, priority: int
    ) -> dict[str, Any]:
        """Send a message into a queue."""
        self._check_store(queue)
        self._bus.queue(queue).send(
            body, properties=properties or None, priority=priority, timeout_s=ANSWER_S
        )
        return {}

    def browse(self, queue: str, selector: str | None, limit: int) -> dict[str, Any]:
        """The first messages that wait in a queue, without taking them."""
        self._check_store(queue)
        limit = min(limit, BROWSED_MAX)
        found = self._bus.queue(queue).browse(selector=selector or None, timeout_s=ANSWER_S)
        rows = [message_row(message) for message in itertools.islice(found, limit + 1)]
        return {"rows": rows[:limit], "more": len(rows) > limit}

    def move(self, queue: str, to: str, selector: str | None, most: int | None) -> dict[str, Any]:
        """Move messages to another queue."""
        self._check_store(queue)
        # They are counted first: messages that come meanwhile stay.
        left = self._waiting(queue) if most is None else most
        moved = 0
        while left > 0:
            some = self._move_some(queue, to, selector, min(left, MOVE_MAX))
            if not some:
                break
            moved, left = moved + some, left - some
        return {"messages": moved}

    def _move_some(self, queue: str, to: str, selector: str | None, most: int) -> int:
        fields = {"to": to, "selector": selector or None, "messages": most}
        return int(self._ask(queue, "move", MOVE_S, **fields)["messages"])

    def purge(self, queue: str, selector: str | None) -> dict[str, Any]:
        """Drop what waits in a queue."""
        self._check_store(queue)
        return {"messages": self._bus.queue(queue).purge(selector=selector or None, timeout_s=MOVE_S)}

    def delete(self, queue: str) -> dict[str, Any]:
        """Forget a queue and its messages."""
        self._check_store(queue)
        return {"messages": self._bus.queue(queue).delete(timeout_s=ANSWER_S)}

    def release(self, name: str) -> dict[str, Any]:
        """Give back what a job of Spark's reserved under a name."""
        self._check_store(None)
        answer = self._bus._connection.ask_stores({"op": "unreserve", "name": name}, "release", ANSWER_S)
        return {"messages": int(answer["messages"])}

    def unsubscribe(self, name: str, client_id: str | None, shared: bool) -> dict[str, Any]:
        """Delete a durable subscription and its backlog, also one of another client id."""
        self._check_store(None)
        body: dict[str, Any] = {"op": "unsubscribe", "name": name, "shared": shared}
        if client_id:
            body["client_id"] = client_id
        try:
            self._bus._connection.ask_stores(body, "unsubscribe", ANSWER_S)
        except StoreDeniedError:
            if not client_id:
                raise
            # A store without tokens knows no operators: who has the client id has the subscription.
            with self._connect_as(client_id) as other:
                other.unsubscribe(name, shared=shared, timeout_s=ANSWER_S)
        return {}

    def depth(self, queue: str) -> int | None:
        """How many messages a queue has; none if it is not known."""
        try:
            return self._waiting(queue)
        except shoal.ShoalError:
            return None

    def _waiting(self, queue: str) -> int:
        queues = self._ask(queue, "status", ANSWER_S)["status"]["queues"]
        return next((int(each["messages"]) for each in queues if each["queue"] == queue), 0)

    def _ask(self, queue: str, op: str, timeout_s: float, **fields: Any) -> dict[str, Any]:
        body = {
            "op": op,
            "queue": queue,
            **{name: value for name, value in fields.items() if value is not None},
        }
        return self._bus._connection.ask_store(
            body, f"{op} of the queue {queue!r}", timeout_s, memory=True, destination=check_queue_name(queue)
        )

    def _check_store(self, queue: str | None) -> None:
        """Refuse if no store answers: a console never keeps queues in its own memory."""
        connection = self._bus._connection
        channel = connection.channel() if queue is None else connection.owners().of(check_queue_name(queue))
        if not channel.is_ready(memory=True):
            raise NoStoreError("No store of this domain answers. Start one: shoal store --data ./data.")
