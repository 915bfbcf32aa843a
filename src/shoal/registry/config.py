"""What a registry can be told."""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from shoal.config.checks import Checked
from shoal.config.connection import REGISTRY_PORT
from shoal.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class RegistryConfig(Checked):
    """One registry."""

    #: Where it listens, as ADDRESS:PORT; port 0 is a free one.
    listen: str = f"127.0.0.1:{REGISTRY_PORT}"
    #: The certificate and its key, as PEM files.
    tls_cert: Path | None = None
    tls_key: Path | None = None
    #: The token file; `shoal token new` makes it.
    tokens: Path | None = None
    #: A SQLite file for the audit log; without one the newest entries are kept in memory.
    audit: Path | None = None
    #: Reverse proxies (addresses or CIDR) whose `X-Forwarded-For` names the client.
    proxies: tuple[str, ...] = ()
    #: Networks (CIDR) within which clients and daemons count as near.
    sites: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.check_types()
        host, _ = self.address()
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        if not ipaddress.ip_address(host).is_loopback and (self.tls_cert is None or self.tokens is None):
            raise ConfigError(
                f"listen is {self.listen!r}, which other machines reach: give tls_cert, tls_key and tokens "
                "as well, because any program could send clients anywhere otherwise"
            )
        for name, network in [
            *(("sites", one) for one in self.sites),
            *(("proxies", one) for one in self.proxies),
        ]:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                raise ConfigError(
                    f"{name} has {network!r}, which is no network such as 10.1.0.0/16: {error}"
                ) from None

    def address(self) -> tuple[str, int]:
        """The host and the port."""
        host, _, port = self.listen.rpartition(":")
        try:
            if not port.isdecimal() or int(port) > 65_535:
                raise ValueError
            return str(ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))), int(port)
        except ValueError:
            raise ConfigError(
                f"listen is {self.listen!r}, and must be ADDRESS:PORT, such as 127.0.0.1:{REGISTRY_PORT}"
            ) from None
