"""STOMP 1.2 frames: bytes in, frames out, and back. No sockets, no clock.

A frame is a command line, header lines `name:value`, an empty line, a body and a NUL. Lines end with LF or
CR LF. A frame with `content-length` may have any bytes in its body; one without ends at the first NUL. End of
line between frames is a heart-beat. If a header occurs twice, the first one counts.
"""

from collections.abc import Iterable
from typing import NamedTuple

#: Bytes of a frame's command and headers together, and headers of one frame.
HEADER_BYTES_MAX = 8192
HEADERS_MAX = 64

#: Frames whose headers have no escapes, so that STOMP 1.0 can read them.
_PLAIN = frozenset({"CONNECT", "CONNECTED"})
_UNESCAPED = {"\\r": "\r", "\\n": "\n", "\\c": ":", "\\\\": "\\"}
#: A header cannot have a NUL.
_ESCAPED = str.maketrans({"\\": "\\\\", "\r": "\\r", "\n": "\\n", ":": "\\c", "\0": "\ufffd"})
#: Frames that may have a body.
_WITH_BODY = frozenset({"SEND", "MESSAGE", "ERROR"})


class FrameError(Exception):
    """Bytes that are no frame, or exceed a bound. The text says what is wrong and what would do."""


class Frame(NamedTuple):
    """One frame."""

    command: str
    headers: dict[str, str]
    body: bytes = b""


class FrameReader:
    """Takes a stream apart. For one thread at a time; useless once it has raised.

    Args:
        body_bytes_max: the longest body.
    """

    def __init__(self, body_bytes_max: int) -> None:
        self.body_bytes_max = body_bytes_max
        self._bytes = bytearray()
        #: A frame whose body has not come yet, the length of the body if it is known, and how far a NUL was
        #: looked for.
        self._begun: tuple[str, dict[str, str]] | None = None
        self._length: int | None = None
        self._seen = 0

    @property
    def buffered(self) -> int:
        """Bytes that wait for the rest of their frame, or to be taken."""
        return len(self._bytes)

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self._bytes += data

    def poll_frame(self) -> Frame | None:
        """The next frame, if all of it is here.

        Raises:
            FrameError: this is none.
        """
        if self._begun is None and not self._begin():
            return None
        assert self._begun is not None
        body = self._body()
        if body is None:
            return None
        command, headers = self._begun
        self._begun, self._length, self._seen = None, None, 0
        return Frame(command, headers, body)

    def _begin(self) -> bool:
        """Read a frame's command and headers; false if they are not all here."""
        stream = self._bytes
        start = 0
        while start < len(stream) and stream[start] in b"\r\n":
            start += 1
        if start:
            del stream[:start]
        end, after = _head_end(stream)
        if end < 0:
            if len(stream) > HEADER_BYTES_MAX:
                raise FrameError(f"The headers are longer than {HEADER_BYTES_MAX} bytes.")
            if 0 in stream:
                raise FrameError("The frame ends within its headers: an empty line must follow them.")
            return False
        if end > HEADER_BYTES_MAX:
            raise FrameError(f"The headers have {end} bytes; at most {HEADER_BYTES_MAX} are allowed.")
        command, headers = _head(bytes(stream[:end]))
        self._length = self._length_of(command, headers)
        self._begun = command, headers
        del stream[:after]
        return True

    def _length_of(self, command: str, headers: dict[str, str]) -> int | None:
        text = headers.get("content-length")
        if text is None:
            return None
        if not text.isascii() or not text.isdecimal() or len(text) > 15:
            raise FrameError(f"content-length is {text!r:.50}, and must be a number of bytes.")
        length = int(text)
        self._check_length(command, length)
        return length

    def _check_length(self, command: str, length: int) -> None:
        if length > self.body_bytes_max:
            raise FrameError(f"The body is longer than {self.body_bytes_max} bytes, which is the bound here.")
        if length and command not in _WITH_BODY:
            raise FrameError(f"{command} has a body; only SEND may have one.")

    def _body(self) -> bytes | None:
        assert self._begun is not None
        stream, length = self._bytes, self._length
        if length is None:
            length = stream.find(0, self._seen)
            if length < 0:
                self._seen = len(stream)
                self._check_length(self._begun[0], len(stream))
                return None
            self._check_length(self._begun[0], length)
        elif len(stream) <= length:
            return None
        elif stream[length]:
            raise FrameError(
                f"The body goes on after its content-length of {length} bytes; a NUL must follow."
            )
        body = bytes(stream[:length])
        del stream[: length + 1]
        return body


def _head_end(stream: bytearray) -> tuple[int, int]:
    """Where the headers end, and where the body begins; -1 if that has not come."""
    # Not further than headers may reach: many frames may be here.
    plain = stream.find(b"\n\n", 0, HEADER_BYTES_MAX + 3)
    other = stream.find(b"\n\r\n", 0, plain if plain >= 0 else HEADER_BYTES_MAX + 3)
    return (other, other + 3) if other >= 0 else (plain, plain + 2)


def _head(head: bytes) -> tuple[str, dict[str, str]]:
    """The command and the headers."""
    if 0 in head:
        raise FrameError("The frame ends within its headers: an empty line must follow them.")
    try:
        command, *lines = [line.removesuffix("\r") for line in head.decode().split("\n")]
    except UnicodeDecodeError:
        raise FrameError("The headers are no UTF-8.") from None
    if len(lines) > HEADERS_MAX:
        raise FrameError(f"There are {len(lines)} headers; at most {HEADERS_MAX} are allowed.")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name:
            raise FrameError(f"{line!r:.100} is no header: it must be name:value.")
        if "\\" in line and command not in _PLAIN:
            name, value = _unescape(name), _unescape(value)
        headers.setdefault(name, value)
    return command, headers


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    at = 0
    while (found := text.find("\\", at)) >= 0:
        sequence = text[found : found + 2]
        if sequence not in _UNESCAPED:
            raise FrameError(f"{sequence!r} is no escape: use \\r, \\n, \\c or \\\\.")
        parts += (text[at:found], _UNESCAPED[sequence])
        at = found + 2
    return "".join([*parts, text[at:]])


def escape(text: str) -> str:
    """A header's name or value as a frame has it."""
    return text.translate(_ESCAPED)


def encode(command: str, headers: Iterable[tuple[str, object]] = (), body: bytes = b"") -> bytes:
    """A frame as bytes. One with a body gets a `content-length`."""
    lines = [command]
    if command in _PLAIN:
        lines += [f"{name}:{value}" for name, value in headers]
    else:
        lines += [f"{escape(name)}:{escape(str(value))}" for name, value in headers]
    if body:
        lines.append(f"content-length:{len(body)}")
    return "\n".join([*lines, "", ""]).encode() + body + b"\0"
