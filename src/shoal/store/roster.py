"""Who is there: what members of a group say of themselves on the domain, and how lately.

Decides nothing but whether what is said makes sense. What members prove, `shoal.store.peers` does.
"""

from dataclasses import dataclass
from typing import Any, Self

from shoal.store.founding import MEMBERS_MAX, Founding, Membership

#: Version of what members say to each other.
VERSION = 1
#: A member that said nothing for so long is not here.
SILENT_S = 3.0
#: Stores of one group that are known, at the most: members, and those that wait to be one.
KNOWN_MAX = 4 * MEMBERS_MAX


@dataclass(frozen=True, slots=True)
class Heard:
    """What another store of the group said of itself."""

    at_s: float
    member: int
    name: str
    url: str
    fingerprint: str | None
    #: How often it was started.
    life: int
    #: What its group was founded with; none if it waits for that.
    founding: Founding | None
    #: Who belongs to the group, if it is a member.
    members: Membership | None
    #: How often each other store was started, as far as it knows.
    lives: dict[int, int]
    #: How often its group was forced to go on with one disk.
    forced: int

    @classmethod
    def of(cls, said: Any, now_s: float) -> Self | None:
        """From what it said; none if that makes no sense."""
        if not isinstance(said, dict) or said.get("version") != VERSION:
            return None
        member, url, name = said.get("member"), said.get("url"), said.get("name")
        fingerprint, life, lives = said.get("fingerprint"), said.get("life"), said.get("lives")
        if not isinstance(member, int) or not 0 < member < 1 << 63:
            return None
        if not isinstance(url, str) or not isinstance(name, str) or not isinstance(life, int):
            return None
        if not (fingerprint is None or isinstance(fingerprint, str)):
            return None
        forced = said.get("forced", 0)
        if not isinstance(lives, dict) or not isinstance(forced, int) or len(lives) > KNOWN_MAX:
            return None
        try:
            known = {int(id_): int(count) for id_, count in lives.items()}
        except (TypeError, ValueError):
            return None
        founding, members = Founding.of(said.get("founding")), Membership.of(said.get("members"))
        return cls(now_s, member, name, url, fingerprint, life, founding, members, known, forced)

    def is_here(self, now_s: float) -> bool:
        """Whether it spoke lately."""
        return now_s - self.at_s < SILENT_S


class Roster:
    """The stores of a group that were heard."""

    def __init__(self) -> None:
        self._heard: dict[int, Heard] = {}

    def note(self, heard: Heard) -> bool:
        """A store spoke. False if too many are known already."""
        if heard.member not in self._heard and len(self._heard) >= KNOWN_MAX:
            self._heard = {id_: each for id_, each in self._heard.items() if each.is_here(heard.at_s)}
            if len(self._heard) >= KNOWN_MAX:
                return False
        self._heard[heard.member] = heard
        return True

    def get(self, member: int) -> Heard | None:
        """What a store said last."""
        return self._heard.get(member)

    def all(self) -> list[Heard]:
        """Every store that was heard."""
        return list(self._heard.values())

    def here(self, now_s: float) -> list[Heard]:
        """Stores that spoke lately."""
        return [each for each in self._heard.values() if each.is_here(now_s)]
