"""Tables of rows, and what changed in them: snapshots come in, deltas go out. Sees no network and no clock.

A *table* maps keys to rows. `replace` gives a table's rows anew; `commit` ends the turn: what differs from
the turn before is a delta with the next version. A viewer that knows a version gets the deltas since then,
or, if they are not kept any more, the whole tables. Each delta is encoded once, for all viewers.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]

#: Turns whose deltas are kept, for viewers that come back: a minute, at a turn a second.
TURNS_KEPT = 60
#: Rows of one table; those that come after are left out, and the table says how many.
ROWS_MAX = 20_000


@dataclass(slots=True)
class _Table:
    rows: dict[str, Row] = field(default_factory=dict)
    #: The mapping that they were given in: the same one is no news.
    given: Mapping[str, Row] | None = None
    #: Rows that were left out.
    omitted: int = 0
    #: The whole table as JSON, once a viewer asked for it.
    text: str | None = None


class Delta:
    """What changed in a table; as JSON once a viewer asks for it, for all viewers."""

    def __init__(self, changes: Mapping[str, object]) -> None:
        self._changes, self._text = changes, ""

    @property
    def text(self) -> str:
        """As JSON."""
        if not self._text:
            self._text, self._changes = _dumps(self._changes), {}
        return self._text


class State:
    """All tables. `run` names this life of the state: versions of another mean nothing here."""

    def __init__(self, run: str, tables: Iterable[str]) -> None:
        self.run = run
        self.version = 0
        self._tables = {name: _Table() for name in tables}
        #: What changed with each of the last versions, by table.
        self._turns: deque[Mapping[str, Delta]] = deque(maxlen=TURNS_KEPT)
        self._deltas: dict[str, Delta] = {}

    # --- input ---

    def replace(self, name: str, rows: Mapping[str, Row]) -> None:
        """Give a table its rows, in a mapping that is not changed later.

        Rows that are equal to those before cost no viewer anything.
        """
        table = self._tables[name]
        if rows is table.given:
            return
        table.given = rows
        omitted = max(0, len(rows) - ROWS_MAX)
        if omitted:
            rows = dict(list(rows.items())[:ROWS_MAX])
        before = table.rows
        changed = {
            key: row for key, row in rows.items() if (old := before.get(key)) is not row and old != row
        }
        gone = [key for key in before if key not in rows]
        if not (changed or gone or omitted != table.omitted):
            return
        table.rows, table.omitted, table.text = dict(rows), omitted, None
        self._deltas[name] = Delta({"set": changed, "gone": gone, "omitted": omitted})

    def commit(self) -> bool:
        """End the turn: whether anything changed."""
        if not self._deltas:
            return False
        self.version += 1
        self._turns.append(self._deltas)
        self._deltas = {}
        return True

    # --- getters ---

    @property
    def names(self) -> tuple[str, ...]:
        """Every table."""
        return tuple(self._tables)

    def rows(self, name: str) -> Mapping[str, Row]:
        """The rows of a table."""
        return self._tables[name].rows

    @property
    def id(self) -> str:
        """This life and version, for `Last-Event-ID`."""
        return f"{self.run}-{self.version}"

    def snapshot(self, names: Iterable[str]) -> str:
        """Whole tables, as JSON."""
        return self._event(True, {name: self._whole(name) for name in names})

    def since(self, last_id: str, names: Iterable[str]) -> list[str] | None:
        """The deltas after an id, as JSON; none if they are not kept, or it is no id of this life."""
        run, _, number = last_id.rpartition("-")
        if run != self.run or not number.isdecimal() or int(number) > self.version:
            return None
        missed = self.version - int(number)
        if missed > len(self._turns):
            return None
        wanted = set(names)
        turns = list(self._turns)[len(self._turns) - missed :]
        return [
            self._event(False, {name: delta.text for name, delta in turn.items() if name in wanted})
            for turn in turns
        ]

    def _whole(self, name: str) -> str:
        table = self._tables[name]
        if table.text is None:
            table.text = _dumps({"set": table.rows, "gone": [], "omitted": table.omitted})
        return table.text

    def _event(self, whole: bool, tables: Mapping[str, str]) -> str:
        inner = ",".join(f"{_dumps(name)}:{text}" for name, text in tables.items())
        return f'{{"whole":{"true" if whole else "false"},"tables":{{{inner}}}}}'


def _dumps(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
