"""Where an HTTP server listens, and what protects it."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from shoal.config.checks import Checked
from shoal.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class WebConfig(Checked):
    """An address, a certificate and a token file. A subclass gives `listen` its default."""

    #: What other machines could do to a server without TLS and tokens; an error says it.
    EXPOSURE: ClassVar[str]

    #: Where the server listens, as ADDRESS:PORT; port 0 is a free one.
    listen: str
    #: The certificate and its key, as PEM files.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: The token file; `shoal token new` makes it.
    tokens: Path | None = None

    def __post_init__(self) -> None:
        self.check_types()
        host, _ = self.address()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        if not ipaddress.ip_address(host).is_loopback and (self.tls_cert is None or self.tokens is None):
            raise ConfigError(
                f"listen is {self.listen!r}, which other machines reach: give tls_cert, tls_key and tokens "
                f"as well, because {self.EXPOSURE} otherwise"
            )

    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.listen.rpartition(":")
        try:
            if not port.isdecimal() or int(port) > 65_535:
                raise ValueError
            return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
        except ValueError:
            default = self.__dataclass_fields__["listen"].default
            raise ConfigError(
                f"listen is {self.listen!r}, and must be ADDRESS:PORT, such as {default}"
            ) from None

    @property
    def is_tls(self) -> bool:
        """Whether the server speaks HTTPS."""
        return self.tls_cert is not None
