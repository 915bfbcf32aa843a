"""How a group is, as one member sees it: in a file beside its log, and in answers to operators."""

import json
import logging
import time
from pathlib import Path
from typing import Any

from shoal._core import Member
from shoal.errors import StoreError
from shoal.store.roster import Roster

log = logging.getLogger("shoal.store")

STATUS = "group-status.json"
#: A status that is older is one of a member that does not run.
STALE_S = 10.0


def described(
    own: dict[str, Any], member: Member | None, roster: Roster, copied: tuple[int, int] | None
) -> dict[str, Any]:
    """What a member says of itself, with the members of its group and the stores that wait to join it.

    `state` is `joining` before the group is founded, `waiting` until a founded group lets the store in,
    `learner` while it copies the log, `follower` or `owner` then, `failed` if it stopped.
    """
    now_s = time.monotonic()
    if member is None:
        here = 1 + sum(each.founding is None for each in roster.here(now_s))
        return {**own, "state": _or_failed(own, "joining"), "here": here, "members": [], "waiting": []}
    voters, learners = member.members
    id_ = int(own["member"], 16)
    if member.owns:
        state = "owner"
    else:
        state = "follower" if id_ in voters else "learner" if id_ in learners else "waiting"
    first, last, synced, commit = member.indexes
    owner, progress = member.owner, dict(member.progress)

    def one(each: int) -> dict[str, Any]:
        heard, is_own = roster.get(each), each == id_
        known = own if is_own else {} if heard is None else {"name": heard.name, "url": heard.url}
        at = synced if is_own else progress.get(each)
        return {
            "member": f"{each:016x}",
            "name": known.get("name"),
            "url": known.get("url"),
            "fingerprint": own["fingerprint"] if is_own else None if heard is None else heard.fingerprint,
            "owns": each == owner,
            "votes": each in voters,
            "silent_s": 0.0 if is_own else None if heard is None else now_s - heard.at_s,
            "on_disk": at,
            "behind": None if at is None else max(0, last - at),
        }

    outside = [each.member for each in roster.here(now_s) if each.member not in (*voters, *learners)]
    outside += [id_] if state == "waiting" else []
    return {
        **own,
        "state": _or_failed(own, state),
        "term": member.term,
        "owner": None if owner is None else f"{owner:016x}",
        "entries": {"first": first, "last": last, "on_disk": synced, "committed": commit},
        "members": [one(each) for each in (*voters, *learners)],
        "waiting": [one(each) for each in sorted(outside)],
        "copied": None if copied is None else {"bytes": copied[0], "of": copied[1]},
        "unreadable": member.unreadable,
        "cuts": member.cuts,
    }


def _or_failed(own: dict[str, Any], state: str) -> str:
    return "failed" if own["failure"] is not None else state


def write_status(directory: Path, status: dict[str, Any]) -> None:
    """Replace the file. A full disk keeps the old one."""
    path = directory / STATUS
    unfinished = path.with_suffix(".json.new")
    try:
        unfinished.write_text(json.dumps(status))
        unfinished.replace(path)
    except OSError as error:
        log.debug("the status of the group cannot be written: %s", error)


def read_group_status(directory: Path) -> dict[str, Any]:
    """What the member of a directory said last; `stale` says that it says nothing any more.

    Raises:
        StoreError: there is no such file, or it makes no sense.
    """
    try:
        status: dict[str, Any] = json.loads((directory / STATUS).read_text())
    except FileNotFoundError:
        raise StoreError(f"{directory} has no status of a group: no member was ever open there") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"the status of the group in {directory} cannot be read: {error}") from None
    status["stale"] = time.time() - status["at"] > STALE_S
    return status
