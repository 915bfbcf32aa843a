"""Fingerprints of certificates: SHA-256 of the certificate's DER form, as people write and compare it."""

import hashlib
import re

from shoal.errors import ConfigError

_PREFIX = "sha256:"
_DIGITS = re.compile(r"[0-9a-f]{64}")


def fingerprint_of(certificate_pem: bytes) -> str:
    """The fingerprint of the first certificate in a PEM text."""
    # Programs without TLS do without its memory.
    import ssl

    der = ssl.PEM_cert_to_DER_cert(certificate_pem.decode("ascii"))
    return _PREFIX + hashlib.sha256(der).hexdigest()


def fingerprint_bytes(text: str) -> bytes:
    """The bytes of a fingerprint: `sha256:` may be left out, and colons may stand between."""
    digits = text.strip().lower().removeprefix(_PREFIX).replace(":", "")
    if _DIGITS.fullmatch(digits) is None:
        raise ConfigError(
            f"the fingerprint is {text!r:.100}, and must be 64 hexadecimal digits, as `shoal store --tls` "
            "prints it"
        )
    return bytes.fromhex(digits)
