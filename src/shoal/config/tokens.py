"""Tokens: what a program shows to a store, and the file in which a store knows its principals.

A token is a random secret with the name of its principal. The file has no secret in it: of each token it
has a *verifier*, from which neither the token nor a client's proof can be made (SCRAM, RFC 5802, without its
salt: a secret of 256 random bits needs none).

    client_key = HMAC(secret, "client")
    stored_key = SHA-256(client_key)
    server_key = HMAC(secret, "server")

The file has stored_key and server_key. A client proves that it has the secret, and a store that it has the
file, each about fresh numbers of both: what an eavesdropper recorded is worth nothing later.
"""

import base64
import datetime
import hashlib
import hmac
import os
import re
import secrets
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from shoal.errors import ConfigError

#: What a token begins with where it is written; the principal, a colon and the secret follow.
PREFIX = "shoal-token-1"
#: Name a token, and a file with one, for programs without the option.
ENVIRONMENT, ENVIRONMENT_FILE = "SHOAL_TOKEN", "SHOAL_TOKEN_FILE"
#: What a principal may do: `client` uses destinations and its own subscriptions, and asks a registry for
#: daemons; `operator` does everything, also with what belongs to others; `admin` does, too, and in a console
#: starts daemons and makes tokens; `daemon` registers with a registry; `viewer` looks at a registry or a
#: console.
STORE_ROLES = ("client", "operator", "admin", "store")
ROLES = (*STORE_ROLES, "daemon", "viewer")
#: Principals of one file.
PRINCIPALS_MAX = 100_000
#: A fresh number of either side, in bytes.
NONCE_BYTES = 32

_PRINCIPAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_SECRET_BYTES = 32
_HASH = "sha256"


def is_principal(name: object) -> bool:
    """Whether a principal may be called so: 1 to 64 letters, digits and `._@-`, a letter or digit first."""
    return isinstance(name, str) and _PRINCIPAL.fullmatch(name) is not None


@dataclass(frozen=True)
class Token:
    """What a program shows: a principal and its secret."""

    principal: str
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls, principal: str) -> "Token":
        """A new token."""
        if not is_principal(principal):
            raise ConfigError(
                f"the principal is {principal!r}, and must be 1 to 64 letters, digits and '._@-', of which "
                "the first is a letter or a digit"
            )
        return cls(principal, secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def parse(cls, text: str) -> "Token":
        """The token that a text is; no error repeats it."""
        prefix, _, rest = text.strip().partition(":")
        principal, _, secret = rest.partition(":")
        try:
            raw = base64.b64decode(secret + "=", altchars=b"-_", validate=True)
        except ValueError:
            raw = b""
        if prefix != PREFIX or not is_principal(principal) or len(raw) != _SECRET_BYTES:
            raise ConfigError(
                f"the token is none: it must be {PREFIX}:PRINCIPAL:SECRET, as `shoal token new` writes it"
            )
        return cls(principal, raw)

    @property
    def text(self) -> str:
        """The token as a file or the environment has it. Keep it from logs and command lines."""
        secret = base64.urlsafe_b64encode(self.secret).rstrip(b"=").decode()
        return f"{PREFIX}:{self.principal}:{secret}"

    @property
    def verifier(self) -> "Verifier":
        """What a store has to know of it."""
        return Verifier(hashlib.sha256(self._client_key).digest(), _hmac(self.secret, b"server"))

    @property
    def _client_key(self) -> bytes:
        return _hmac(self.secret, b"client")

    def proof(self, transcript: bytes) -> bytes:
        """Proves to a store that this token is here."""
        key = self._client_key
        mask = _hmac(hashlib.sha256(key).digest(), b"client" + transcript)
        return bytes(one ^ other for one, other in zip(key, mask, strict=True))

    def is_known_to(self, proof: object, transcript: bytes) -> bool:
        """Whether a store proved that it has this token's verifier."""
        return isinstance(proof, bytes) and hmac.compare_digest(proof, self.verifier.proof(transcript))


@dataclass(frozen=True)
class Verifier:
    """What a store knows of a token."""

    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)

    def proof(self, transcript: bytes) -> bytes:
        """Proves to a client that this store knows its token."""
        return _hmac(self.server_key, b"server" + transcript)

    def accepts(self, proof: object, transcript: bytes) -> bool:
        """Whether a client proved that it has the token."""
        if not isinstance(proof, bytes) or len(proof) != len(self.stored_key):
            return False
        mask = _hmac(self.stored_key, b"client" + transcript)
        key = bytes(one ^ other for one, other in zip(proof, mask, strict=True))
        return hmac.compare_digest(hashlib.sha256(key).digest(), self.stored_key)


@dataclass(frozen=True)
class Principal:
    """A line of a token file."""

    name: str
    role: str
    verifier: Verifier
    #: The domains in which it has its role; all of them, if there are none.
    domains: tuple[str, ...] = ()
    #: The last day (UTC) on which its token is valid; for ever, if there is none.
    expires: datetime.date | None = None

    @property
    def is_operator(self) -> bool:
        """Whether what belongs to others is its to change."""
        return self.role in ("operator", "admin")

    @property
    def may_forward(self) -> bool:
        """Whether it is a store that forwards messages, under the identities of their publishers."""
        return self.role in ("store", "operator", "admin")

    def is_expired(self, now: float) -> bool:
        """Whether its last day is over; `now` is the time of day, in seconds."""
        today = datetime.datetime.fromtimestamp(now, datetime.UTC).date()
        return self.expires is not None and today > self.expires

    def is_for(self, domain: str | None) -> bool:
        """Whether it has its role in a domain."""
        return not self.domains or domain is None or domain in self.domains

    @property
    def line(self) -> str:
        """The line as the file has it."""
        verifier = self.verifier
        line = f"{self.name} {self.role} {_HASH}:{verifier.stored_key.hex()}:{verifier.server_key.hex()}"
        if self.domains:
            line += f" domains={','.join(urllib.parse.quote(each, safe='') for each in self.domains)}"
        return line if self.expires is None else f"{line} expires={self.expires.isoformat()}"


def transcript_of(principal: str, session: str, store: str, run: str, mine: bytes, theirs: bytes) -> bytes:
    """What a proof is about: who speaks with which run of which store, and a fresh number of each side."""
    parts = [principal.encode(), session.encode(), store.encode(), run.encode(), mine, theirs]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class Principals:
    """Those of a token file, read again when the file changes. May be shared between threads."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        domain: str | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Read the file. With `domain`, principals that have no role there are unknown.

        Raises:
            ConfigError: the file cannot be read, others can read it, or a line of it is wrong.
        """
        self.path, self._domain, self._clock = Path(path), domain, clock
        self._known: dict[str, Principal] = {}
        self._read_of: tuple[int, int, int] | None = None
        #: Stands for a principal that there is none of, so that a stranger learns nothing from the answer.
        self._nobody = Principal("nobody", "client", Token("nobody", secrets.token_bytes(32)).verifier)
        self._refresh()

    def _refresh(self) -> None:
        try:
            status = self.path.stat()
        except OSError as error:
            raise ConfigError(f"tokens is {str(self.path)!r}, and cannot be read: {error.strerror}") from None
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._read_of:
            return
        if status.st_mode & 0o077:
            raise ConfigError(
                f"tokens is {str(self.path)!r}, which others than its owner can read: chmod 600 it"
            )
        self._known = {each.name: each for each in read_principals(self.path)}
        self._read_of = stamp

    def refresh(self) -> str | None:
        """Read the file again if it changed; what is wrong with it, in which case the former one counts."""
        try:
            self._refresh()
        except ConfigError as error:
            return str(error)
        return None

    def find(self, name: object) -> Principal | None:
        """The principal of a name; none if its token expired, or is for other domains."""
        found = self._known.get(name) if isinstance(name, str) else None
        if found is None or found.is_expired(self._clock()) or not found.is_for(self._domain):
            return None
        return found

    def find_or_nobody(self, name: object) -> tuple[Principal, bool]:
        """The same, or one that no token proves; and whether it is there."""
        found = self.find(name)
        return (self._nobody, False) if found is None else (found, True)

    def check(self, text: str) -> Principal | None:
        """The principal whose token a text is, in a time that does not depend on the text."""
        found = self.identify(text)
        return None if found is None else self.find(found.name)

    def identify(self, text: str) -> Principal | None:
        """The same, though its token expired or is for other domains."""
        try:
            token = Token.parse(text)
        except ConfigError:
            return None
        known = self._known.get(token.principal)
        found = known or self._nobody
        is_its = hmac.compare_digest(token.verifier.stored_key, found.verifier.stored_key)
        return known if is_its else None

    def __len__(self) -> int:
        return len(self._known)


def read_principals(path: Path) -> list[Principal]:
    """The lines of a token file. Empty lines and those that begin with `#` say nothing."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tokens is {str(path)!r}, and cannot be read: {error}") from None
    found: dict[str, Principal] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        principal = _principal(line, f"{path}, line {number}")
        if principal.name in found:
            raise ConfigError(f"{path}, line {number}: the principal {principal.name!r} is there twice")
        found[principal.name] = principal
    if len(found) > PRINCIPALS_MAX:
        raise ConfigError(f"{path} has {len(found)} principals; at most {PRINCIPALS_MAX} are allowed")
    return list(found.values())


def _principal(line: str, where: str) -> Principal:
    words = line.split()
    if len(words) < 3:
        raise ConfigError(f"{where}: a line is PRINCIPAL ROLE HASH, and this one has {len(words)} words")
    name, role, text, *limits = words
    if not is_principal(name):
        raise ConfigError(f"{where}: {name!r} is no principal: use letters, digits and '._@-'")
    if role not in ROLES:
        raise ConfigError(f"{where}: the role is {role!r}, and must be {' or '.join(ROLES)}")
    method, _, keys = text.partition(":")
    stored, _, server = keys.partition(":")
    try:
        verifier = Verifier(bytes.fromhex(stored), bytes.fromhex(server))
    except ValueError:
        verifier = Verifier(b"", b"")
    if method != _HASH or len(verifier.stored_key) != 32 or len(verifier.server_key) != 32:
        raise ConfigError(f"{where}: the hash is none that `shoal token new` writes")
    domains, expires = _limits(limits, where)
    return Principal(name, role, verifier, domains, expires)


def _limits(words: list[str], where: str) -> tuple[tuple[str, ...], datetime.date | None]:
    """Where and until when a token is valid, as the words after its hash say."""
    domains: tuple[str, ...] = ()
    expires: datetime.date | None = None
    for word in words:
        key, _, value = word.partition("=")
        if key == "domains" and value:
            domains = tuple(urllib.parse.unquote(each) for each in value.split(","))
        elif key == "expires":
            expires = day_of(value, where)
        else:
            raise ConfigError(f"{where}: {word!r} is neither domains=NAME,… nor expires=YYYY-MM-DD")
    return domains, expires


def day_of(text: str, where: str) -> datetime.date:
    """The day that a text names."""
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise ConfigError(f"{where}: {text!r} is no day such as 2027-01-31") from None


def write_principals(path: Path, principals: Iterable[Principal]) -> None:
    """Write a token file, readable by its owner alone, in one step."""
    unfinished = path.with_name(path.name + ".new")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("# principal role hash; `shoal token new` adds a line\n")
            file.writelines(f"{each.line}\n" for each in principals)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from None


def read_token(path: str | os.PathLike[str]) -> Token:
    """The token in a file of its own, which only its owner can read."""
    try:
        status, text = Path(path).stat(), Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"token_file is {os.fspath(path)!r}, and cannot be read: {error}") from None
    if status.st_mode & 0o077:
        raise ConfigError(
            f"token_file is {os.fspath(path)!r}, which others than its owner can read: chmod 600 it"
        )
    return Token.parse(text)


def token_of(
    token: str | None, token_file: str | os.PathLike[str] | None, environment: Mapping[str, str] = os.environ
) -> Token | None:
    """The token that a program was given: as a text, in a file, or by the environment."""
    if token is not None and token_file is not None:
        raise ConfigError("token and token_file are given: give one of them")
    if token is not None:
        return Token.parse(token)
    if token_file is not None:
        return read_token(token_file)
    if text := environment.get(ENVIRONMENT):
        return Token.parse(text)
    path = environment.get(ENVIRONMENT_FILE)
    return read_token(path) if path else None


class TokenSource:
    """The token that a program shows now, from a file that may be replaced. For one thread at a time."""

    def __init__(self, token_file: str | os.PathLike[str] | None = None) -> None:
        """Use a file, or what the environment names.

        Raises:
            ConfigError: the token cannot be read.
        """
        self._path = token_file or os.environ.get(ENVIRONMENT_FILE)
        if token_file is None and os.environ.get(ENVIRONMENT):
            self._path = None
        self._stamp = self._now()
        self._token = token_of(None, token_file)

    def current(self) -> Token | None:
        """The token; the one read before, if the file cannot be read now."""
        stamp = self._now()
        if self._path and stamp is not None and stamp != self._stamp:
            try:
                self._token = read_token(self._path)
            except ConfigError:
                # It may be half written: it is looked at again.
                return self._token
            self._stamp = stamp
        return self._token

    def _now(self) -> tuple[int, int, int] | None:
        if not self._path:
            return None
        try:
            status = Path(self._path).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")
