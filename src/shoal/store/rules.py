"""The access rules of a store: what the principals of its token file may do with its destinations.

Temporary destinations need no rule: their names are random, and they end with the connection that made them.
"""

import logging

from shoal.bus.log_limit import LogLimit
from shoal.bus.store_protocol import TEMPORARY, TEMPORARY_QUEUES, queue_name
from shoal.config.access import ANONYMOUS, AccessFile, Action, Quota
from shoal.messages import store as notices
from shoal.store.requests import RequestError

log = logging.getLogger("shoal.store")


class Rules:
    """What a store asks before it does something. May be shared between threads."""

    def __init__(self, file: AccessFile | None = None, limit: LogLimit | None = None) -> None:
        self._file = file
        self._limit = limit or LogLimit()
        #: Requests that a rule refused.
        self.denied = 0

    @property
    def are_there(self) -> bool:
        """Whether there are rules at all."""
        return self._file is not None

    def refusal(
        self, principal: str | None, action: Action, destination: str, *, operator: bool
    ) -> str | None:
        """Why a principal may not do something with a topic, a pattern or a queue's topic; none if it may."""
        if self._file is None or operator or _is_temporary(destination):
            return None
        who = principal or ANONYMOUS
        why = self._file.access.refusal(who, action, destination)
        if why is not None:
            self.denied += 1
            line = self._limit.admit(who, notices.ACCESS_DENIED(why=why.rstrip(".")))
            if line is not None:
                line.log(log)
        return why

    def check(self, principal: str | None, action: Action, destination: str, *, operator: bool) -> None:
        """The same.

        Raises:
            RequestError: it may not.
        """
        why = self.refusal(principal, action, destination, operator=operator)
        if why is not None:
            raise RequestError("DENIED", why)

    def quota(self, principal: str | None) -> Quota | None:
        """The bounds of a principal, if it has some."""
        return None if self._file is None else self._file.access.quota(principal or ANONYMOUS)

    def refresh(self) -> str | None:
        """Read the file again if it changed; what is wrong with it, in which case the former rules count."""
        return None if self._file is None else self._file.refresh()


def _is_temporary(destination: str) -> bool:
    return destination.startswith(TEMPORARY) or (queue_name(destination) or "").startswith(TEMPORARY_QUEUES)
