"""The history of a member that follows: rows that the group has committed, the same as at the owner.

It takes nothing, and keeps nothing for anybody: that is the owner's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from shoal._core import Log
from shoal.config import ConnectionConfig
from shoal.config.access import AccessFile
from shoal.config.tokens import Principals
from shoal.errors import StoreError
from shoal.store.certificate import Certificate
from shoal.store.config import StoreConfig
from shoal.store.history_door import HistoryDoor
from shoal.store.rules import Rules


class Follower:
    """A member that follows, as its history server has it."""

    def __init__(
        self, log: Log, config: StoreConfig, connection: ConnectionConfig, certificate: Certificate | None
    ) -> None:
        self.log, self.name, self.domain = log, config.name, connection.domain
        self._principals = None if config.tokens is None else Principals(config.tokens, connection.domain)
        self._rules = Rules(None if config.access is None else AccessFile(config.access))
        self._door = HistoryDoor(self, config, self._principals, self._rules, certificate)

    @property
    def endpoint(self) -> str:
        """Where it serves."""
        return self._door.endpoint

    def turn(self) -> None:
        """Notice changed files, and make an index that is missing. Call it often."""
        if self._principals is not None:
            self._principals.refresh()
        self._rules.refresh()
        self.log.build_next_index()

    def close(self) -> None:
        """Serve no more."""
        self._door.close()

    # What the history server asks.

    def lost_before(self, patterns: list[str]) -> int:
        """Where history begins: below, messages of any topic may be missing."""
        return self.log.floor

    def status(self) -> dict[str, Any]:
        """How it is."""
        return {"name": self.name, "follows": True, "floor": self.log.floor, "end": self.log.durable_end}

    def holds(self) -> dict[str, int]:
        """None: the owner keeps them."""
        return {}

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> tuple[int, int, bool]:
        """Refuse."""
        self._refuse()

    def expect(self, staging: str, sizes: Mapping[str, tuple[int, int]], *, more: bool = True) -> None:
        """Refuse."""
        self._refuse()

    def hold(self, name: str, offset: int) -> None:
        """Refuse."""
        self._refuse()

    def release(self, name: str) -> bool:
        """Refuse."""
        self._refuse()

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StoreError(
            f"the store {self.name} follows another one and shows history alone: ask the owner of the group "
            "(shoal store group status)"
        )
