"""Certificates of links over TLS: read from files, for the extension and for Python's own TLS."""

from pathlib import Path
from typing import TYPE_CHECKING

from shoal import _core
from shoal.config.fingerprints import fingerprint_bytes
from shoal.errors import ConfigError

if TYPE_CHECKING:
    import ssl

    from shoal.config import ConnectionConfig

#: Where systems keep in one file whom they trust.
_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def tls_of(config: "ConnectionConfig") -> _core.Tls:
    """What the extension needs for links over TLS."""
    trusted, own = _files(config)
    return _core.Tls(trusted, own, mutual=config.tls_ca is not None, pinned=_pinned(config))


def replace_tls(tls: _core.Tls, config: "ConnectionConfig") -> None:
    """Read the files again."""
    trusted, own = _files(config)
    tls.replace(trusted, own, mutual=config.tls_ca is not None, pinned=_pinned(config))


def _pinned(config: "ConnectionConfig") -> bytes | None:
    return None if config.tls_fingerprint is None else fingerprint_bytes(config.tls_fingerprint)


def _files(config: "ConnectionConfig") -> tuple[bytes, tuple[bytes, bytes] | None]:
    own = None
    if config.tls_cert is not None and config.tls_key is not None:
        own = (_read("tls_cert", config.tls_cert), _read("tls_key", config.tls_key))
    return _system() if config.tls_ca is None else _read("tls_ca", config.tls_ca), own


def check_listening(config: "ConnectionConfig", url: str) -> None:
    """Refuse to listen without a certificate."""
    if config.tls_cert is None:
        raise ConfigError(
            f"{url} cannot be listened at without a certificate: give tls_cert and tls_key "
            "(`shoal keys node NAME` makes them)"
        )


def context_of(config: "ConnectionConfig", *, listens: bool) -> "ssl.SSLContext":
    """The same for Python's own TLS."""
    # Links without TLS, and links whose TLS is the extension's, do without its memory.
    import ssl

    if config.tls_fingerprint is not None:
        raise ConfigError("tls_fingerprint pins certificates of tls:// alone: give tls_ca for wss://")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listens else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if config.tls_ca is not None:
        try:
            context.load_verify_locations(cadata=_read("tls_ca", config.tls_ca).decode("ascii", "replace"))
        except ssl.SSLError as error:
            raise ConfigError(f"tls_ca is {config.tls_ca!r}, and holds no certificate: {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    elif not listens:
        context.load_default_certs()
    if config.tls_cert is not None:
        try:
            context.load_cert_chain(config.tls_cert, config.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(f"tls_cert {config.tls_cert!r} and tls_key cannot be used: {error}") from None
    return context


def _read(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{option} is {path!r}, and cannot be read: {error.strerror}") from None


def _system() -> bytes:
    """Whom this system trusts, if it says so; an empty list trusts no one."""
    import ssl

    paths = (ssl.get_default_verify_paths().cafile, *_BUNDLES)
    for path in paths:
        if path is not None and Path(path).is_file():
            return Path(path).read_bytes()
    return b""
