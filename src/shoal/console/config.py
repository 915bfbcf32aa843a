"""What a console can be told."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from shoal.errors import ConfigError
from shoal.web.config import WebConfig

PORT = 7481
#: The audit log, in the directory of a console.
AUDIT_FILE = "audit.jsonl"


def state_directory() -> Path:
    """Where a user's programs keep what they note: the audit log of a console."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "shoal" / "console"


@dataclass(frozen=True, kw_only=True)
class ConsoleConfig(WebConfig):
    """One console. Without a token file it makes a token for one run."""

    EXPOSURE: ClassVar[str] = "tokens and cookies would cross the network in clear"

    listen: str = f"127.0.0.1:{PORT}"
    #: Names under which browsers reach it, beside its address.
    names: tuple[str, ...] = ()
    #: Where it keeps its audit log.
    data: Path = field(default_factory=state_directory)
    #: Histories of stores that do not say where they are: a name, and grpc://HOST:PORT or a directory.
    histories: Mapping[str, str] = field(default_factory=dict)
    #: Key files of hosts whose daemons it may start and stop; `shoal host init` makes one.
    host_keys: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.names:
            if not name or any(letter in name for letter in "/:@ \t"):
                raise ConfigError(f"names has {name!r}, and must have host names such as console.example.org")

    def hosts(self, port: int) -> frozenset[str]:
        """What the header Host of a request may be: any other name may be one that an attacker's DNS gave."""
        host, _ = self.address()
        named = [*self.names, f"[{host}]" if ":" in host else host]
        if ipaddress.ip_address(host).is_loopback:
            named.append("localhost")
        if ipaddress.ip_address(host).is_unspecified:
            named += [socket.gethostname(), socket.getfqdn()]
        default = 443 if self.is_tls else 80
        found = {f"{name.lower()}:{port}" for name in named}
        return frozenset(found | ({name.lower() for name in named} if port == default else set()))
