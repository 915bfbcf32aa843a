"""A consumer of a queue or a subscription, and what one reports that had another lease before."""

import math
from dataclasses import dataclass

from shoal.store.requests import Runs


@dataclass(slots=True)
class Consumer:
    """One consumer of a reader."""

    number: int
    session: str
    #: What its session calls it.
    own: int
    lease: int
    #: Totals that may be delivered.
    messages: int
    bytes: int
    #: Totals that were.
    given_messages: int = 0
    given_bytes: int = 0
    #: When it was given messages last.
    given_at_s: float = -math.inf
    #: Whether its selector has more to look at.
    more: bool = False
    #: Bytes of a delivery that its connection takes.
    bytes_max: int = 1 << 62
    #: A message that is next is longer: it gets nothing more, and has what it has until its client ends it.
    is_unfit: bool = False

    @property
    def taker(self) -> str:
        """What the log calls it, and what its client calls it when it comes back."""
        return f"{self.session}/{self.own}"

    @property
    def room(self) -> int:
        """How many messages it may be given."""
        return max(0, self.messages - self.given_messages)

    @property
    def is_hungry(self) -> bool:
        """Whether it may be given something."""
        has_credit = self.room > 0 and self.given_bytes < self.bytes
        return has_credit and not self.is_unfit


@dataclass(frozen=True, kw_only=True)
class Former:
    """What a consumer that lost its session reports: what its program finished, and what it was handed."""

    #: The store and its incarnation, which give the offsets a meaning.
    store: str | None
    incarnation: str | None
    #: The lease; 0 if the consumer heard of none, and so was handed nothing.
    lease: int
    #: Its sessions since then: in those after the first it was handed nothing.
    sessions: list[str]
    finished: Runs
    handed: Runs
    #: Which delivery each was that is not the first; 0 if the store did not know.
    counts: dict[int, int]
    #: There was more than one request holds.
    is_cut: bool = False
