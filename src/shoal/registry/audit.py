"""What happened at a registry, in a SQLite file: which principal changed what, and who was refused.

    audit(id, at, action, domain, daemon, principal, address, detail)

Renewals of a lease are not in it. The file keeps the newest entries.
"""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal.errors import ConfigError

#: Entries that are kept in a file, and in memory.
ENTRIES_MAX, MEMORY_ENTRIES_MAX = 100_000, 5_000
#: Old entries are removed after this number of new ones.
_TRIM_EVERY = 1000

_SCHEMA = """
CREATE TABLE IF NOT EXISTS audit (
    id INTEGER PRIMARY KEY,
    at REAL NOT NULL,
    action TEXT NOT NULL,
    domain TEXT NOT NULL,
    daemon TEXT NOT NULL,
    principal TEXT NOT NULL,
    address TEXT NOT NULL,
    detail TEXT NOT NULL
)
"""
_INSERT = """
INSERT INTO audit (at, action, domain, daemon, principal, address, detail) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_TRIM = "DELETE FROM audit WHERE id <= (SELECT max(id) FROM audit) - ?"
_NEWEST = "SELECT * FROM audit ORDER BY id DESC LIMIT ?"


class Audit:
    """The log. For one thread at a time, which need not be the one that made it."""

    def __init__(
        self,
        path: Path | None = None,
        clock: Callable[[], float] = time.time,
        entries_max: int | None = None,
    ) -> None:
        """Open the file; without one, keep the entries in memory.

        Raises:
            ConfigError: the file cannot be opened.
        """
        self._clock = clock
        self._entries_max = entries_max or (MEMORY_ENTRIES_MAX if path is None else ENTRIES_MAX)
        self._added = 0
        try:
            self._base = sqlite3.connect(path or ":memory:", check_same_thread=False, isolation_level=None)
            self._base.row_factory = sqlite3.Row
            # Entries of the last moment before a power failure may be missing.
            self._base.execute("PRAGMA journal_mode = WAL")
            self._base.execute("PRAGMA synchronous = NORMAL")
            self._base.execute(_SCHEMA)
        except sqlite3.Error as error:
            raise ConfigError(f"audit is {str(path)!r}, and cannot be used: {error}") from None

    def add(
        self,
        action: str,
        *,
        domain: str = "",
        daemon: str = "",
        principal: str = "",
        address: str = "",
        detail: str = "",
    ) -> str | None:
        """Note that something happened: why it could not be, if so."""
        try:
            self._base.execute(_INSERT, (self._clock(), action, domain, daemon, principal, address, detail))
            self._added += 1
            if self._added % _TRIM_EVERY == 0:
                self._base.execute(_TRIM, (self._entries_max,))
        except sqlite3.Error as error:
            return str(error)
        return None

    def newest(self, count: int) -> list[dict[str, Any]]:
        """The newest entries, the newest first."""
        return [dict(row) for row in self._base.execute(_NEWEST, (count,))]

    def close(self) -> None:
        """Close the file."""
        self._base.close()
