"""The bodies that contestants move, and the check that each arrives once, whole and in its place.

A body begins with its number. A few thousand are made before the clock runs and sent over and over, so that
the rate is that of the contestant and not that of making bytes; the count tells one lap from the next.
"""

import time
from collections.abc import Iterator
from itertools import chain, cycle, islice

NUMBER_BYTES = 8
SIZE_MIN = NUMBER_BYTES
#: A lap stays in the processor's cache, as long as it has enough bodies to tell neighbours apart.
LAP_BYTES = 512 * 1024
LAP_MIN, LAP_MAX = 16, 4096
#: Longer bodies are compared by their length and both ends: comparing all of it would be most of the work.
COMPARE_BYTES_MAX = 4096
END_BYTES = 16


class Outline:
    """Stands for a long body: equal to bytes of the same length with the same beginning and end."""

    __slots__ = ("_head", "_length", "_tail")

    def __init__(self, body: bytes) -> None:
        self._length, self._head, self._tail = len(body), body[:END_BYTES], body[-END_BYTES:]

    def __eq__(self, body: object) -> bool:
        return (
            isinstance(body, bytes)
            and len(body) == self._length
            and body[:END_BYTES] == self._head
            and body[-END_BYTES:] == self._tail
        )

    # Equal without being the same, so it must not be a key; mypy knows only methods here.
    __hash__ = None  # type: ignore[assignment]


class Bodies:
    """Numbered bodies of one size."""

    def __init__(self, size: int) -> None:
        if size < SIZE_MIN:
            raise ValueError(f"size must be at least {SIZE_MIN}, for a number in each body, not {size}")
        lap = min(LAP_MAX, max(LAP_MIN, LAP_BYTES // size))
        self._lap = [_body(number, size) for number in range(lap)]
        self._outlines = [Outline(body) for body in self._lap] if size > COMPARE_BYTES_MAX else self._lap

    def __getitem__(self, number: int) -> bytes:
        return self._lap[number % len(self._lap)]

    def sent(self, count: int) -> Iterator[bytes]:
        """The first `count` bodies."""
        return islice(cycle(self._lap), count)

    def expected(self, count: int) -> Iterator[bytes | Outline]:
        """What the first `count` bodies must be equal to."""
        return islice(cycle(self._outlines), count)


def _body(number: int, size: int) -> bytes:
    """Its number, and filler whose end differs between neighbours as well."""
    filler = bytes((number + place) % 251 for place in range(min(size, 251)))
    filling = filler * (size // len(filler) + 1)
    return number.to_bytes(NUMBER_BYTES, "big") + filling[: size - NUMBER_BYTES]


class Reception:
    """What a subscriber must receive, when it did, and what was wrong.

    A subscriber compares each body with the next of `expected`. The first and the last are never equal to
    what is expected: for those, and for a body that is wrong, it asks `is_over`. So the clock is read twice,
    and the loop stays as short as a user's.
    """

    def __init__(self, bodies: Bodies, count: int) -> None:
        if count < 2:
            raise ValueError(f"count must be at least 2, to have a first and a last, not {count}")
        self._ends = [bodies[count - 1], bodies[0]]
        self.expected: Iterator[bytes | Outline | None] = chain(
            (None,), islice(bodies.expected(count - 1), 1, None), (None,)
        )
        self.began_s = 0.0
        self.ended_s = 0.0
        self.fault: str | None = None

    def is_over(self, body: bytes, expected: object) -> bool:
        """Take a body that is not what was expected; true after the last, and after a wrong one."""
        now_s = time.perf_counter()
        if expected is not None:
            self.fault = f"{_named(body)} came out of its place: messages were lost, repeated or changed"
        elif body != self._ends.pop():
            self.fault = f"{_named(body)} came as the {'first' if self._ends else 'last'}"
        elif self._ends:
            self.began_s = now_s
            return False
        self.ended_s = now_s
        return True


def _named(body: bytes) -> str:
    return f"a body of {len(body)} bytes with the number {int.from_bytes(body[:NUMBER_BYTES], 'big')}"
