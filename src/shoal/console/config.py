"""What a console can be told."""

import ipaddress
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shoal.config.checks import Checked
from shoal.errors import ConfigError

PORT = 7481
#: The audit log, in the directory of a console.
AUDIT_FILE = "audit.jsonl"


def state_directory() -> Path:
    """Where a user's programs keep what they note: the audit log of a console."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "shoal" / "console"


@dataclass(frozen=True, kw_only=True)
class ConsoleConfig(Checked):
    """One console."""

    #: Where it listens, as ADDRESS:PORT; port 0 is a free one.
    listen: str = f"127.0.0.1:{PORT}"
    #: The certificate and its key, as PEM files.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: The token file; `shoal token new` makes it. Without one, the console makes a token for one run.
    tokens: Path | None = None
    #: Names under which browsers reach it, beside its address.
    names: tuple[str, ...] = ()
    #: Where it keeps its audit log.
    data: Path = field(default_factory=state_directory)
    #: Histories of stores that do not say where they are: a name, and grpc://HOST:PORT or a directory.
    histories: Mapping[str, str] = field(default_factory=dict)
    #: Key files of hosts whose daemons it may start and stop; `shoal host init` makes one.
    host_keys: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        self.check_types()
        host, _ = self.address()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        if not ipaddress.ip_address(host).is_loopback and (self.tls_cert is None or self.tokens is None):
            raise ConfigError(
                f"listen is {self.listen!r}, which other machines reach: give tls_cert, tls_key and tokens "
                "as well, because tokens and cookies would cross the network in clear otherwise"
            )
        for name in self.names:
            if not name or any(letter in name for letter in "/:@ \t"):
                raise ConfigError(f"names has {name!r}, and must have host names such as console.example.org")

    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.listen.rpartition(":")
        try:
            if not port.isdecimal() or int(port) > 65_535:
                raise ValueError
            return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
        except ValueError:
            raise ConfigError(
                f"listen is {self.listen!r}, and must be ADDRESS:PORT, such as 127.0.0.1:{PORT}"
            ) from None

    @property
    def is_tls(self) -> bool:
        """Whether it speaks HTTPS."""
        return self.tls_cert is not None

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
