"""Who calls the history server, and what the store's rules let it do. The token check is in `server`."""

from dataclasses import dataclass
from typing import Protocol

from shoal.bus.store_protocol import QUEUES, queue_name
from shoal.config.access import Action
from shoal.errors import HistoryError
from shoal.history import faults
from shoal.history.query import Query


class Rules(Protocol):
    """The store's access rules."""

    def refusal(
        self, principal: str | None, action: Action, destination: str, *, operator: bool
    ) -> str | None:
        """Why a principal may not do something; none if it may."""


class Free:
    """The rules of a store that has none."""

    def refusal(self, principal: str | None, action: Action, destination: str, *, operator: bool) -> None:
        """Every principal may do everything."""


@dataclass(frozen=True)
class Caller:
    """The principal of a call; an operator where the server asks for no token."""

    rules: Rules
    principal: str | None = None
    is_operator: bool = True

    def check(self, action: Action, destination: str) -> None:
        """Refuse what the rules do not let it do with a topic or a pattern."""
        why = self.rules.refusal(self.principal, action, destination, operator=self.is_operator)
        if why is not None:
            raise HistoryError(faults.DENIED, why, {})

    def check_publishes(self, destination: str) -> None:
        """Refuse rows for a topic or a queue."""
        self.check("publish", destination)

    def check_query(self, query: Query) -> None:
        """Refuse to read topics that it may not subscribe to, and queues that it may not browse."""
        self.check_reads(list(query.topics))

    def check_reads(self, patterns: list[str]) -> None:
        """The same of patterns; none of them means every topic and queue."""
        for pattern in patterns or [">", f"{QUEUES}>"]:
            is_queue = pattern.startswith(QUEUES) or queue_name(pattern) is not None
            self.check("browse" if is_queue else "subscribe", pattern)
