"""Shoal's frames in plain Python, so that libnorm's streams can carry them."""

import random


def frame(body: bytes) -> bytes:
    """One frame: the length as a base-128 number, then the body."""
    length, header = len(body), bytearray()
    while length >= 0x80:
        header.append(length & 0x7F | 0x80)
        length >>= 7
    header.append(length)
    return bytes(header) + body


class FrameSplitter:
    """Finds whole frames in a stream that comes in pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        self._rest += piece
        bodies = []
        while (found := self._first()) is not None:
            body, self._rest = found
            bodies.append(body)
        return bodies

    def _first(self) -> tuple[bytes, bytes] | None:
        length = 0
        for at, byte in enumerate(self._rest):
            length |= (byte & 0x7F) << (7 * at)
            if byte < 0x80:
                end = at + 1 + length
                return (self._rest[at + 1 : end], self._rest[end:]) if end <= len(self._rest) else None
        return None


def random_bodies(seed: int, count: int) -> list[bytes]:
    """Messages of sizes that hit one segment, many per segment, and many segments."""
    print(f"seed {seed}")
    source = random.Random(seed)
    return [source.randbytes(source.choice((0, 1, 64, 300, 1400, 5000))) for _ in range(count)]
