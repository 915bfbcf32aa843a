"""What the history server needs of a store. `shoal.store` has the real one; tests bring a smaller one."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from shoal.history.schema import ArrayParts
from shoal.selector import Selector

Topics = Sequence[str]


class Scan(Protocol):
    """Rows of a range on their way into columns."""

    def next(self, rows_max: int, bytes_max: int, large: bool = False) -> tuple[int, list[ArrayParts]] | None:
        """Rows and columns of the next batch; none at the end. Runs without the GIL.

        A row that alone is longer comes only if `large` says so; otherwise there are 0 rows.
        """


class Log(Protocol):
    """Questions and orders. A range ends before its second offset; no patterns means every topic."""

    @property
    def incarnation(self) -> str:
        """Which life of the store this is; offsets of another mean nothing here."""

    @property
    def floor(self) -> int:
        """The first offset that is kept."""

    @property
    def durable_end(self) -> int:
        """The offset after the last one that may be shown."""

    def wait_for(self, offset: int, timeout_s: float) -> int:
        """Return when something behind an offset may be shown, or time is over."""

    def extent(
        self, start: int, end: int, patterns: Topics, selector: Any, rows_max: int, bytes_max: int
    ) -> tuple[int, int, int]:
        """Return the offset after the last matching row within the limits, rows and bytes."""

    def split(self, start: int, end: int, patterns: Topics, parts: int) -> list[tuple[int, int]]:
        """Cut a range into parts of about as many rows."""

    def offset_at(self, time_us: int, by: str = "stored") -> int:
        """Return the first offset stored, or published, at or after a time."""

    def topics(self, start: int, end: int, patterns: Topics) -> list[tuple[str, int, int, int]]:
        """Return topics with their number of messages, first and last offset."""

    def gaps(self, start: int, end: int) -> list[tuple[Any, ...]]:
        """Return what could not be recorded, as `schema.GAP_COLUMNS` says."""

    def stage(self, id: str, rows: Any) -> None:
        """Append rows to a staging."""

    def discard(self, ids: Sequence[str]) -> int:
        """Forget stagings; returns how many there were."""

    def forget(self, scope: str) -> bool:
        """Remember nothing of a scope any more; returns whether there was anything."""

    def stagings(self) -> list[tuple[str, int, int, int]]:
        """Return stagings with rows, bytes, and when the last rows came."""


class Store(Protocol):
    """A store that serves its history."""

    @property
    def log(self) -> Log:
        """What it keeps."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def domain(self) -> str:
        """Where it records."""

    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> tuple[int, int, bool]:
        """Make stagings visible and durable; returns first offset, the one after the last, and repeated."""

    def expect(self, staging: str, sizes: Mapping[str, tuple[int, int]], *, more: bool = True) -> None:
        """Refuse destinations of rows to be staged, or note them: messages and bytes of each."""

    def lost_before(self, patterns: list[str]) -> int:
        """Return the offset after the last message that retention removed and that matches."""

    def hold(self, name: str, offset: int) -> None:
        """Keep everything from an offset on."""

    def release(self, name: str) -> bool:
        """Keep it no longer; returns whether there was such a hold."""

    def holds(self) -> dict[str, int]:
        """Return holds with their offsets."""

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask what clients of its queues ask; returns the answer."""

    def status(self) -> dict[str, Any]:
        """Return what the store says of itself, as JSON can hold it."""


def core_selector(text: str | None) -> Any:
    """Return the selector as the log takes it."""
    return None if text is None else Selector(text).core
