"""What a connection that closed did not deliver, and the log lines that say so, each with its own advice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shoal.messages import Line
from shoal.messages import bus as notices

UNSETTLED = "the topology kept changing, so no answer counts; try again"


@dataclass(frozen=True, slots=True)
class Undelivered:
    """What was not delivered; false if everything was."""

    unsent_bytes: int = 0
    #: Members, and about how many bytes each lacks.
    lacking: tuple[tuple[int, int], ...] = ()
    #: Routers that have not said that those behind them have everything.
    unconfirmed: tuple[int, ...] = ()
    #: What the store lacks, in words.
    unstored: str = ""
    #: Members that lost messages for good.
    losers: tuple[int, ...] = ()
    #: Paths between routers kept changing.
    unsettled: bool = False
    #: The addresses at which no program was ever reached, in words.
    unreached: str = ""

    def __bool__(self) -> bool:
        return self != Undelivered()

    def lines(self, bus: str, *, at_exit: bool = False) -> Iterator[Line]:
        """The log lines of a connection that is closed: one for each kind of cause."""
        if self.unreached:
            yield notices.CLOSED_UNREACHED(bus=bus, address=self.unreached)
        if self.unstored:
            yield notices.CLOSED_UNSTORED(bus=bus, lacks=self.unstored)
        if self.losers:
            yield notices.CLOSED_LOST(bus=bus, members=listed(self.losers))
        if waiting := ", ".join(self._waiting()):
            notice = notices.EXITED_UNDELIVERED if at_exit else notices.CLOSED_UNDELIVERED
            yield notice(bus=bus, undelivered=waiting)

    def _waiting(self) -> Iterator[str]:
        """What more time might have delivered."""
        if self.unsent_bytes:
            yield f"{size(self.unsent_bytes)} were not sent"
        yield from (lacks(node, lacking) for node, lacking in self.lacking)
        yield from map(unconfirmed, self.unconfirmed)
        if self.unsettled:
            yield UNSETTLED


def lacks(member: int, lacking_bytes: int) -> str:
    """A member that has not acknowledged everything."""
    return f"member {member} lacks about {size(lacking_bytes)}"


def size(count_bytes: int) -> str:
    """A number of bytes, as people read it."""
    for unit, worth in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count_bytes >= worth:
            return f"{count_bytes / worth:.1f} {unit}"
    return f"{count_bytes} bytes"


def lost(members: Iterable[int]) -> str:
    """Members that lost messages."""
    return ", ".join(
        f"member {member} did not take messages in time, and lost some for good" for member in members
    )


def unconfirmed(router: int) -> str:
    """A router that did not answer."""
    return f"router {router} has not said that those behind it have everything"


def unreached(address: str) -> str:
    """Addresses at which no program is."""
    return f"no program was reached at {address}"


def listed(nodes: Iterable[int]) -> str:
    """Nodes by their ids."""
    return ", ".join(f"{node}" for node in nodes)
