"""What the log says, in SQLite: for questions that would otherwise open many segments.

The log is the truth. The projection says in the same transaction which position of the log it stands for; one
that is missing, damaged or ahead of the log is made anew from the log alone.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from shoal.messages import store as notices

log = logging.getLogger("shoal.store")

#: The version of the schema below; another one is made anew.
SCHEMA_VERSION = 1

SCHEMA = """
-- What it stands for: schema, store, incarnation, position of the log, since when drops are known.
CREATE TABLE facts (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
-- Sealed segments. `bytes` is the length of the file.
CREATE TABLE segments (
    number INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    "end" INTEGER NOT NULL,
    begun_us INTEGER NOT NULL,
    ended_us INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    compacted INTEGER NOT NULL
);
CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
-- Which topics a sealed segment has: offsets of the first and last message, how many, their bytes.
CREATE TABLE topic_segments (
    topic INTEGER NOT NULL REFERENCES topics (id),
    segment INTEGER NOT NULL REFERENCES segments (number) ON DELETE CASCADE,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    count INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (topic, segment)
) WITHOUT ROWID;
CREATE INDEX topics_of_segment ON topic_segments (segment);
-- The offset after the last message of a topic that retention removed.
CREATE TABLE dropped (topic INTEGER PRIMARY KEY REFERENCES topics (id), "end" INTEGER NOT NULL);
CREATE TABLE holds (name TEXT PRIMARY KEY, "offset" INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
    scope TEXT PRIMARY KEY, number INTEGER NOT NULL, first INTEGER NOT NULL, "end" INTEGER NOT NULL
) WITHOUT ROWID;
"""

_TABLES = ("topic_segments", "dropped", "topics", "segments", "holds", "commits", "facts")

#: A topic of a segment: name, messages, first offset, last offset, bytes.
Topic = tuple[str, int, int, int, int]


class Projection:
    """The file `state.sqlite` of a store. For one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        #: Whether the file had to be made anew.
        self.rebuilt = False
        self._database = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            database = self._connect(self._path)
            found = database.execute("SELECT value FROM facts WHERE key = 'schema'").fetchone()
            if found == (SCHEMA_VERSION,) and database.execute("PRAGMA quick_check").fetchone() == ("ok",):
                return database
            database.close()
        except sqlite3.DatabaseError:
            with contextlib.suppress(UnboundLocalError):
                database.close()
        self._remove_files()
        try:
            return self._make(self._path)
        except sqlite3.OperationalError as error:
            return self._make_in_memory(error)

    def _remove_files(self) -> None:
        self.rebuilt = True
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _make_in_memory(self, why: sqlite3.Error) -> sqlite3.Connection:
        notices.PROJECTION_IN_MEMORY(path=self._path, why=why).log(log)
        return self._make(":memory:")

    def leave_file(self, why: sqlite3.Error) -> None:
        """Begin anew in memory, because the file cannot be written."""
        self._database.close()
        self._remove_files()
        self._database = self._make_in_memory(why)

    def _make(self, path: Path | str) -> sqlite3.Connection:
        database = self._connect(path)
        database.executescript(SCHEMA)
        with database:
            database.execute("INSERT INTO facts VALUES ('schema', ?)", (SCHEMA_VERSION,))
        return database

    def _connect(self, path: Path | str) -> sqlite3.Connection:
        database = sqlite3.connect(path, check_same_thread=False)
        database.execute("PRAGMA journal_mode = WAL")
        # The log is the truth: what a crash takes from here is projected again.
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA foreign_keys = ON")
        return database

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def clear(self) -> None:
        """Forget everything, to be projected from the log again."""
        self.rebuilt = True
        with self._database as database:
            for table in _TABLES:
                database.execute(f"DELETE FROM {table}")
            database.execute("INSERT INTO facts VALUES ('schema', ?)", (SCHEMA_VERSION,))

    def fact(self, key: str) -> Any:
        """A fact by its name; none if it is not known."""
        found = self._database.execute("SELECT value FROM facts WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def stands_for(self) -> tuple[str | None, int, int]:
        """The incarnation, segment and position of the log that it stands for."""
        return self.fact("incarnation"), self.fact("segment") or 0, self.fact("position") or 0

    def segments(self) -> list[int]:
        """The numbers of the segments that are projected, oldest first."""
        rows = self._database.execute("SELECT number FROM segments ORDER BY number")
        return [number for (number,) in rows]

    def topics_of(self, segment: int) -> dict[str, int]:
        """The topics of a segment, and the bytes of each."""
        rows = self._database.execute(
            "SELECT name, bytes FROM topic_segments JOIN topics ON id = topic WHERE segment = ?", (segment,)
        )
        return dict(rows)

    def topics(self) -> list[tuple[str, int, int, int, int]]:
        """Every topic of sealed segments: name, messages, first offset, last offset, bytes."""
        rows = self._database.execute(
            "SELECT name, sum(count), min(first), max(last), sum(bytes)"
            " FROM topic_segments JOIN topics ON id = topic GROUP BY topic ORDER BY name"
        )
        return list(rows)

    def dropped(self) -> list[tuple[str, int]]:
        """Topics of which retention removed messages, and the offset after the last of these."""
        return list(self._database.execute('SELECT name, "end" FROM dropped JOIN topics ON id = topic'))

    def update(
        self,
        *,
        incarnation: str,
        store_id: int,
        position: tuple[int, int],
        added: Iterable[tuple[dict[str, Any], Sequence[Topic]]] = (),
        removed: Iterable[int] = (),
        holds: dict[str, int],
        commits: Iterable[tuple[str, int, int, int]],
    ) -> None:
        """Take in what changed, in one transaction with the position it stands for.

        `added` are segments with their topics, in the place of what was known of them.
        """
        with self._database as database:
            for segment, topics in added:
                self._add(database, segment, topics)
            for number in removed:
                self._remove(database, number)
            known = dict(database.execute('SELECT name, "offset" FROM holds'))
            gone = [(name,) for name in known if name not in holds]
            moved = [hold for hold in holds.items() if known.get(hold[0]) != hold[1]]
            database.executemany("DELETE FROM holds WHERE name = ?", gone)
            database.executemany("INSERT OR REPLACE INTO holds VALUES (?, ?)", moved)
            last = dict(database.execute("SELECT scope, number FROM commits"))
            remembered = list(commits)
            forgotten = last.keys() - {scope for scope, *_ in remembered}
            database.executemany("DELETE FROM commits WHERE scope = ?", [(scope,) for scope in forgotten])
            newer = [commit for commit in remembered if last.get(commit[0]) != commit[1]]
            database.executemany("INSERT OR REPLACE INTO commits VALUES (?, ?, ?, ?)", newer)
            facts = {
                "incarnation": incarnation,
                "store": f"{store_id:016x}",
                "segment": position[0],
                "position": position[1],
            }
            database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def note_floor(self, floor: int) -> None:
        """Say since when it is known which topics lost messages: below, any may have."""
        if self.fact("drops_known_from") is None:
            with self._database as database:
                database.execute("INSERT INTO facts VALUES ('drops_known_from', ?)", (floor,))

    def _add(self, database: sqlite3.Connection, segment: dict[str, Any], topics: Sequence[Topic]) -> None:
        number = segment["number"]
        survivors = {topic[0] for topic in topics}
        gone = database.execute(
            "SELECT name, topic, last FROM topic_segments JOIN topics ON id = topic WHERE segment = ?",
            (number,),
        ).fetchall()
        self._drop(database, [(topic, last + 1) for name, topic, last in gone if name not in survivors])
        database.execute("DELETE FROM segments WHERE number = ?", (number,))
        database.execute(
            "INSERT INTO segments VALUES (:number, :first, :end, :begun_us, :ended_us, :bytes, :compacted)",
            segment,
        )
        database.executemany(
            "INSERT OR IGNORE INTO topics (name) VALUES (?)", ((topic[0],) for topic in topics)
        )
        database.executemany(
            "INSERT INTO topic_segments SELECT id, ?, ?, ?, ?, ? FROM topics WHERE name = ?",
            ((number, first, last, count, size, name) for name, count, first, last, size in topics),
        )

    def _remove(self, database: sqlite3.Connection, number: int) -> None:
        gone = database.execute("SELECT topic, last + 1 FROM topic_segments WHERE segment = ?", (number,))
        self._drop(database, gone.fetchall())
        database.execute("DELETE FROM segments WHERE number = ?", (number,))

    def _drop(self, database: sqlite3.Connection, dropped: Iterable[tuple[int, int]]) -> None:
        database.executemany(
            "INSERT INTO dropped VALUES (?, ?)"
            ' ON CONFLICT (topic) DO UPDATE SET "end" = max("end", excluded."end")',
            dropped,
        )
