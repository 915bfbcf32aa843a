"""Durable and shared subscriptions: what a store is asked for. Checks, and waits for nothing."""

from dataclasses import dataclass

from shoal.bus.arguments import check_flag, check_pattern, refuse, selector_of, unexpected_of_subscribe
from shoal.bus.options import Ack, OnFull
from shoal.bus.queues import declaration
from shoal.bus.store_errors import needs_client_id
from shoal.bus.store_session import Body
from shoal.errors import ConfigError
from shoal.selector import Selector
from shoal.types import is_text


@dataclass(frozen=True, slots=True)
class Asked:
    """What a subscription asks a store for."""

    name: str
    #: What it is, for people.
    what: str
    begin: Body
    ack: Ack
    prefetch: int | None
    durable: bool


def stored_of(
    pattern: str,
    *,
    client_id: str | None,
    durable: str | bool | None = None,
    shared: str | bool | None = None,
    selector: str | Selector | None = None,
    no_local: bool = False,
    ack: Ack = "auto",
    prefetch: int | None = None,
    start: str | int | None = None,
    expires_after_s: float | None = None,
    backlog_max_bytes: int | None = None,
    on_full: OnFull | None = None,
    single: bool | None = None,
    **unknown: object,
) -> Asked:
    """What a durable or shared subscription asks for, checked.

    `single` says that its clients let one consumer at a time use a shared one, or that they do not: the store
    refuses the other kind under the same name.
    """
    for each in unknown:
        raise unexpected_of_subscribe(each)
    check_pattern(pattern)
    check_flag("no_local", no_local)
    name = _name(durable, shared)
    if durable and not shared and client_id is None:
        raise needs_client_id(name)
    if start is not None and start not in ("new", "earliest") and not _is_offset(start):
        raise ConfigError(f"start is {start!r}, and must be 'new', 'earliest' or an offset")
    wanted = selector_of(selector)
    begin: Body = {
        "op": "subscribe",
        "patterns": [pattern],
        "name": name,
        "durable": bool(durable),
        "shared": bool(shared),
        "no_local": no_local,
        # A changed pattern or selector makes it a new one, as JMS says.
        "replace": True,
        **declaration(expires_after_s=expires_after_s, backlog_max_bytes=backlog_max_bytes, on_full=on_full),
    }
    if wanted is not None:
        begin["selector"] = str(wanted)
    if start is not None:
        begin["start"] = start
    if single is not None:
        begin["single"] = single
    kind = ("durable " if durable else "") + ("shared " if shared else "")
    return Asked(name, f"the {kind}subscription {name!r}", begin, ack, prefetch, bool(durable))


def _name(durable: str | bool | None, shared: str | bool | None) -> str:
    names = {name for name in (durable, shared) if isinstance(name, str)}
    for option, value in (("durable", durable), ("shared", shared)):
        if value is not None and not isinstance(value, str | bool):
            raise refuse(option, value, "a name, True or False")
    if len(names) != 1 or not all(0 < len(name) <= 255 and is_text(name) for name in names):
        raise ConfigError(
            f"durable is {durable!r} and shared is {shared!r}: one of them, and only one, must be the "
            "subscription's name, of 1 to 255 characters"
        )
    return names.pop()


def _is_offset(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
