"""Orders to a host: signed, fresh, and done once. Sees no network and no clock.

Membership of a domain is not identity: any member can publish. So an order to start or stop a daemon carries
an HMAC-SHA256 of all its fields with the host's key, a random nonce, and the time. A host refuses an order
whose code is wrong, whose time differs from its own by more than `WINDOW_S`, or whose nonce it has seen
within that time. Its answer carries a code about the same nonce.

    host file:  shoal-host-1:NAME:SECRET    (one line, for its owner alone, also at the console)
"""

import base64
import hmac
import json
import os
import re
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

PREFIX = "shoal-host-1"
#: What a host does.
ORDERS = ("list", "start", "stop", "reload", "check", "log")
#: How far the clocks of console and host may be apart.
WINDOW_S = 60.0
#: Nonces that are remembered; a host that gets more orders in a window refuses the rest.
NONCES_MAX = 10_000

_SECRET_BYTES = 32
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FIELDS = ("host", "order", "daemon", "who", "at", "nonce")


class OrderRefusedError(Exception):
    """An order that a host does not obey; the text says why."""


@dataclass(frozen=True)
class HostKey:
    """The key of one host."""

    host: str
    secret: bytes = field(repr=False)

    @classmethod
    def new(cls, host: str) -> "HostKey":
        """A new key."""
        if not _HOST.fullmatch(host):
            raise ConfigError(
                f"the host is {host!r}, and must be letters, digits, '.', '_' and '-', up to 63"
            )
        return cls(host, secrets.token_bytes(_SECRET_BYTES))

    @classmethod
    def read(cls, path: Path) -> "HostKey":
        """The key in a file that only its owner can read."""
        try:
            mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the host key {str(path)!r} cannot be read: {error}") from None
        if mode & 0o077:
            raise ConfigError(
                f"the host key {str(path)!r} can be read by others than its owner: chmod 600 it"
            )
        prefix, _, rest = text.strip().partition(":")
        host, _, secret = rest.partition(":")
        try:
            raw = base64.b64decode(secret + "=", altchars=b"-_", validate=True)
        except ValueError:
            raw = b""
        if prefix != PREFIX or not _HOST.fullmatch(host) or len(raw) != _SECRET_BYTES:
            raise ConfigError(f"{str(path)!r} has no host key: `shoal host init` writes one")
        return cls(host, raw)

    def write(self, path: Path) -> None:
        """Write the key into a new file."""
        text = base64.urlsafe_b64encode(self.secret).rstrip(b"=").decode()
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(f"{str(path)!r} exists, and is not overwritten: move it away first") from None
        except OSError as error:
            raise ConfigError(f"{str(path)!r} cannot be written: {error.strerror}") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(f"{PREFIX}:{self.host}:{text}\n")

    def code(self, about: str, fields: Mapping[str, Any]) -> bytes:
        """The code of an order or an answer."""
        told = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        return hmac.digest(self.secret, f"{about}\n{told}".encode(), "sha256")

    @property
    def topic(self) -> str:
        """Where the host takes orders."""
        return f"_shoal/hosts/{self.host}"


def order(
    key: HostKey, what: str, daemon: str, who: str, wall_s: float, nonce: str | None = None
) -> dict[str, Any]:
    """A signed order."""
    fields = {
        "host": key.host,
        "order": what,
        "daemon": daemon,
        "who": who,
        "at": round(wall_s, 3),
        "nonce": nonce or secrets.token_hex(16),
    }
    return {**fields, "code": key.code("order", fields)}


def answer(key: HostKey, nonce: str, told: Mapping[str, Any]) -> dict[str, Any]:
    """A signed answer to the order with a nonce."""
    text = json.dumps(told)
    return {"told": text, "code": key.code("answer", {"nonce": nonce, "told": text})}


def told_by(key: HostKey, nonce: str, body: object) -> dict[str, Any] | None:
    """What a host answered; none if the answer is not its own."""
    if not isinstance(body, Mapping) or not isinstance(body.get("told"), str):
        return None
    code = body.get("code")
    wanted = key.code("answer", {"nonce": nonce, "told": body["told"]})
    if not isinstance(code, bytes) or not hmac.compare_digest(code, wanted):
        return None
    found = json.loads(body["told"])
    return found if isinstance(found, dict) else None


@dataclass(frozen=True, slots=True)
class Order:
    """An order that is a host's to obey."""

    order: str
    daemon: str
    who: str
    nonce: str


class Orders:
    """The orders of one host. For one thread at a time."""

    def __init__(self, key: HostKey) -> None:
        self._key = key
        self._seen: OrderedDict[str, float] = OrderedDict()

    def check(self, wall_s: float, body: object) -> Order:
        """The order in a message.

        Raises:
            OrderRefusedError: it is none of this host's operators, or it was done already.
        """
        if not isinstance(body, Mapping) or any(name not in body for name in (*_FIELDS, "code")):
            raise OrderRefusedError("it is no order")
        fields = {name: body[name] for name in _FIELDS}
        texts = [fields[name] for name in _FIELDS if name != "at"]
        at, code = fields["at"], body["code"]
        if not all(isinstance(each, str) and len(each) <= 255 for each in texts) or not isinstance(
            at, int | float
        ):
            raise OrderRefusedError("it is no order")
        if not isinstance(code, bytes) or not hmac.compare_digest(code, self._key.code("order", fields)):
            raise OrderRefusedError("its code is wrong: it was made with another key")
        # Only what is proved is looked at further, and remembered.
        if fields["host"] != self._key.host or fields["order"] not in ORDERS:
            raise OrderRefusedError(f"it is an order to {fields['host']!r} to {fields['order']!r}")
        if not abs(wall_s - at) <= WINDOW_S:
            raise OrderRefusedError(f"its time differs from the clock here by {wall_s - at:.0f} s")
        self._forget(wall_s)
        if fields["nonce"] in self._seen:
            raise OrderRefusedError("it was given before, and is repeated")
        if len(self._seen) >= NONCES_MAX:
            raise OrderRefusedError("too many orders were given within two minutes")
        self._seen[fields["nonce"]] = wall_s
        return Order(fields["order"], fields["daemon"], fields["who"], fields["nonce"])

    def _forget(self, wall_s: float) -> None:
        """Forget nonces whose orders are too old to be obeyed again."""
        while self._seen:
            nonce, at = next(iter(self._seen.items()))
            if wall_s - at <= 2 * WINDOW_S:
                return
            del self._seen[nonce]
