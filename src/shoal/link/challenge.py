"""How a daemon proves that it listens at an address: a registry connects there, and the daemon answers it.

The daemon gives each registry a secret when it registers. The registry connects to an address of the record
and says hello under a publisher that only the two can compute. The daemon refuses that guest, and the reason
that it gives is the proof. A listener that does not know the secret gives another answer, so a daemon cannot
have clients sent to an address of another program.

    publisher = HMAC(secret, "question" + node)     proof = HMAC(secret, "answer" + node)

The node id is drawn anew each time. Greetings are those of docs/design/tcp.md. No sockets here.
"""

import hmac
import secrets
import struct

from shoal import _core

#: A daemon's secret, in bytes.
SECRET_BYTES = 32
#: The longest answer to a hello that is read.
ANSWER_BYTES_MAX = 9 + 1024

_MAGIC = b"SHOAL/"
_HELLO, _REFUSAL = 1, 3
_HEAD = struct.Struct("!6sBH")
#: What a guest says that stays for no message: its interval of heartbeats, no session, the longest message.
_HEARTBEAT_MS, _NO_SESSION, _MESSAGE_BYTES_MAX = 1000, 0, 0
_SOFTWARE = "a registry"


def new_secret() -> bytes:
    """A daemon's secret for one registry."""
    return secrets.token_bytes(SECRET_BYTES)


def draw_node() -> int:
    """A node id for one question; 0 and the greatest have a meaning of their own."""
    return secrets.randbelow(0xFFFF_FFFE) + 1


def publisher_of(secret: bytes, node: int) -> int:
    """Whom the registry says that it is."""
    return int.from_bytes(_mac(secret, b"question", node)[:8], "big")


def proof_of(secret: bytes, node: int) -> str:
    """What the daemon answers."""
    return _mac(secret, b"answer", node).hex()


def hello(domain: str, publisher: int, node: int) -> bytes:
    """The greeting of a guest."""
    identity = struct.pack("!QIIQ", publisher, node, _HEARTBEAT_MS, _NO_SESSION)
    traits = struct.pack("!QB", _MESSAGE_BYTES_MAX, 0)
    content = _text(_SOFTWARE) + bytes([_HELLO]) + _text(domain) + identity + b"\0" + traits
    return _HEAD.pack(_MAGIC, _core.WIRE_VERSION, len(content)) + content


def reason_of(greeting: bytes) -> str | None:
    """Why a guest is refused, from the bytes that came so far; `None` if more have to come.

    Raises:
        ValueError: they are no refusal.
    """
    if not _MAGIC.startswith(greeting[: len(_MAGIC)]):
        raise ValueError("no node of Shoal answers there")
    if len(greeting) < _HEAD.size:
        return None
    _, version, length = _HEAD.unpack_from(greeting)
    content = greeting[_HEAD.size : _HEAD.size + length]
    if version != _core.WIRE_VERSION:
        raise ValueError(f"version {version} of the wire format answers there, not {_core.WIRE_VERSION}")
    if len(content) < length:
        return None
    try:
        at = 1 + content[0]
        if content[at] != _REFUSAL:
            raise ValueError("the node there does not know this daemon's secret")
        # A code, a publisher and a session come before the words.
        at += 1 + 1 + 8 + 8
        return content[at + 1 : at + 1 + content[at]].decode(errors="replace")
    except IndexError:
        raise ValueError("the answer there cannot be read") from None


def _text(text: str) -> bytes:
    raw = text.encode()[:255]
    return bytes([len(raw)]) + raw


def _mac(secret: bytes, what: bytes, node: int) -> bytes:
    return hmac.digest(secret, what + struct.pack("!I", node), "sha256")
