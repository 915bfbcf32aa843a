"""What a store refuses, as exceptions."""

from collections.abc import Mapping
from typing import Any

from shoal.errors import (
    BacklogError,
    ConfigError,
    DiffersError,
    InUseError,
    InvalidDestinationError,
    LeaseError,
    NoStoreError,
    StoreDeniedError,
    StoreError,
    StoreFailedError,
    StoreFullError,
    StoreRefusedError,
    TrimmedError,
)

_KINDS: dict[str, type[StoreError]] = {
    "IN_USE": InUseError,
    "DIFFERS": DiffersError,
    "EXISTS_NOT": InvalidDestinationError,
    "FULL": StoreFullError,
    "BACKLOG": BacklogError,
    "LEASE": LeaseError,
    "NO_CONSUMER": LeaseError,
    "DENIED": StoreDeniedError,
    "FAILED": StoreFailedError,
    "NOT_OWNED": StoreRefusedError,
    "TOO_LONG": StoreRefusedError,
    "BAD_ROWS": StoreRefusedError,
    "BAD_REQUEST": StoreRefusedError,
    "NO_CLIENT_ID": StoreRefusedError,
}


def error_of(body: Mapping[str, Any]) -> StoreError:
    """The exception that a refusal stands for."""
    text = str(body.get("text") or body.get("error"))
    if body.get("error") == "TRIMMED":
        return TrimmedError(text, int(body.get("floor", 0)))
    return _KINDS.get(str(body.get("error")), StoreError)(text)


def seconds(duration_s: float) -> str:
    """A time as people read it."""
    return f"{round(duration_s, 3):g} s"


def no_store(
    what: str,
    waited_s: float | None = None,
    why: str = "",
    others: str = "",
    at: str = "",
    *,
    is_inproc: bool = False,
) -> NoStoreError:
    """No store keeps what must be kept; a caller waited for one, or not.

    Args:
        what: what needs a store.
        waited_s: how long the caller waited.
        why: why the store cannot be reached, where an address was tried.
        others: stores that keep other destinations.
        at: the store that the program chose itself: by its address, or its own.
        is_inproc: the domain is one of this process.
    """
    when = "yet" if waited_s is None else f"within {seconds(waited_s)}"
    if others:
        return NoStoreError(
            f"{what} needs a store that keeps it, and those of this domain keep other destinations: "
            f"{others}. Give one of them another pattern, or start one more"
        )
    if at:
        reason = f": {why}" if why else ""
        return NoStoreError(f"{what} needs {at}, which has not answered {when}{reason}")
    if why:
        return NoStoreError(f"{what} needs a store, and there was no way to it {when}: {why}")
    ways = [
        "start one with 'shoal store --data DIRECTORY'",
        "make this program one with connect(store=DIRECTORY)",
        "name one with connect(store='tcp://host:port')",
    ]
    # A process of its own is never a member of a domain in memory.
    advice = ", ".join(ways[1:] if is_inproc else ways)
    return NoStoreError(
        f"{what} needs a store, and none was heard of {when}: {advice}, or keep messages here meanwhile with "
        "connect(outbox=DIRECTORY)"
    )


def needs_client_id(name: str) -> ConfigError:
    """A durable subscription belongs to a client id."""
    return ConfigError(
        f"durable={name!r} needs a client id, which tells its owner from others: connect(client_id=...), or "
        "share it with shared=True"
    )
