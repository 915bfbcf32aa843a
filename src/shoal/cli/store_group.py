"""`shoal store group`: look at a group of stores that keep one log, and change who belongs to it."""

import json as json_module
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.connection import plain_endings
from shoal.errors import ConfigError, StoreError

#: How often a command looks how far a store is that copies the log.
LOOK_S = 1.0

app = typer.Typer(help="Look at a group of stores that keep one log, and change it.", add_completion=False)

Data = Annotated[Path, typer.Option(help="The directory of one of its members.")]
Named = Annotated[str, typer.Argument(help="The store's name, or its id.")]
TokenFile = Annotated[
    Path | None, typer.Option(help="The file with the token that members prove to each other.")
]


@app.command("status")
def status(
    data: Data, json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False
) -> None:
    """Print who owns the group, its term, and how far each member is, as one member sees it."""
    from shoal.store.group_status import read_group_status

    with plain_endings("store group status"):
        found = read_group_status(data)
        for line in [json_module.dumps(found)] if json else _lines(found):
            typer.echo(line)


def _lines(found: dict[str, Any]) -> list[str]:
    stale = " (it does not run)" if found["stale"] else ""
    lines = [f"group {found['group']}, member {found['member']} {found['name']!r}: {found['state']}{stale}"]
    if found["state"] == "joining":
        wanted = f" of {found['wanted']}" if found["wanted"] is not None else ""
        return [*lines, f"waits for the group: {found['here']}{wanted} members are here"]
    if found.get("entries") is not None:
        entries = found["entries"]
        lines.append(
            f"term {found['term']}, owner {found['owner'] or 'none'}, committed {entries['committed']} "
            f"of {entries['last']} entries"
        )
    lines += [_line(each) for each in found["members"]]
    lines += [f"{_line(each)} (shoal store group add)" for each in found.get("waiting", [])]
    copied = found.get("copied")
    if copied is not None:
        lines.append(f"copies the log: {copied['bytes']} of {copied['of']} bytes")
    if found.get("failure"):
        lines.append(f"failed: {found['failure']}")
    return lines


def _line(each: dict[str, Any]) -> str:
    is_outside = each["behind"] is None and not each["votes"] and each["on_disk"] is None
    role = "owner" if each["owns"] else "follower" if each["votes"] else "learner"
    role = "waits to join" if is_outside and not each["votes"] else role
    silent_s = each["silent_s"]
    heard = "never heard" if silent_s is None else f"heard {silent_s:.1f} s ago"
    behind = "" if each["behind"] is None else f", {each['behind']} entries behind"
    return f"  {each['member']} {each['name'] or '?'}: {role}, {heard}{behind}"


def _operator(data: Path, token_file: Path | None) -> Any:
    from shoal.store.group import token_from
    from shoal.store.group_status import read_group_status
    from shoal.store.operating import Operator

    found = read_group_status(data)
    if found["stale"]:
        raise StoreError(f"the member in {data} does not run: name the directory of one that does")
    return Operator(found, None if token_file is None else token_from(token_file))


@app.command("add")
def add(
    named: Named,
    data: Data,
    replace: Annotated[
        str | None, typer.Option(help="The member whose place it takes, such as one with a lost disk.")
    ] = None,
    group_token_file: TokenFile = None,
) -> None:
    """Let a store join that waits to: it copies the log, and votes then."""
    from shoal.store.operating import BEHIND_MAX, find

    with plain_endings("store group add"):
        operator = _operator(data, group_token_file)
        shown, one = _wait_for(operator, named)
        old = None if replace is None else int(find(shown, replace)["member"], 16)
        id_ = int(one["member"], 16)
        if one["member"] not in {each["member"] for each in shown["members"]}:
            shown = operator.do("add", id_)
            typer.echo(f"{one['name']} copies the log")
        told = ""
        while not (one := find(shown, one["member"]))["votes"]:
            behind = one["behind"]
            if behind is not None and one["on_disk"] and behind <= BEHIND_MAX:
                shown = operator.do("vote", id_, **({} if old is None else {"replaces": old}))
                break
            line = f"{one['name']} lacks {behind if behind is not None else 'all'} entries"
            if line != told:
                typer.echo(line)
                told = line
            time.sleep(LOOK_S)
            shown = operator.show()
        _await(operator, lambda now: _has(now, id_) and not (old is not None and _has(now, old)))
        typer.echo(
            f"{one['name']} is a member now" + ("" if replace is None else f", in the place of {replace}")
        )


@app.command("remove")
def remove(
    named: Named,
    data: Data,
    force: Annotated[
        bool, typer.Option("--force", help="Also if fewer than two stores with the whole log are left.")
    ] = False,
    group_token_file: TokenFile = None,
) -> None:
    """Take a store out of the group."""
    from shoal.store.operating import find

    with plain_endings("store group remove"):
        operator = _operator(data, group_token_file)
        one = find(operator.show(), named)
        operator.do("remove", int(one["member"], 16), force=force)
        _await(operator, lambda now: one["member"] not in {each["member"] for each in now["members"]})
        typer.echo(f"{one['name'] or one['member']} is no member any more")


@app.command("transfer")
def transfer(named: Named, data: Data, group_token_file: TokenFile = None) -> None:
    """Let another store own the group."""
    from shoal.store.operating import find

    with plain_endings("store group transfer"):
        operator = _operator(data, group_token_file)
        one = find(operator.show(), named)
        if not one["owns"]:
            operator.do("transfer", int(one["member"], 16))
            _await(operator, lambda now: now["owner"] == one["member"])
        typer.echo(f"{one['name'] or one['member']} owns the group")


@app.command("force")
def force(
    data: Data,
    yes: Annotated[bool, typer.Option("--yes", help="Do it, and lose what other disks had.")] = False,
) -> None:
    """Let the last disk of a group go on alone: the others are lost, and its store does not run."""
    from shoal.store.group_status import read_group_status
    from shoal.store.operating import force as force_one

    with plain_endings("store group force"):
        if not yes:
            raise ConfigError(
                "messages that were confirmed and are not on this disk are lost by it, and no store can "
                "tell which: if the other disks are lost for good, add --yes"
            )
        if not read_group_status(data)["stale"]:
            raise StoreError(f"the member in {data} runs: stop it first")
        forced = force_one(data)
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(forced.at))
        typer.echo(
            f"the store in {data} is the only member of its group. It has every message below "
            f"offset {forced.end}; the last entry was made at {at}. What was confirmed later is lost, and "
            "that there was nothing cannot be proven. Start it, and add other stores: shoal store group add"
        )


def _has(shown: dict[str, Any], member: int) -> bool:
    """Whether a store votes."""
    return any(each["votes"] and int(each["member"], 16) == member for each in shown["members"])


def _wait_for(operator: Any, named: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A store that may just be starting, and how the group is."""
    from shoal.store.operating import PATIENCE_S, find

    until = time.monotonic() + PATIENCE_S
    while True:
        shown = operator.show()
        try:
            return shown, find(shown, named)
        except ConfigError:
            if time.monotonic() >= until:
                raise
            time.sleep(LOOK_S / 4)


def _await(operator: Any, is_so: Any) -> None:
    """Return when the owner says so."""
    from shoal.store.operating import PATIENCE_S

    until = time.monotonic() + PATIENCE_S
    while not is_so(operator.show()):
        if time.monotonic() >= until:
            raise StoreError("the group has not done it: look at shoal store group status, and try again")
        time.sleep(LOOK_S / 4)
