"""Where a query is in a store's history: one number, and which life of the store it belongs to.

The number is the offset of the next message to read. A store that was restored from a copy is another
incarnation, and its numbers mean something else. Topics play no part: they may appear and vanish under a
running query.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shoal.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the history of one incarnation of a store."""

    incarnation: str
    offset: int

    def to_dict(self) -> dict[str, Any]:
        """What Spark writes into its checkpoint."""
        return {"incarnation": self.incarnation, "offset": self.offset}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What Spark read from its checkpoint, which another source may have written."""
        found: Any = data
        if not isinstance(found, Mapping) or not {"incarnation", "offset"} <= found.keys():
            raise ConfigError(
                f"the checkpoint holds {found!r}, which is no offset of format shoal: was it written by "
                "another source? Take another checkpointLocation"
            )
        return cls(str(found["incarnation"]), int(found["offset"]))


@dataclass(frozen=True, slots=True)
class Boundary:
    """Where reading starts or ends, as the options say it. At most one of the two fields is set.

    Attributes:
        offset: an offset, possibly with the incarnation it belongs to.
        time_us: the first message stored at this time or later, in microseconds since 1970.
        named: `earliest` or `latest`.
    """

    named: str | None = None
    offset: int | None = None
    incarnation: str | None = None
    time_us: int | None = None


def parse_boundary(option: str, text: str) -> Boundary:
    """Read `earliest`, `latest`, an offset, or JSON as a query's progress shows it."""
    word = text.strip()
    if word.lower() in ("earliest", "latest"):
        return Boundary(named=word.lower())
    accepted = (
        f"option {option} must be earliest, latest, an offset such as 1200, "
        f'or {{"incarnation": "…", "offset": 1200}}, not {text!r}'
    )
    try:
        value = json.loads(word)
    except json.JSONDecodeError:
        raise ConfigError(accepted) from None
    incarnation = None
    if isinstance(value, dict) and set(value) <= {"incarnation", "offset"} and "offset" in value:
        incarnation, value = value.get("incarnation"), value["offset"]
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ConfigError(accepted)
    return Boundary(offset=value, incarnation=incarnation)
