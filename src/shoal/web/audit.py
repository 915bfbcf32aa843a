"""The audit log of a console or a registry: lines of JSON in a hash chain.

An act of a console has a line before it is done (`begun`) and one after, which names the first (`of`) and
says what came of it. A refused act has one line.

Each line has the hash of the line before it and its own: SHA-256 of all its other fields as JSON with sorted
keys. A line that was changed, removed or inserted breaks the chain at that place. That the last lines were
cut off shows only by comparing the number and the hash of the last line with a note kept elsewhere: `shoal
console audit verify` prints both. A file that is full is renamed to FILE.1, over the one before it, and the
chain goes on in a new one.
"""

import errno
import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

#: What the first line follows.
BEGINNING = "0" * 64
#: Lines that are shown, and the longest line.
SHOWN_MAX, LINE_MAX = 1000, 8192
#: The size at which a file is full.
FILE_BYTES_MAX = 32 << 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check of the chain found."""

    lines: int
    last_hash: str
    #: The first line that is wrong, counted from 1, and why; 0 if the chain is whole.
    wrong_line: int = 0
    why: str = ""


class Audit:
    """An audit log that is open for more. May be shared between threads.

    Raises:
        ConfigError: the file cannot be opened, or its last line cannot be read.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Callable[[], float],
        *,
        bytes_max: int = FILE_BYTES_MAX,
        syncs: bool = True,
    ) -> None:
        """Open a log.

        Args:
            path: the file; without one the newest lines are kept in memory.
            clock: the time of day, in seconds.
            bytes_max: the size at which the file is full.
            syncs: whether a line is on the disk when `add` returns.
        """
        self.path, self._clock, self._bytes_max, self._syncs = path, clock, bytes_max, syncs
        self._lock = threading.Lock()
        self._recent: deque[dict[str, Any]] = deque(maxlen=SHOWN_MAX)
        self._number, self._last = 0, BEGINNING
        self._file: FileIO | None = None
        if path is not None:
            self._open(path)

    def _open(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _drop_torn_end(path)
            for each in (_older(path), path):
                for entry in read(each):
                    self._recent.append(entry)
                    self._number, self._last = int(entry["n"]), str(entry["hash"])
            self._file = _appending(path)
        except OSError as error:
            raise ConfigError(f"The audit log {str(path)!r} cannot be opened: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"The audit log {str(path)!r} has a line that cannot be read: {error}. "
                "Examine it with `shoal console audit verify`, then move it away."
            ) from None

    def add(self, **fields: Any) -> dict[str, Any]:
        """Add a line.

        Raises:
            OSError: it cannot be written; then nothing was added.
        """
        with self._lock:
            entry = {
                "n": self._number + 1,
                "at": round(self._clock(), 3),
                **_bounded(fields),
                "prev": self._last,
            }
            entry["hash"] = hash_of(entry)
            if self._file is not None:
                self._write((json.dumps(entry) + "\n").encode(), self._file)
            self._number, self._last = entry["n"], entry["hash"]
            self._recent.append(entry)
            return entry

    def _write(self, line: bytes, file: FileIO) -> None:
        size = os.fstat(file.fileno()).st_size
        if self.path is not None and size > 0 and size + len(line) > self._bytes_max:
            self.path.replace(_older(self.path))
            file.close()
            self._file, size = _appending(self.path), 0
            file = self._file
        try:
            # A disk that is nearly full takes a part.
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._syncs:
                os.fsync(file.fileno())
        except OSError:
            # Half a line would break the chain for the next one.
            os.ftruncate(file.fileno(), size)
            raise

    def recent(self, before: int | None = None, limit: int = 200) -> list[dict[str, Any]]:
        """The last acts, the newest first."""
        with self._lock:
            found = [entry for entry in reversed(self._recent) if before is None or entry["n"] < before]
            return found[:limit]

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file is not None and self._file.closed

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


def _older(path: Path) -> Path:
    """The file before."""
    return path.with_name(f"{path.name}.1")


def _appending(path: Path) -> FileIO:
    return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")


def hash_of(entry: Mapping[str, Any]) -> str:
    """The hash that a line must have."""
    fields = {name: value for name, value in entry.items() if name != "hash"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file; none if there is no file."""
    if path.exists():
        with path.open(encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def verify(path: Path) -> Verdict:
    """Check every line of a file, and of the one before it if there is one."""
    last, number, lines = BEGINNING, 0, 0
    older = _older(path)
    try:
        if older.exists():
            number, last = _beginning(older)
        for each in (older, path) if older.exists() else (path,):
            with each.open(encoding="utf-8") as file:
                for at, line in enumerate(file, 1):
                    why = _wrong(line, number + 1, last)
                    if why:
                        return Verdict(lines, last, at, why if each == path else f"{each.name}: {why}")
                    last = json.loads(line)["hash"]
                    number, lines = number + 1, lines + 1
    except OSError as error:
        raise ConfigError(f"The audit log {str(path)!r} cannot be read: {error.strerror}.") from None
    return Verdict(lines, last)


def _beginning(path: Path) -> tuple[int, str]:
    """What the first line of a file follows: lines before it were in files that are gone."""
    try:
        entry = next(read(path))
        return int(entry["n"]) - 1, str(entry["prev"])
    except (StopIteration, ValueError, KeyError, TypeError, AttributeError):
        return 0, BEGINNING


def _wrong(line: str, number: int, last: str) -> str:
    try:
        entry = json.loads(line)
        if not isinstance(entry, dict):
            return "it is no JSON object"
    except ValueError:
        return "it is no JSON"
    if entry.get("n") != number:
        return f"its number is {entry.get('n')!r}, and must be {number}: lines are missing or were added"
    if entry.get("prev") != last:
        return "it does not follow the line before it: one of them was changed, removed or added"
    return "" if entry.get("hash") == hash_of(entry) else "it was changed: its hash does not match"


def _drop_torn_end(path: Path) -> None:
    """Remove half a line, which a crash left at the end: its act was never confirmed."""
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2 * LINE_MAX))
        tail = file.read()
        if tail and not tail.endswith(b"\n"):
            file.truncate(size - len(tail) + tail.rfind(b"\n") + 1)


def _bounded(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that fit into a line: long texts are shortened."""
    found = {
        name: value[:1000] + "…" if isinstance(value, str) and len(value) > 1000 else value
        for name, value in fields.items()
    }
    if len(json.dumps(found, default=str)) > LINE_MAX - 512:
        found = {
            name: value if isinstance(value, str | int | float | None) else "…"
            for name, value in found.items()
        }
    return found
