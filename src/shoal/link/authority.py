"""A private authority that signs the certificates of nodes, for sites that have no other."""

import contextlib
import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path

from shoal.errors import ConfigError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise ConfigError("making certificates needs a library: pip install 'shoal[ca]'") from error

#: What an authority's files are called.
CA_CERT, CA_KEY = "ca.pem", "ca.key"
#: A clock that is behind by this much still finds a new certificate valid.
_EARLY = datetime.timedelta(hours=1)


def make_authority(folder: Path, name: str, days: int) -> tuple[Path, Path]:
    """A new authority in a folder: its certificate, for every node, and its key, which stays there."""
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    made = (
        _draft(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _write(folder / CA_CERT, folder / CA_KEY, made, key)


def make_node(folder: Path, name: str, others: Sequence[str], days: int) -> tuple[Path, Path]:
    """A certificate for a node and its key, signed by the authority in a folder, and written there.

    Args:
        folder: where the authority is.
        name: the node's name, or its address.
        others: more names and addresses that it may be reached by.
        days: how long it is valid.
    """
    authority, signer = _read(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    made = (
        _draft(_named(name), authority.subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_general(one) for one in dict.fromkeys((name, *others))]),
            critical=False,
        )
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    file = name.replace("*", "_").replace(":", "_")
    return _write(folder / f"{file}.pem", folder / f"{file}.key", made, key)


def make_self_signed(cert: Path, key_file: Path, name: str, others: Sequence[str], days: int) -> None:
    """A certificate signed by itself, and its key: clients pin its fingerprint."""
    cert.parent.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(name)
    names = [_general(each) for each in dict.fromkeys((name, *others))]
    made = (
        _draft(subject, subject, key.public_key(), days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    _write(cert, key_file, made, key)


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    until = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, until) - _EARLY)
        .not_valid_after(until)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(name: str) -> x509.Name:
    if not name or len(name) > 64 or "/" in name or name.startswith("."):
        raise ConfigError(f"the name is {name!r}, and must be a name of a host of 1 to 64 characters")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(name: str) -> x509.GeneralName:
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(name))
    try:
        return x509.DNSName(name)
    except ValueError as error:
        raise ConfigError(f"{name!r} is no name of a host, and no address: {error}") from None


def _read(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    try:
        authority = x509.load_pem_x509_certificate((folder / CA_CERT).read_bytes())
        key = serialization.load_pem_private_key((folder / CA_KEY).read_bytes(), password=None)
    except OSError as error:
        raise ConfigError(
            f"there is no authority in {str(folder)!r} ({error.strerror}): `shoal keys ca` makes one"
        ) from None
    except (ValueError, TypeError) as error:
        raise ConfigError(f"the authority in {str(folder)!r} cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ConfigError(f"the key in {str(folder / CA_KEY)!r} is none that `shoal keys ca` makes")
    return authority, key


def _write(
    cert_path: Path, key_path: Path, made: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> tuple[Path, Path]:
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for path, content, mode in (
        (key_path, secret, 0o600),
        (cert_path, made.public_bytes(serialization.Encoding.PEM), 0o644),
    ):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise ConfigError(f"{str(path)!r} exists, and is not overwritten: move it away first") from None
        except OSError as error:
            raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
    return cert_path, key_path
