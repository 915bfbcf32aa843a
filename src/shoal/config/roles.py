"""What makes a connection take a role; the role's own package checks the rest."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from shoal.config.connection import ConnectionOptions
from shoal.errors import ConfigError


class RoleOptions(TypedDict, total=False):
    """The keywords of `connect` that make its process a store: see `shoal.store.StoreConfig`."""

    store: str | Path
    record: str | Iterable[str | Mapping[str, Any]]
    keep: str | float | None
    keep_bytes: str | int | None
    flight: str | None
    token: str | None


class ConnectOptions(ConnectionOptions, RoleOptions, total=False):
    """The keywords of `connect`."""


_STORE = frozenset(RoleOptions.__annotations__)


def split_roles(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the connection, and those of the store beside it, if there is one."""
    connection = {name: value for name, value in options.items() if name not in _STORE}
    store = {name: value for name, value in options.items() if name in _STORE}
    if store and store.get("store") is None:
        raise ConfigError(f"{', '.join(sorted(store))} means nothing without store=DIRECTORY")
    return connection, store
