"""Asks a store that runs something, as a client of its own: for commands, and for the server of history."""

import secrets
import time
from typing import Any

from shoal.bus.store_errors import error_of
from shoal.bus.store_greeting import Greeting
from shoal.bus.store_protocol import VERSION, body_of, is_said, requests_topic, session_topic
from shoal.bus.sync import Bus, connect
from shoal.config.tokens import Token, token_of
from shoal.errors import StoreError, StoreUnavailableError

#: How long a store may take to answer.
ANSWER_S = 10.0


class Asker:
    """One session with a store. For one thread at a time."""

    def __init__(
        self,
        url: str,
        store: str,
        domain: str,
        *,
        token: Token | None = None,
        fingerprint: str | None = None,
        client_id: str | None = None,
    ) -> None:
        self._store = store
        self._session = secrets.token_hex(8)
        self._n = 0
        pinned: dict[str, Any] = {} if fingerprint is None else {"tls_fingerprint": fingerprint}
        self._bus: Bus = connect(url, domain=domain, **pinned)
        try:
            self._heard = self._bus.subscribe(session_topic(store, self._session, private=True))
            self._greet(Greeting(token), {} if client_id is None else {"client_id": client_id})
        except BaseException:
            self._bus.close(0)
            raise

    def _greet(self, greeting: Greeting, fields: dict[str, Any]) -> None:
        hello = {"version": VERSION, "publisher": self._bus.publisher, "name": "shoal command", **fields}
        answer = self.ask("hello", **hello, **greeting.hello())
        if answer["op"] == "challenge":
            self.ask(**greeting.prove(self._session, answer))
        if not greeting.is_proven:
            raise greeting.impostor()

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
            body = None if message is None else body_of(message)
            if body is None or not is_said(body) or body.get("n") != self._n:
                continue
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


def ask_store(
    status: dict[str, Any], op: str, *, as_client: str | None = None, **fields: Any
) -> dict[str, Any]:
    """Ask the store whose status this is one thing, with the token of the environment, if there is one.

    As a client id, for what belongs to that.
    """
    if status["stale"]:
        raise StoreUnavailableError(f"the store in {status['path']} does not run: start it first")
    if not status["urls"]:
        raise StoreError("the store does not listen on TCP: start it with listen = '127.0.0.1:0'")
    asker = Asker(
        status["urls"][0],
        status["store"],
        status["domain"],
        token=token_of(None, None),
        fingerprint=status.get("fingerprint"),
        client_id=as_client,
    )
    try:
        return asker.ask(op, **fields)
    finally:
        asker.close()
