"""A log that a group keeps, as the store of its owner has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.errors import StoreError

if TYPE_CHECKING:
    from shoal._core import Log, Member

#: How often an owner without a lease looks whether it has one again.
LOOK_S = 0.005


@dataclass(frozen=True, slots=True)
class Held:
    """The log, and the member whose it is. The store ends before the log does."""

    log: Log
    member: Member
    #: When the group was founded: seconds since 1970.
    since: float
    #: How the group is.
    status: Callable[[], dict[str, Any]]
    #: Serve history no more as a member that follows: the store does it from now on.
    end_history: Callable[[], None]

    @property
    def is_deposed(self) -> bool:
        """Whether another member may own the group."""
        return not self.member.is_elected

    def wait_for_lease(self) -> None:
        """Return when nobody else can own the group: what the store says then is true.

        Raises:
            StoreError: another member was elected.
        """
        while not self.member.owns:
            if self.is_deposed:
                raise StoreError("another store owns the group now")
            time.sleep(LOOK_S)
