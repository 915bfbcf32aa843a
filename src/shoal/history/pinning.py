"""A server's certificate by its fingerprint, for Flight, which knows only certificates and names."""

import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from shoal.config.fingerprints import fingerprint_bytes, fingerprint_of
from shoal.errors import ConfigError, StoreDeniedError, StoreUnavailableError


def pinned(endpoint: str, fingerprint: str, timeout_s: float) -> tuple[bytes, str]:
    """The certificate at an endpoint (PEM), if it is the pinned one, and a name that it has.

    Flight trusts that certificate alone afterwards, so that no other server can take its place in between.

    Raises:
        StoreDeniedError: it is another one.
        StoreUnavailableError: no server answers there.
    """
    place = urlsplit(endpoint)
    if place.hostname is None or place.port is None:
        raise ConfigError(f"store is {endpoint!r}, and must be grpc+tls://host:port")
    where = (place.hostname, place.port)
    shown = ssl.DER_cert_to_PEM_cert(_peer(where, _unchecked(), timeout_s)[0]).encode()
    if fingerprint_bytes(fingerprint_of(shown)) != fingerprint_bytes(fingerprint):
        raise StoreDeniedError(
            f"The certificate at {endpoint} is not the pinned one: compare the fingerprint with what the"
            " store prints."
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=shown.decode())
    names = _peer(where, context, timeout_s)[1]
    if not names:
        raise ConfigError(f"the certificate at {endpoint} has no name: make one with an alternative name")
    return shown, names[0]


def _unchecked() -> ssl.SSLContext:
    """Looks at a certificate without believing it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _peer(where: tuple[str, int], context: ssl.SSLContext, timeout_s: float) -> tuple[bytes, list[str]]:
    """The certificate of the server that listens, and the names in it if it was verified."""
    # Flight answers only clients that offer HTTP/2.
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection(where, timeout_s) as plain,
            context.wrap_socket(plain, server_hostname=where[0]) as secure,
        ):
            found: Any = secure.getpeercert() or {}
            names = [str(name) for _, name in found.get("subjectAltName", ())]
            return secure.getpeercert(binary_form=True) or b"", names
    except ssl.SSLError as error:
        raise StoreDeniedError(f"The certificate at {where[0]}:{where[1]} cannot be used: {error}") from None
    except OSError as error:
        raise StoreUnavailableError(f"the store cannot be reached: {error}") from None
