"""What was committed and members may lack: what is to be published next, what every member has."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from shoal._core import Log

#: Rows that are published and may be missing somewhere: a crash lets so many be published twice.
ROWS_MAX = 10_000
#: Rows that are published before members are asked once more, while the answers to another question are out.
RUN_ROWS = ROWS_MAX // 4


class Piece(NamedTuple):
    """Rows to publish: from an offset on, below another one, so many at the most."""

    first: int
    end: int
    rows: int


class _Asked(NamedTuple):
    """Members are asked, by a flush, if they have all below an offset: so many rows more than before."""

    end: int
    rows: int
    flush: int


class Committed:
    """Which committed rows are out, and which of them every member has.

    A row is noted as published only when every member has acknowledged it: a store that is killed before
    publishes it again, marked, and whoever has it drops it.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        #: Below, rows may have been published before a crash.
        self.redelivered_before = _end_of(ROWS_MAX, log.unpublished())
        #: Up to here rows were published in this life.
        self._at = 0
        #: Rows that are out and may be missing somewhere, and how many of them nobody was asked about.
        self._out_rows = 0
        self._unasked_rows = 0
        self._asked: deque[_Asked] = deque()

    def pieces(self) -> Iterator[Piece]:
        """What to publish, one piece after the other; `published` says how far each of them came."""
        for first, end in self._log.unpublished():
            while (at := max(first, self._at)) < end and (room := ROWS_MAX - self._out_rows) > 0:
                yield Piece(at, end, min(room, RUN_ROWS))

    def published(self, piece: Piece, reached: int) -> None:
        """The rows of a piece below an offset are out."""
        if reached > piece.first:
            self._at = reached
            self._out_rows += reached - piece.first
            self._unasked_rows += reached - piece.first

    @property
    def is_asking_due(self) -> bool:
        """Whether members are to be asked if they have what is out: one question does for many commits."""
        return self._unasked_rows > 0 and (not self._asked or self._unasked_rows >= RUN_ROWS)

    def asked(self, flush: int) -> None:
        """Members are asked, with this number."""
        self._asked.append(_Asked(self._at, self._unasked_rows, flush))
        self._unasked_rows = 0

    @property
    def awaited(self) -> list[int]:
        """The numbers of the questions that are not answered, the oldest first."""
        return [asked.flush for asked in self._asked]

    def arrived(self) -> None:
        """Every member has what it was asked for first: make that durable."""
        asked = self._asked.popleft()
        self._out_rows -= asked.rows
        self._log.set_published(asked.end)
        self._log.sync()

    @property
    def is_out(self) -> bool:
        """Whether something is published that a member may lack."""
        return self._out_rows > 0


def _end_of(rows: int, runs: list[tuple[int, int]]) -> int:
    """The offset behind so many rows of these runs, or behind the last one."""
    end = 0
    for first, end in runs:
        if end - first >= rows:
            return first + rows
        rows -= end - first
    return end
