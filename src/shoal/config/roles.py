"""What makes a connection take a role, or use that of others; the role's own package checks the rest."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from shoal.config.checks import Checked
from shoal.config.connection import ConnectionOptions
from shoal.errors import ConfigError
from shoal.types import is_text


class RoleOptions(TypedDict, total=False):
    """The keywords of `connect` that make its process a store: see `shoal.store.StoreConfig`."""

    store: str | Path
    record: str | Iterable[str | Mapping[str, Any]]
    keep: str | float | None
    keep_bytes: str | int | None
    flight: str | None
    token: str | None
    store_patterns: str | Iterable[str]
    store_listen: str | None
    store_name: str


class ClientOptions(TypedDict, total=False):
    """The keywords of `connect` that say how it uses a store: see `ClientConfig`."""

    client_id: str | None
    outbox: str | Path | None
    outbox_bytes_max: int


class ConnectOptions(ConnectionOptions, RoleOptions, ClientOptions, total=False):
    """The keywords of `connect`."""


@dataclass(frozen=True, kw_only=True)
class ClientConfig(Checked):
    """How a connection uses a store."""

    #: The address of a store, `tcp://host:port`, where it cannot be heard on the bus; `SHOAL_STORE` names
    #: one, too.
    store_url: str | None = None
    #: Whose durable subscriptions these are; no two live connections may have the same.
    client_id: str | None = None
    #: A directory in which persistent messages are kept until a store has them.
    outbox: Path | None = None
    #: How much may wait there.
    outbox_bytes_max: int = 1 << 30

    def __post_init__(self) -> None:
        self.check_types()
        client_id = self.client_id or ""
        is_name = len(client_id) <= 255 and is_text(client_id)
        self.check("client_id", is_name, "a text of 1 to 255 characters, or None")
        self.check_range("outbox_bytes_max", 1 << 20)


_CLIENT = frozenset(ClientOptions.__annotations__)


def split_client(
    options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> tuple[dict[str, Any], ClientConfig]:
    """The options of the connection and its role, and how it uses a store."""
    rest = {name: value for name, value in options.items() if name not in _CLIENT}
    client = {name: value for name, value in options.items() if name in _CLIENT}
    if (outbox := client.get("outbox")) is not None:
        if not isinstance(outbox, str | Path) or not str(outbox):
            raise ConfigError(f"outbox is {outbox!r}, and must be a directory, or None")
        client["outbox"] = Path(outbox)
    store = rest.get("store")
    if isinstance(store, str) and store.startswith("tcp://"):
        client["store_url"] = rest.pop("store")
    elif store is None:
        rest.pop("store", None)
        named = environment.get("SHOAL_STORE", "")
        # Readers of history know it, too, as the address of that.
        client["store_url"] = named if named.startswith("tcp://") else None
    return rest, ClientConfig(**client)


_STORE = frozenset(RoleOptions.__annotations__)


def split_roles(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the connection, and those of the store beside it, if there is one."""
    connection = {name: value for name, value in options.items() if name not in _STORE}
    store = {name: value for name, value in options.items() if name in _STORE}
    if store and store.get("store") is None:
        raise ConfigError(f"{', '.join(sorted(store))} means nothing without store=DIRECTORY")
    return connection, store
