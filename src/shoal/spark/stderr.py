"""What Spark's processes write to standard error, without greetings and farewells.

Spark tells at each start how its log could be set. Its Python workers end with a traceback when the JVM
closes their sockets first. Both say nothing to who runs a pipeline, and hide what does.
"""

import contextlib
import os
import threading
from collections.abc import Iterator

_BEGIN = b"Traceback (most recent call last):"
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
        self._held: list[bytes] = []

    def take(self, line: bytes) -> list[bytes]:
        """The lines to show now."""
        if line.startswith(_BEGIN) or (self._held and line.startswith(b" ")):
            self._held.append(line)
            return self.rest() if len(self._held) > _HELD_MAX else []
        is_of_worker = any(b"pyspark/daemon.py" in held for held in self._held)
        if is_of_worker and line.startswith(_FAREWELLS):
            self._held = []
            return []
        return [*self.rest(), *([] if line.startswith(_GREETINGS) else [line])]

    def rest(self) -> list[bytes]:
        """The lines that were held back, to be shown after all."""
        held, self._held = self._held, []
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
