"""Orders to hosts.

What daemons there are, and starting, stopping and reloading them. Waits; for threads of a pool.
"""

import json
import time
from collections.abc import Iterable
from typing import Any

import shoal
from shoal.config.orders import HostKey, order, told_by
from shoal.errors import InvalidDestinationError, NoReplyError, StoreDeniedError

#: How long a host may take: a daemon may need some seconds to end.
ANSWER_S = 15.0


class Hosts:
    """The hosts whose keys the console has. May be shared between threads."""

    def __init__(self, bus: shoal.Bus, keys: Iterable[HostKey]) -> None:
        self._bus = bus
        self._keys = {key.host: key for key in keys}

    @property
    def names(self) -> list[str]:
        """Hosts that may be given orders."""
        return sorted(self._keys)

    def order(
        self, host: str, what: str, daemon: str, who: str, timeout_s: float = ANSWER_S
    ) -> dict[str, Any]:
        """Give an order, and wait for what came of it.

        Raises:
            InvalidDestinationError: there is no key of that host, or the host refused.
            NoReplyError: the host does not answer.
        """
        key = self._keys.get(host)
        if key is None:
            raise InvalidDestinationError(
                f"This console has no key of host {host!r}. Copy it from there, and add --host-key FILE."
            )
        body = order(key, what, daemon, who, time.time())
        try:
            answer = self._bus.request(key.topic, body, timeout_s=timeout_s)
        except NoReplyError:
            raise NoReplyError(
                f"Host {host!r} does not answer. Does its daemon run, with the role host?"
            ) from None
        try:
            told = told_by(key, body["nonce"], answer.body)
        except (json.JSONDecodeError, shoal.MessageFormatError):
            told = None
        if told is None:
            raise StoreDeniedError(f"An answer in the name of host {host!r} was made without its key.")
        if not told.get("ok"):
            raise InvalidDestinationError(str(told.get("why") or "refused"))
        return told

    def daemons(self, who: str) -> list[dict[str, Any]]:
        """Every host with its daemons; of one that does not answer, why."""
        found = []
        for host in self.names:
            try:
                told = self.order(host, "list", "", who, timeout_s=2.0)
                found.append({"host": host, "daemons": told.get("daemons", []), "why": ""})
            except shoal.ShoalError as error:
                found.append({"host": host, "daemons": [], "why": str(error)})
        return found
