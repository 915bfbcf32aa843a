"""Where a durable subscription is to read on: an offset, a time, or an end of what the store has."""

from datetime import UTC, datetime
from typing import Any, Literal

from shoal.errors import ConfigError

#: An offset, a time, or one of the ends.
Place = int | datetime | Literal["earliest", "latest"] | str


def place_of(to: Place) -> dict[str, Any]:
    """The fields of a request that mean a place; a text may be an offset or a time in ISO 8601."""
    if isinstance(to, str) and to not in ("earliest", "latest"):
        to = _read(to)
    if isinstance(to, datetime):
        if to.tzinfo is None:
            raise ConfigError(f"the time {to} has no time zone: write {to.isoformat()}Z, or give it a tzinfo")
        return {"time_us": max(0, int(to.astimezone(UTC).timestamp() * 1e6))}
    if isinstance(to, bool) or not isinstance(to, (int, str)) or (isinstance(to, int) and to < 0):
        raise ConfigError(f"to is {to!r}, and must be an offset, a time, 'earliest' or 'latest'")
    return {"to": to}


def _read(text: str) -> int | datetime:
    if text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no place: give an offset, a time such as 2026-11-18T04:00:00Z, earliest or latest"
        ) from None


def seek_request(name: str, to: Place, client_id: str | None, *, shared: bool) -> dict[str, Any]:
    """What a store is asked."""
    body: dict[str, Any] = {"op": "seek", "name": name, "shared": shared, **place_of(to)}
    if not shared and client_id is not None:
        body["client_id"] = client_id
    return body
