"""The certificate that a store shows: the one it was given, or one of its own in its directory."""

from pathlib import Path
from typing import NamedTuple

from shoal.config.fingerprints import fingerprint_of
from shoal.errors import ConfigError
from shoal.store.config import StoreConfig

#: How long a certificate of a store's own is valid. Clients that pin it do not look at its dates.
DAYS = 3650
_FILES = "tls"


class Certificate(NamedTuple):
    """Files with a certificate and its key (PEM)."""

    cert: str
    key: str

    @property
    def fingerprint(self) -> str:
        """What clients pin."""
        return fingerprint_of(self.pem()[0])

    def pem(self) -> tuple[bytes, bytes]:
        """The certificate, and the key."""
        try:
            return Path(self.cert).read_bytes(), Path(self.key).read_bytes()
        except OSError as error:
            raise ConfigError(f"{error.filename!r} cannot be read: {error.strerror}") from None


def certificate_of(config: StoreConfig, hosts: list[str]) -> Certificate | None:
    """The certificate of a store, made for these hosts if it has none yet; none without TLS."""
    if config.tls_cert is not None and config.tls_key is not None:
        return Certificate(config.tls_cert, config.tls_key)
    if not config.tls:
        return None
    folder = config.path / _FILES
    found = Certificate(str(folder / "store.pem"), str(folder / "store.key"))
    if not Path(found.cert).exists():
        from shoal.link.authority import make_self_signed

        make_self_signed(Path(found.cert), Path(found.key), config.name, hosts, DAYS)
    return found
