"""Rows that history clients stage: where they go, whether there is room for them, and what queues have then.

Staged rows come into the log past the machine, and a commit makes them visible. What a client may not send,
it may not stage. A commit has room in every queue and subscription that its rows are for, or it is refused:
that room is taken before the commit and given back if it fails. A note in the log, ahead of the commit, names
its queues until the machine has journalled what they got: a store that is killed in between counts them anew.
"""

import json
import secrets
import threading
from collections.abc import Mapping, Sequence

from shoal._core import Log
from shoal.bus.store_errors import error_of
from shoal.bus.store_protocol import queue_name
from shoal.store.core import COUNTING
from shoal.store.requests import RequestError
from shoal.store.serving import Serving

#: By destination: messages and bytes.
Sizes = Mapping[str, tuple[int, int]]

#: The log keeps under these keys where the rows of a staging go.
_STAGED = "staged/"


class Staged:
    """The stagings of one store. May be shared between threads."""

    def __init__(self, log_: Log, serving: Serving) -> None:
        self._log, self._serving = log_, serving
        self._lock = threading.Lock()
        self._forget_gone()

    def expect(self, staging: str, sizes: Sizes, *, more: bool) -> None:
        """Rows of a staging go to these destinations; with `more`, beside those that were named before.

        Raises:
            StoreRefusedError: clients may not send there.
        """
        try:
            self._serving.check_destinations(sizes)
        except RequestError as error:
            raise error_of({"error": error.code, "text": error.text}) from None
        with self._lock:
            known = self._sizes_of(staging) if more else {}
            for destination, (messages, size) in sizes.items():
                before = known.get(destination, (0, 0))
                known[destination] = (before[0] + messages, before[1] + size)
            self._log.put(_STAGED + staging, json.dumps(known).encode())
            self._forget_gone(but=staging)

    def _sizes_of(self, staging: str) -> dict[str, tuple[int, int]]:
        value = self._log.get(_STAGED + staging)
        sizes = {} if value is None else json.loads(value)
        return {destination: (messages, size) for destination, (messages, size) in sizes.items()}

    def _forget_gone(self, but: str = "") -> None:
        there = {_STAGED + staging for staging, *_ in self._log.stagings()} | {_STAGED + but}
        for key, _ in self._log.items(_STAGED):
            if key not in there:
                self._log.put(key, None)

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> tuple[int, int, bool]:
        """Make stagings visible and durable: first offset, end, repeated.

        Raises:
            StoreFullError: a queue or subscription, or the store, has no room for them.
        """
        sizes: dict[str, tuple[int, int]] = {}
        with self._lock:
            for staging in stagings:
                for destination, (messages, size) in self._sizes_of(staging).items():
                    before = sizes.get(destination, (0, 0))
                    sizes[destination] = (before[0] + messages, before[1] + size)
        try:
            self._serving.expect_rows(sizes)
        except RequestError as error:
            raise error_of({"error": error.code, "text": error.text}) from None
        queues = [name for destination in sizes if (name := queue_name(destination)) is not None]
        note = f"{COUNTING}{secrets.token_hex(8)}"
        first = end = 0
        repeated = True
        try:
            if queues:
                self._log.put(note, json.dumps(queues).encode())
            first, end, repeated = self._log.commit(scope, number, list(stagings))
        finally:
            came = (0, 0) if repeated else (first, end)
            self._serving.took(*came, expected=sizes, note=note if queues else None)
        with self._lock:
            self._forget_gone()
        return first, end, repeated
