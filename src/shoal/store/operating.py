"""What operators tell a group: who joins, who goes, who owns it. The owner does it, one change at a time.

A command comes as a message that proves the group's token, and says as of which entry of the log its sender
knows the members: one that was written down and is sent again later is refused.
"""

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal._core import Log, Member
from shoal.bus.inside import be_private
from shoal.bus.store_protocol import body_of
from shoal.bus.sync import connect
from shoal.errors import ConfigError, ShoalError, StoreError, StoreUnavailableError
from shoal.store.founding import MEMBERS_MAX, NAME, Record
from shoal.store.peers import Seal
from shoal.store.roster import Roster

#: How long a member may take to answer.
ANSWER_S = 5.0
#: How long a command waits for an owner.
PATIENCE_S = 15.0
#: How often it looks how far a store is that copies the log.
LOOK_S = 0.5
#: A learner that lacks no more entries than these may vote.
BEHIND_MAX = 1000


def asks_topic(group: str, member: int) -> str:
    """Where a member hears commands."""
    return f"_group/{group}/{member:016x}/ask"


class Commands:
    """Carries out commands at a member, if it owns the group."""

    def __init__(self, member_id: int, roster: Roster, status: Callable[[], dict[str, Any]]) -> None:
        self._id, self._roster, self._status = member_id, roster, status

    def answer(self, request: Any, member: Member | None) -> dict[str, Any]:
        """What came of a command."""
        if not isinstance(request, dict):
            return {"failed": "the command makes no sense"}
        try:
            if request.get("act") == "show" or member is None or not member.is_elected:
                return {"status": self._status()}
            self._act(request, member, time.monotonic())
        except (StoreError, ConfigError) as error:
            return {"failed": str(error)}
        return {"status": self._status()}

    def _act(self, request: dict[str, Any], member: Member, now_s: float) -> None:
        target, act, replaced = request.get("member"), request.get("act"), request.get("replaces")
        known = [member.term, list(map(sorted, member.members))]
        if request.get("known") != known:
            raise StoreError("the members of the group have changed meanwhile: try again")
        if not isinstance(target, int) or not (replaced is None or isinstance(replaced, int)):
            raise StoreError("the command names no store")
        voters, learners = member.members
        match act:
            case "add" if target not in (*voters, *learners):
                self._check_here(target, now_s)
                if len(voters) + len(learners) >= MEMBERS_MAX:
                    raise StoreError(f"the group has {MEMBERS_MAX} members: take one out first")
                member.change_members([("learner", target)])
            case "vote" if target in learners:
                self._promote(member, target, replaced, now_s)
            case "remove" if target in (*voters, *learners):
                self._remove(member, target, request.get("force") is True, now_s)
            case "transfer" if target in voters:
                self._check_here(target, now_s)
                member.transfer(target)
            case _:
                raise StoreError(f"{act!r} is no command, or not for {target:016x}")

    def _check_here(self, target: int, now_s: float) -> None:
        heard = self._roster.get(target)
        if target != self._id and (heard is None or not heard.is_here(now_s)):
            raise StoreError(f"the store {target:016x} does not run, or cannot be heard: start it first")

    def _promote(self, member: Member, target: int, replaced: int | None, now_s: float) -> None:
        self._check_here(target, now_s)
        behind = member.indexes[3] - dict(member.progress).get(target, 0)
        if behind > BEHIND_MAX:
            raise StoreError(f"the store {target:016x} lacks {behind} entries: it votes when it has them")
        changes = [("voter", target)]
        if replaced is not None:
            if replaced == self._id:
                raise StoreError("the owner cannot be replaced: let another store own the group first")
            if replaced not in member.members[0]:
                raise StoreError(f"the store {replaced:016x} is no voter")
            changes.append(("none", replaced))
        member.change_members(changes)

    def _remove(self, member: Member, target: int, is_forced: bool, now_s: float) -> None:
        if target == self._id:
            raise StoreError("the owner cannot be removed: let another store own the group first")
        voters = [id_ for id_ in member.members[0] if id_ != target]
        here = [id_ for id_ in voters if self._is_well(member, id_, now_s)]
        needed = max(2, len(voters) // 2 + 1)
        if len(here) < needed and not is_forced and target in member.members[0]:
            raise StoreError(
                f"{len(here)} of the {len(voters)} stores that are left are here and have the whole log, and "
                f"{needed} must be: add another store first, or remove this one with --force"
            )
        member.change_members([("none", target)])

    def _is_well(self, member: Member, id_: int, now_s: float) -> bool:
        heard = self._roster.get(id_)
        is_here = id_ == self._id or (heard is not None and heard.is_here(now_s))
        return is_here and member.indexes[3] - dict(member.progress).get(id_, 0) <= BEHIND_MAX


@dataclass(frozen=True, slots=True)
class Forced:
    """What is left of a group."""

    #: The offset after the last message.
    end: int
    #: When the last entry was made: seconds since 1970. What was confirmed later is not here.
    at: float


def force(directory: Path) -> Forced:
    """Let the last disk of a group go on alone; its store does not run.

    It gets another id, so that members that come back are none of its group any more, and begins a new
    incarnation.

    Raises:
        StoreError: the directory is no member's, or its log cannot be read.
    """
    try:
        group = json.loads((directory / NAME).read_text())["group"]
    except (OSError, ValueError, KeyError) as error:
        raise StoreError(f"{directory} is no directory of a member of a group: {error}") from None
    record = Record.open(directory, group)
    if not record.has_begun or record.founding is None:
        raise StoreError(f"the store in {directory} has no log of its group yet")
    new = secrets.randbits(62) | 1
    end, at_us = Log.force_member(directory, member=new, holder="store group force")
    record.going_on_alone(new)
    return Forced(end, at_us / 1e6)


@dataclass(frozen=True, slots=True)
class Place:
    """Where commands for one store go."""

    member: int
    url: str
    fingerprint: str | None


class Operator:
    """Sends commands to a group, whichever member owns it."""

    def __init__(self, status: dict[str, Any], token: bytes | None) -> None:
        self._group, self._domain = status["group"], status["domain"]
        self._seal = Seal(token, self._group)
        self._places = _places(status)

    def show(self) -> dict[str, Any]:
        """How the group is, as its owner sees it.

        Raises:
            StoreUnavailableError: no member owns the group, or none can be reached.
        """
        until = time.monotonic() + PATIENCE_S
        why = "no member can be reached"
        while True:
            for place in list(self._places):
                try:
                    status = self._ask(place, {"act": "show"})["status"]
                except ShoalError as error:
                    why = str(error)
                    continue
                self._places = _places(status) or self._places
                if status["state"] == "owner":
                    return dict(status)
                why = f"the store {status['name']!r} knows no owner that answers"
            if time.monotonic() >= until:
                raise StoreUnavailableError(f"the group {self._group} does not answer: {why}")
            time.sleep(LOOK_S)

    def do(self, act: str, member: int, **fields: Any) -> dict[str, Any]:
        """Let the owner do something; how the group is then.

        Raises:
            StoreError: what it refused.
        """
        shown = self.show()
        voters = sorted(int(each["member"], 16) for each in shown["members"] if each["votes"])
        learners = sorted(int(each["member"], 16) for each in shown["members"] if not each["votes"])
        known = [shown["term"], [voters, learners]]
        owner = next(place for place in _places(shown) if place.member == int(shown["member"], 16))
        answer = self._ask(owner, {"act": act, "member": member, "known": known, **fields})
        if "failed" in answer:
            raise StoreError(answer["failed"])
        return dict(answer["status"])

    def _ask(self, place: Place, request: dict[str, Any]) -> dict[str, Any]:
        pinned: dict[str, Any] = {} if place.fingerprint is None else {"tls_fingerprint": place.fingerprint}
        number = secrets.token_hex(8)
        answers = f"_group/{self._group}/answer/{number}"
        with connect(place.url, domain=self._domain, **pinned) as bus:
            be_private(bus)
            heard = bus.subscribe(answers)
            sealed = self._seal.close(json.dumps({**request, "answer": answers}).encode())
            bus.publish(asks_topic(self._group, place.member), {"sealed": sealed})
            until = time.monotonic() + ANSWER_S
            while (left_s := until - time.monotonic()) > 0:
                message = heard.receive(left_s)
                body = None if message is None else body_of(message)
                content = None if body is None else body.get("sealed")
                opened = self._seal.open(content) if isinstance(content, bytes) else None
                if opened is not None:
                    return dict(json.loads(opened))
        raise StoreUnavailableError(
            f"the member at {place.url} does not answer: it may have stopped, or its group has another token "
            "(--group-token-file)"
        )


def _places(status: dict[str, Any]) -> list[Place]:
    """Where members are that were heard, the owner first."""
    every = [each for each in (*status["members"], *status.get("waiting", [])) if each["url"]]
    every.sort(key=lambda each: not each["owns"])
    return [Place(int(each["member"], 16), each["url"], each.get("fingerprint")) for each in every]


def find(shown: dict[str, Any], named: str) -> dict[str, Any]:
    """The store of a group that is called so, or has this id.

    Raises:
        ConfigError: there is none, or there are several.
    """
    every = [*shown["members"], *shown["waiting"]]
    found = [each for each in every if named in (each["member"], each["name"])]
    if len(found) == 1:
        return dict(found[0])
    known = ", ".join(f"{each['name'] or '?'} ({each['member']})" for each in every)
    if found:
        raise ConfigError(
            f"{len(found)} stores of the group are called {named!r}: name it by its id: {known}"
        )
    raise ConfigError(f"no store of the group is called {named!r}, or waits to join it: there are {known}")
