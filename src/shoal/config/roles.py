"""What makes a connection take a role, or use that of others; the role's own package checks the rest."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from shoal.config.checks import Checked
from shoal.config.connection import ConnectionOptions
from shoal.config.destinations import Destinations
from shoal.config.fingerprints import fingerprint_bytes
from shoal.config.tokens import Token, token_of
from shoal.errors import ConfigError
from shoal.types import is_text


class RoleOptions(TypedDict, total=False):
    """The keywords of `connect` that make its process a store: see `shoal.store.StoreConfig`."""

    store: str | Path
    record: str | Iterable[str | Mapping[str, Any]]
    keep: str | float | None
    keep_bytes: str | int | None
    flight: str | None
    tokens: str | Path | None
    store_access: str | Path | None
    store_tls: bool
    store_tls_cert: str | None
    store_tls_key: str | None
    store_patterns: str | Iterable[str]
    store_listen: str | None
    store_name: str


class ClientOptions(TypedDict, total=False):
    """The keywords of `connect` that say how it uses a store, and is watched: see `ClientConfig`."""

    client_id: str | None
    token: str | None
    token_file: str | Path | None
    store_ca: str | None
    store_fingerprint: str | None
    outbox: str | Path | None
    outbox_bytes_max: int
    metrics: str | None
    answer: bool
    trace: bool
    destinations: Mapping[str, Any] | str | Path | None


class ConnectOptions(ConnectionOptions, RoleOptions, ClientOptions, total=False):
    """The keywords of `connect`."""

    profile: str


@dataclass(frozen=True, kw_only=True)
class ClientConfig(Checked):
    """How a connection uses a store, and how operators watch it."""

    #: The address of a store, `tcp://host:port`, where it cannot be heard on the bus; `SHOAL_STORE` names
    #: one, too.
    store_url: str | None = None
    #: The token to show to a store, and to be sure of it; better in a file, or in the environment.
    token: str | None = field(default=None, repr=False)
    #: A file with the token, which only its owner can read. `SHOAL_TOKEN` has a token, and `SHOAL_TOKEN_FILE`
    #: names a file, where neither is given.
    token_file: Path | None = None
    #: A file with the certificates of the authorities that sign a store's (PEM); the system's if not given.
    store_ca: str | None = None
    #: The SHA-256 fingerprint of a store's certificate, as `shoal store --tls` prints it; no authority has to
    #: have signed it.
    store_fingerprint: str | None = None
    #: Whose durable subscriptions these are; no two live connections may have the same.
    client_id: str | None = None
    #: A directory in which persistent messages are kept until a store has them.
    outbox: Path | None = None
    #: How much may wait there.
    outbox_bytes_max: int = 1 << 30
    #: Where to serve `/metrics` for Prometheus, `/status` and `/health`: an address of this machine, such as
    #: `127.0.0.1:9464`; port 0 is a free one.
    metrics: str | None = None
    #: Whether to answer `shoal nodes` and `shoal top` with a status.
    answer: bool = False
    #: Whether messages are traced by OpenTelemetry, which `shoal[otel]` brings.
    trace: bool = False
    #: Options of destinations: of patterns, or a TOML file with `[destination."fx/>"]`.
    destinations: Destinations | None = None

    def __post_init__(self) -> None:
        self.check_types()
        client_id = self.client_id or ""
        is_name = len(client_id) <= 255 and is_text(client_id)
        self.check("client_id", is_name, "a text of 1 to 255 characters, or None")
        self.check_range("outbox_bytes_max", 1 << 20)
        self.check(
            "store_ca",
            self.store_ca is None or self.store_fingerprint is None,
            "left out beside store_fingerprint",
        )
        if self.store_fingerprint is not None:
            fingerprint_bytes(self.store_fingerprint)
        # Raises what is wrong with it before anything is sent.
        self.own_token()

    def own_token(self) -> Token | None:
        """The token that was given, here or by the environment."""
        return token_of(self.token, self.token_file)

    def tls(self) -> dict[str, Any]:
        """How a store's certificate is checked, as options of a connection."""
        return {"tls_ca": self.store_ca, "tls_fingerprint": self.store_fingerprint}


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
    if (token_file := client.get("token_file")) is not None:
        if not isinstance(token_file, str | Path) or not str(token_file):
            raise ConfigError(f"token_file is {token_file!r}, and must be a file, or None")
        client["token_file"] = Path(token_file)
    if (destinations := client.get("destinations")) is not None:
        client["destinations"] = Destinations.of(destinations)
    store = rest.get("store")
    if isinstance(store, str) and store.startswith(("tcp://", "tls://")):
        client["store_url"] = rest.pop("store")
    elif store is None:
        rest.pop("store", None)
        named = environment.get("SHOAL_STORE", "")
        # Readers of history know it, too, as the address of that.
        client["store_url"] = named if named.startswith(("tcp://", "tls://")) else None
    return rest, ClientConfig(**client)


_STORE = frozenset(RoleOptions.__annotations__)


def split_roles(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the connection, and those of the store beside it, if there is one."""
    connection = {name: value for name, value in options.items() if name not in _STORE}
    store = {name: value for name, value in options.items() if name in _STORE}
    if store and store.get("store") is None:
        raise ConfigError(f"{', '.join(sorted(store))} means nothing without store=DIRECTORY")
    return connection, store
