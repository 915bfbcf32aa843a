"""What a member of a group knows of itself before its log is open: a file beside the log.

The first members agree once on what their group is: its store id, its members. Each writes that down before
it makes its log, and notes afterwards that the log is there: from then on a log that is missing is a disk
that lost something, and not a group that begins.
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
        founding = Founding.of(found.get("founding"))
        return cls(
            path=path, group=group, member=found["member"], founding=founding, has_begun=found["has_begun"]
        )

    def write(self) -> None:
        """Replace the file, and return when it is durable."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        said = {"group": self.group, "member": self.member, "has_begun": self.has_begun}
        said["founding"] = None if self.founding is None else self.founding.said()
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

    def with_founding(self, founding: Founding) -> Self:
        """The same member of a group that was founded."""
        made = dataclasses.replace(self, founding=founding)
        made.write()
        return made

    def begun(self) -> Self:
        """The same member, whose log is there."""
        made = dataclasses.replace(self, has_begun=True)
        made.write()
        return made


def is_member(directory: Path) -> bool:
    """Whether a directory belongs to a member of a group."""
    return (directory / NAME).exists()
