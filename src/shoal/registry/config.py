"""What a registry can be told."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shoal.config.connection import REGISTRY_PORT
from shoal.errors import ConfigError
from shoal.web.config import WebConfig


@dataclass(frozen=True, kw_only=True)
class RegistryConfig(WebConfig):
    """One registry."""

    EXPOSURE: ClassVar[str] = "any program could send clients anywhere"

    listen: str = f"127.0.0.1:{REGISTRY_PORT}"
    #: A file for the audit log; without one the newest 1,000 entries are kept in memory.
    audit: Path | None = None
    #: Reverse proxies (addresses or CIDR) whose `X-Forwarded-For` names the client.
    proxies: tuple[str, ...] = ()
    #: Networks (CIDR) within which clients and daemons count as near.
    sites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("sites", "proxies"):
            for network in getattr(self, name):
                try:
                    ipaddress.ip_network(network)
                except ValueError as error:
                    raise ConfigError(
                        f"{name} has {network!r}, which is no network such as 10.1.0.0/16: {error}"
                    ) from None
