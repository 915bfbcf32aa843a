"""Asks a store that runs something, as a client of its own: for commands, and for the server of history."""

import secrets
import time
from typing import Any

from shoal.bus.store_errors import error_of
from shoal.bus.store_protocol import VERSION, requests_topic, session_topic
from shoal.bus.sync import Bus, connect
from shoal.errors import StoreError, StoreUnavailableError

#: How long a store may take to answer.
ANSWER_S = 10.0


class Asker:
    """One session with a store. For one thread at a time."""

    def __init__(self, url: str, store: str, domain: str) -> None:
        self._store = store
        self._session = secrets.token_hex(8)
        self._n = 0
        self._bus: Bus = connect(url, domain=domain)
        try:
            self._heard = self._bus.subscribe(session_topic(store, self._session, private=True))
            self.ask("hello", version=VERSION, publisher=self._bus.publisher, name="shoal command")
        except BaseException:
            self._bus.close(0)
            raise

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            StoreError: what the store refused, in its words.
            StoreUnavailableError: it did not answer.
        """
        self._n += 1
        request = {"op": op, "session": self._session, "n": self._n, **fields}
        self._bus.publish(requests_topic(self._store), request)
        deadline = time.monotonic() + ANSWER_S
        while (left_s := deadline - time.monotonic()) > 0:
            message = self._heard.receive(left_s)
            if message is None or message.body.get("n") != self._n:
                continue
            body: dict[str, Any] = message.body
            if body["op"] == "failed":
                raise error_of(body)
            return body
        raise StoreUnavailableError(f"the store did not answer {op!r} within {ANSWER_S:g} s")

    def close(self) -> None:
        """End the session."""
        self._bus.publish(
            requests_topic(self._store), {"op": "bye", "session": self._session, "n": 0}, timeout_s=1.0
        )
        self._bus.close(1.0)


def ask_store(status: dict[str, Any], op: str, **fields: Any) -> dict[str, Any]:
    """Ask the store whose status this is one thing."""
    if status["stale"]:
        raise StoreUnavailableError(f"the store in {status['path']} does not run: start it first")
    if not status["urls"]:
        raise StoreError("the store lets nobody connect by TCP: start it with listen = '127.0.0.1:0'")
    asker = Asker(status["urls"][0], status["store"], status["domain"])
    try:
        return asker.ask(op, **fields)
    finally:
        asker.close()
