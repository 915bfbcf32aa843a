"""Message records and rows in plain Python, from the documented bytes alone.

The oracle for what the extension makes and reads, and what simulated clients of a store speak.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_RUN = struct.Struct("<QII")
_BYTES_BODY = 1
_PERSISTENT, _FIELDS = 1, 16


class Row(NamedTuple):
    """One message of a batch."""

    offset: int
    publisher: int
    chain: int
    number: int | None
    timestamp_us: int
    record: bytes


def varint(number: int) -> bytes:
    """Seven bits per byte, lowest first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next thing is."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return number, at


def _signed(number: int) -> int:
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


def _zigzag(number: int) -> int:
    number = _signed(number)
    return number << 1 if number >= 0 else (-number << 1) - 1


def _unzigzag(number: int) -> int:
    return number >> 1 if not number & 1 else -((number + 1) >> 1)


def record(
    topic: str,
    body: bytes,
    *,
    priority: int = 4,
    ttl_us: int | None = None,
    delay_us: int | None = None,
    group: str | None = None,
    persistent: bool = True,
) -> bytes:
    """A message whose body is bytes."""
    present, numbers = 0, b""
    for field, value in ((1, ttl_us), (2, delay_us)):
        if value is not None:
            present |= 1 << field
            numbers += varint(value)
    texts = b""
    if group is not None:
        present |= 1 << 13
        texts = varint(len(group.encode())) + group.encode()
    flags, fields = _PERSISTENT if persistent else 0, b""
    if present:
        flags |= _FIELDS
        content = present.to_bytes(2) + numbers + texts
        fields = len(content).to_bytes(2) + content
    name = topic.encode()
    return bytes([0x61, priority << 4 | _BYTES_BODY, flags, len(name)]) + name + fields + body


def topic_of(record_: bytes) -> str:
    """Where a message goes."""
    return record_[4 : 4 + record_[3]].decode()


def body_of(record_: bytes) -> bytes:
    """The body of a message."""
    at = 4 + record_[3]
    for flag in (16, 32):
        if record_[2] & flag:
            at += 2 + int.from_bytes(record_[at : at + 2])
    return record_[at:]


def encode(publisher: int, chain: int, messages: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Rows of one chain: number, timestamp and record of each."""
    messages = list(messages)
    if not messages:
        return struct.pack("<I", 0)
    out = bytearray(struct.pack("<I", len(messages)) + _RUN.pack(publisher, chain, len(messages)))
    expected = before_us = 0
    for number, timestamp_us, content in messages:
        out += varint(0) + varint(_zigzag(number - expected) + 1)
        out += varint(_zigzag(timestamp_us - before_us)) + varint(len(content)) + content
        expected, before_us = number + 1, timestamp_us
    return bytes(out)


def decode(rows: bytes, first: int) -> Iterator[Row]:
    """The messages of a batch; `first` is the offset of the first."""
    count, at, offset = struct.unpack_from("<I", rows)[0], 4, first
    left = publisher = chain = expected = timestamp_us = 0
    for _ in range(count):
        if not left:
            publisher, chain, left = _RUN.unpack_from(rows, at)
            at, expected, timestamp_us = at + _RUN.size, 0, 0
        skipped, at = read_varint(rows, at)
        code, at = read_varint(rows, at)
        number = None
        if code:
            number = expected + _unzigzag(code - 1)
            expected = number + 1
        change, at = read_varint(rows, at)
        timestamp_us += _unzigzag(change)
        length, at = read_varint(rows, at)
        offset += skipped
        yield Row(offset, publisher, chain, number, timestamp_us, rows[at : at + length])
        at, offset, left = at + length, offset + 1, left - 1
