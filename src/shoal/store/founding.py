"""What a member of a group knows of itself before its log is open: a file beside the log.

The first members agree once on what their group is: its store id, its members. Each writes that down before
it makes its log, and notes afterwards that the log is there: from then on a log that is missing is a disk
that lost something, and not a group that begins. A store that joins later writes down the same, and is not
named in it.

A directory that was copied back would forget what its member promised. So each start is counted, and other
members remember the count; and the log's state file is known by its inode, which a copy does not have.
"""

import dataclasses
import json
import os
import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from shoal.errors import ConfigError, StoreError

NAME = "group.json"
#: What the log keeps of votes, beside it.
STATE = "group.state"
#: Members of a group, at the most.
MEMBERS_MAX = 7


@dataclass(frozen=True, kw_only=True)
class Founding:
    """What the first members agreed on."""

    group: str
    store: int
    incarnation: str
    #: The ids of the members' disks.
    members: tuple[int, ...]
    #: When: microseconds since 1970.
    at_us: int

    @classmethod
    def begin(cls, group: str, members: list[int]) -> Self:
        """Found a group now."""
        return cls(
            group=group,
            store=secrets.randbits(64),
            incarnation=secrets.token_hex(16),
            members=tuple(sorted(members)),
            at_us=time.time_ns() // 1000,
        )

    @classmethod
    def of(cls, body: Any) -> Self | None:
        """What another member says; none if it makes no sense."""
        if not isinstance(body, dict) or not isinstance(body.get("group"), str):
            return None
        numbers, members = [body.get("store"), body.get("at_us")], body.get("members")
        if not all(isinstance(number, int) and 0 <= number < 1 << 64 for number in numbers):
            return None
        if not isinstance(members, list) or not 0 < len(members) <= MEMBERS_MAX:
            return None
        if not all(isinstance(member, int) and 0 < member < 1 << 63 for member in members):
            return None
        incarnation = body.get("incarnation")
        try:
            if len(bytes.fromhex(str(incarnation))) != 16:
                return None
        except ValueError:
            return None
        return cls(
            group=body["group"],
            store=body["store"],
            incarnation=str(incarnation),
            members=tuple(members),
            at_us=body["at_us"],
        )

    def said(self) -> dict[str, Any]:
        """The same, for others and for the file."""
        return {**dataclasses.asdict(self), "members": list(self.members)}


@dataclass(frozen=True, slots=True)
class Membership:
    """Who belongs to the group, as of an entry of its log."""

    at: int
    voters: tuple[int, ...]
    learners: tuple[int, ...]

    @classmethod
    def of(cls, said: Any) -> Self | None:
        """What another member says; none if it makes no sense."""
        if not isinstance(said, dict) or not isinstance(said.get("at"), int):
            return None
        lists = [said.get("voters"), said.get("learners")]
        for each in lists:
            if not isinstance(each, list) or len(each) > 2 * MEMBERS_MAX:
                return None
            if not all(isinstance(member, int) and 0 < member < 1 << 63 for member in each):
                return None
        return cls(said["at"], tuple(said["voters"]), tuple(said["learners"]))

    def said(self) -> dict[str, Any]:
        """The same, for others."""
        return {"at": self.at, "voters": list(self.voters), "learners": list(self.learners)}

    def has(self, member: int) -> bool:
        """Whether a store is a member."""
        return member in self.voters or member in self.learners


@dataclass(frozen=True, kw_only=True)
class Record:
    """The file of one member."""

    path: Path
    group: str
    #: The id of this disk: never used again for another one.
    member: int
    founding: Founding | None = None
    #: Whether the log was made.
    has_begun: bool = False
    #: How often the member was started.
    life: int = 0
    #: How often others were, as far as it heard.
    lives: dict[int, int] = dataclasses.field(default_factory=dict)
    #: The inode of the log's state file; none until that was made.
    inode: int | None = None
    #: How often the group was forced to go on with one disk.
    forced: int = 0
    #: The incarnation to begin, after that.
    fresh: str | None = None

    @classmethod
    def open(cls, directory: Path, group: str) -> Self:
        """Read the file of a directory, or make a new member of an empty one.

        Raises:
            ConfigError: the directory is another group's, or a store's that is alone.
        """
        path = directory / NAME
        try:
            found = json.loads(path.read_text())
        except FileNotFoundError:
            if any(directory.glob("[0-9]*.log")):
                raise ConfigError(
                    f"{directory} has the log of a store that is alone: a member of a group begins with an "
                    "empty directory"
                ) from None
            made = cls(path=path, group=group, member=secrets.randbits(62) | 1)
            made.write()
            return made
        except (OSError, ValueError) as error:
            raise StoreError(f"{path} cannot be read: {error}") from None
        if found.get("group") != group:
            raise ConfigError(
                f"{directory} belongs to a member of the group {found.get('group')!r}, and not {group!r}"
            )
        made = cls(
            path=path,
            group=group,
            member=found["member"],
            founding=Founding.of(found.get("founding")),
            has_begun=found["has_begun"],
            life=found.get("life", 0),
            lives={int(member): life for member, life in found.get("lives", {}).items()},
            inode=found.get("inode"),
            forced=found.get("forced", 0),
            fresh=found.get("fresh"),
        )
        if made.inode is not None and made.inode != made._inode_now():
            raise StoreError(
                f"{directory} is a copy of a member's directory, or its {STATE} was replaced. A copy forgets "
                "what the member promised: erase it, start with an empty directory, and let the store join "
                "again (shoal store group add)"
            )
        return made

    def _inode_now(self) -> int | None:
        try:
            return (self.path.parent / STATE).stat().st_ino
        except FileNotFoundError:
            return None

    def write(self) -> None:
        """Replace the file, and return when it is durable."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        said = dataclasses.asdict(self) | {
            "founding": None if self.founding is None else self.founding.said()
        }
        del said["path"]
        unfinished = self.path.with_suffix(".json.new")
        with unfinished.open("w") as file:
            json.dump(said, file)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(self.path)
        directory = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def with_founding(self, founding: Founding, forced: int = 0) -> Self:
        """The same member of a group that was founded, and forced so often."""
        made = dataclasses.replace(self, founding=founding, forced=forced)
        made.write()
        return made

    def begun(self) -> Self:
        """The same member, whose log is there."""
        made = dataclasses.replace(self, has_begun=True, inode=self._inode_now())
        made.write()
        return made

    def going_on_alone(self, member: int) -> Self:
        """Another member, the only one of its group, which begins a new incarnation."""
        assert self.founding is not None
        made = dataclasses.replace(
            self,
            member=member,
            founding=dataclasses.replace(self.founding, members=(member,)),
            life=0,
            lives={},
            forced=self.forced + 1,
            fresh=secrets.token_hex(16),
        )
        made.write()
        return made

    def renewed(self) -> Self:
        """The same member, whose incarnation has begun."""
        made = dataclasses.replace(self, fresh=None)
        made.write()
        return made

    def started(self) -> Self:
        """The same member, once more."""
        made = dataclasses.replace(self, life=self.life + 1)
        made.write()
        return made

    def having_heard(self, member: int, life: int, members: Membership | None) -> Self:
        """The same member, which heard how often another one was started; it forgets those that left."""
        kept = {id_: count for id_, count in self.lives.items() if members is None or members.has(id_)}
        made = dataclasses.replace(self, lives={**kept, member: life})
        made.write()
        return made


def is_member(directory: Path) -> bool:
    """Whether a directory belongs to a member of a group."""
    return (directory / NAME).exists()
