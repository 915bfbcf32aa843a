"""What a gateway can be told."""

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from shoal.config.checks import Checked
from shoal.errors import ConfigError

#: Where STOMP is by custom, and where a WebSocket is.
STOMP_PORT, WS_PORT = 61613, 7482
#: How a client connects, and whether that is over TLS.
SCHEMES = {"tcp": False, "tls": True, "ws": False, "wss": True}
_ORIGIN = re.compile(r"https?://[^/\s]+")


class Door(NamedTuple):
    """One address at which clients connect."""

    scheme: str
    host: str
    port: int
    #: Of a WebSocket.
    path: str

    @property
    def is_web(self) -> bool:
        """Whether it is a WebSocket."""
        return self.scheme in ("ws", "wss")

    @property
    def is_secure(self) -> bool:
        """Whether it is over TLS."""
        return SCHEMES[self.scheme]

    def url(self, port: int) -> str:
        """Where it is, given the port that it got."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{port}{self.path if self.is_web else ''}"


@dataclass(frozen=True, kw_only=True)
class GatewayConfig(Checked):
    """One gateway."""

    #: Where STOMP clients connect: URLs of the schemes tcp, tls, ws and wss; port 0 is a free one.
    stomp: tuple[str, ...] = (f"tcp://127.0.0.1:{STOMP_PORT}",)
    #: The certificate and its key for tls:// and wss://, as PEM files.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: The token file of the clients; `shoal token new` makes it.
    tokens: Path | None = None
    #: The rules file: what each principal may do with which destinations.
    access: Path | None = None
    #: A file with the gateway's own token, which it shows to a store.
    token_file: Path | None = None
    #: Pages that may connect, such as `https://desk.example`; programs that are no browsers name none.
    origins: tuple[str, ...] = ()
    #: Connections at once.
    connections_max: int = 2000
    #: The longest body of a message.
    message_bytes_max: int = 16 << 20
    #: Lets other machines connect without a token, or without TLS.
    insecure: bool = False

    def __post_init__(self) -> None:
        self.check_types()
        self.check_range("connections_max", 1, 1_000_000)
        self.check_range("message_bytes_max", 1, 1 << 30)
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(f"origins has {origin!r}, and must be like https://desk.example:8443")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        for door, url in zip(self.doors(), self.stomp, strict=True):
            self._check_safe(door, url)

    def _check_safe(self, door: Door, url: str) -> None:
        if door.is_secure and self.tls_cert is None:
            raise ConfigError(f"stomp is {url!r}, which needs a certificate: give tls_cert and tls_key")
        if self.insecure or ipaddress.ip_address(door.host).is_loopback:
            return
        lacks = "tokens" if self.tokens is None else "" if door.is_secure else "TLS (tls:// or wss://)"
        if lacks:
            raise ConfigError(
                f"stomp is {url!r}, which other machines reach, and lacks {lacks}: add it, or set insecure "
                "if every program on that network may read and send everything"
            )

    def doors(self) -> list[Door]:
        """The addresses."""
        if not self.stomp:
            raise ConfigError("stomp is empty, and must have at least one URL, such as tcp://127.0.0.1:61613")
        return [_door(url) for url in self.stomp]


def _door(url: str) -> Door:
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme, parts.port
        host = str(ipaddress.ip_address(parts.hostname or ""))
        if scheme not in SCHEMES or parts.query or parts.fragment or parts.username:
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"stomp has {url!r}, and must be URLs such as tcp://127.0.0.1:{STOMP_PORT} or "
            f"ws://127.0.0.1:{WS_PORT}/stomp, with an IP address and the schemes {', '.join(SCHEMES)}"
        ) from None
    is_web = scheme in ("ws", "wss")
    if port is None:
        port = WS_PORT if is_web else STOMP_PORT
    return Door(scheme, host, port, parts.path if parts.path.strip("/") else "/stomp" if is_web else "")
