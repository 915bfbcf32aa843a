"""Whether hosts reach each other, by unicast and by multicast, before their figures are trusted."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import permutations

from shoal_bench.hosts import Host

GROUP, PORT = "239.192.74.209", 7493
COUNT = 200
#: Of the datagrams that were sent, at least this share must arrive.
SHARE_MIN = 0.99
PATIENCE_S = 60.0


@dataclass(frozen=True)
class Path:
    """What arrived of one host's datagrams at another, as shares."""

    sender: str
    receiver: str
    unicast: float
    multicast: float

    @property
    def is_fine(self) -> bool:
        """Whether both kinds arrive."""
        return min(self.unicast, self.multicast) >= SHARE_MIN

    @property
    def advice(self) -> str:
        """What to do if it is not."""
        if self.is_fine:
            return ""
        if self.unicast < SHARE_MIN and self.multicast < SHARE_MIN:
            return "no path: look at cables, addresses and firewalls"
        if self.unicast < SHARE_MIN:
            return "unicast is lost: look at the firewall of the receiver"
        return "multicast is lost: look at IGMP snooping of the switch, and at the route to 224.0.0.0/4"


def check(hosts: Sequence[tuple[str, Host]], follow: Callable[[str], None] = lambda _: None) -> list[Path]:
    """Try every ordered pair of hosts."""
    found = []
    for (sender, one), (receiver, other) in permutations(hosts, 2):
        follow(f"{sender} to {receiver}")
        found.append(_path(sender, one, receiver, other))
    return found


def _path(sender: str, one: Host, receiver: str, other: Host) -> Path:
    with ExitStack() as stack:
        hearing = stack.enter_context(
            other.start("hear", address=other.address, group=GROUP, port=PORT, seconds=COUNT / 100)
        )
        hearing.wait_progress(PATIENCE_S)
        targets = [other.address, GROUP]
        saying = stack.enter_context(
            one.start("say", address=one.address, targets=targets, port=PORT, count=COUNT)
        )
        saying.wait_progress(PATIENCE_S)
        saying.tell()
        saying.result(PATIENCE_S)
        hearing.tell()
        heard = hearing.result(PATIENCE_S)
    return Path(sender, receiver, heard["unicast"] / COUNT, heard["multicast"] / COUNT)
