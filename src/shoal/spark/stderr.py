"""What Spark's processes write to standard error, without greetings and farewells.

Spark tells at each start how its log could be set. Its Python workers end with a traceback when the JVM
closes their sockets first. Both say nothing to who runs a pipeline, and hide what does.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

_BEGIN = b"Traceback (most recent call last):"
_BETWEEN = b"During handling of the above exception, another exception occurred:"
#: Spark's programs whose end is of no interest.
_WORKERS = (b"pyspark/daemon.py", b"pyspark/sql/streaming/", b"pyspark/worker")
_FAREWELLS = (b"BrokenPipeError", b"ConnectionResetError")
_GREETINGS = (
    b"WARNING: Using incubator modules",
    b"Using Spark's default log4j profile",
    b"Setting default log level to",
    b"To adjust logging level use",
)
#: A traceback that is longer is passed on as it comes.
_HELD_MAX = 200


class Phrases:
    """Takes lines one by one, and gives back those that are worth showing."""

    def __init__(self) -> None:
        #: A traceback, and those it was raised in the course of; and the last error of them, if known.
        self._held: list[bytes] = []
        self._error: bytes | None = None

    def take(self, line: bytes) -> list[bytes]:
        """The lines to show now."""
        begins = line.startswith(_BEGIN)
        is_another = begins and self._error is not None and not self._held[-1].isspace()
        shown = self.rest() if is_another else []
        if begins or self._belongs(line):
            self._error = None if begins else self._error
            self._held.append(line)
            return [*shown, *self._released()] if len(self._held) > _HELD_MAX else shown
        if self._held and self._error is None:
            self._held.append(line)
            self._error = line
            return shown
        return [*self.rest(), *([] if line.startswith(_GREETINGS) else [line])]

    def _belongs(self, line: bytes) -> bool:
        """Whether it goes on with the traceback that is held."""
        if self._error is None:
            return bool(self._held) and line.startswith(b" ")
        return line.isspace() or line.startswith(_BETWEEN)

    def rest(self) -> list[bytes]:
        """The lines that were held back, if they are worth showing after all."""
        is_of_worker = any(part in held for held in self._held for part in _WORKERS)
        is_farewell = self._error is not None and self._error.startswith(_FAREWELLS)
        shown = self._released()
        return [] if is_of_worker and is_farewell else shown

    def _released(self) -> list[bytes]:
        held, self._held, self._error = self._held, [], None
        return held


@contextlib.contextmanager
def filtered() -> Iterator[None]:
    """Have processes that are started in the block write to standard error without phrases."""
    shown = os.dup(2)
    read_end, write_end = os.pipe()
    threading.Thread(target=_copy, args=(read_end, shown), name="shoal-spark-stderr", daemon=True).start()
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        yield
    finally:
        os.dup2(shown, 2)


def _copy(read_end: int, shown: int) -> None:
    phrases = Phrases()
    with os.fdopen(read_end, "rb") as lines, os.fdopen(shown, "wb", buffering=0) as to:
        for line in lines:
            for each in phrases.take(line):
                to.write(each)
        for each in phrases.rest():
            to.write(each)
