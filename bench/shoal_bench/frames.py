"""Frames between a coordinator and an agent: sealed with HMAC-SHA256, each accepted once.

Each side draws a nonce when it begins a session. A frame names both nonces and a number that grows, and the
seal covers these, the direction, the agent's name and the body. So a frame of another session, another agent,
the other direction or an earlier time is refused. Nothing of a frame is read before its seal is right.

A session begins so: the agent announces its nonce, in a frame to no nonce. The coordinator answers to that
nonce. The agent's next frame is to the coordinator's nonce: only now the coordinator knows that the
announcement was no replay.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

#: Longer frames are refused unread.
FRAME_BYTES_MAX = 1 << 20
SECRET_BYTES_MIN = 16


class FrameRefusedError(ValueError):
    """A frame that is not from the other side, or not for this moment."""


def new_nonce() -> str:
    """128 random bits."""
    return secrets.token_hex(16)


class Channel:
    """One side of a session. `peer` is the other side's nonce, once it is known.

    Args:
        secret: what both sides share.
        agent: the agent's name.
        is_agent: which side this is.
    """

    def __init__(self, secret: bytes, agent: str, *, is_agent: bool) -> None:
        if len(secret) < SECRET_BYTES_MIN:
            raise ValueError(f"a secret has at least {SECRET_BYTES_MIN} bytes, not {len(secret)}")
        self._secret, self._agent, self._is_agent = secret, agent, is_agent
        self.nonce = new_nonce()
        self.peer = ""
        self._sent = self._received = 0

    def seal(self, body: Mapping[str, Any], to: str | None = None) -> bytes:
        """The next frame to the other side; `to` is the nonce of an announcement that it answers."""
        self._sent += 1
        text = json.dumps(body)
        nonce = self.peer if to is None else to
        fields = {"from": self.nonce, "to": nonce, "number": self._sent, "body": text}
        return json.dumps({**fields, "mac": self._mac(fields, to_agent=not self._is_agent)}).encode()

    def open(self, frame: object) -> dict[str, Any]:
        """The body of the other side's next frame.

        Raises:
            FrameRefusedError: it is not; nothing changes.
        """
        fields = self._sealed(frame)
        if fields["to"] != self.nonce or (self.peer and fields["from"] != self.peer):
            raise FrameRefusedError("it is of another session")
        if fields["number"] <= self._received:
            raise FrameRefusedError("it came before")
        body = _body(fields)
        self.peer, self._received = fields["from"], fields["number"]
        return body

    def announced(self, frame: object) -> str | None:
        """The nonce of an announcement; none if the frame is something else."""
        fields = self._sealed(frame)
        return None if fields["to"] or self._is_agent else str(fields["from"])

    def _sealed(self, frame: object) -> dict[str, Any]:
        fields = _parsed(frame)
        mac = fields.pop("mac")
        if not hmac.compare_digest(mac, self._mac(fields, to_agent=self._is_agent)):
            raise FrameRefusedError("its seal is wrong")
        return fields

    def _mac(self, fields: Mapping[str, Any], *, to_agent: bool) -> str:
        words = ["to agent" if to_agent else "to coordinator", self._agent, fields["from"], fields["to"]]
        # Each part with its length, so that no two frames have the same text.
        text = "".join(f"{len(word)}:{word}" for word in [*words, str(fields["number"]), fields["body"]])
        return hmac.new(self._secret, text.encode(), hashlib.sha256).hexdigest()


def _body(fields: Mapping[str, Any]) -> dict[str, Any]:
    try:
        body = json.loads(fields["body"])
    except (ValueError, RecursionError):
        raise FrameRefusedError("its body is no JSON") from None
    if not isinstance(body, dict):
        raise FrameRefusedError("its body is no mapping")
    return body


_KINDS = {"from": str, "to": str, "number": int, "body": str, "mac": str}


def _parsed(frame: object) -> dict[str, Any]:
    if not isinstance(frame, bytes) or len(frame) > FRAME_BYTES_MAX:
        raise FrameRefusedError("it is no frame")
    try:
        fields = json.loads(frame)
    except (ValueError, RecursionError):
        raise FrameRefusedError("it is no frame") from None
    if not isinstance(fields, dict) or set(fields) != set(_KINDS):
        raise FrameRefusedError("it is no frame")
    if any(type(fields[name]) is not kind for name, kind in _KINDS.items()):
        raise FrameRefusedError("it is no frame")
    # JSON can carry halves of characters, which no seal covers. What `seal` writes is ASCII.
    if not all(fields[name].isascii() for name in ("from", "to", "body", "mac")):
        raise FrameRefusedError("it is no frame")
    return fields
