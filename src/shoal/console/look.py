"""One look at a domain: what its nodes and stores answered, and what happened since the look before."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shoal.bus.events import Event

#: The longest text of an answer that is kept; others choose these texts.
TEXT_MAX = 255


@dataclass(frozen=True, kw_only=True)
class Look:
    """What one round of questions found."""

    #: When, by a clock that is never set, and by the clock on the wall.
    at_s: float
    wall_s: float
    #: The answers to `_shoal/nodes`.
    statuses: Sequence[Mapping[str, Any]] = ()
    #: The node ids of all other members, and our own.
    members: Sequence[int] = ()
    own_node: int = 0
    #: What happened, oldest first.
    events: Sequence[Event] = ()
    #: What stores say of all their queues and subscriptions, by name; none if they were not asked this time.
    stores: Mapping[str, Mapping[str, Any]] | None = None
    #: Topics of stores that serve history, with the number of messages: by store; none if not asked.
    topics: Mapping[str, Mapping[str, int]] | None = None
    #: What could not be asked, and why.
    faults: Mapping[str, str] = field(default_factory=dict)


def number(value: object) -> float | int | None:
    """A finite number of an answer; none if it is anything else."""
    kind = type(value)
    if kind is not int and kind is not float:
        return None
    # Neither is true of what is infinite, or no number.
    return value if -1e18 < value < 1e18 else None  # type: ignore[operator, return-value]


def count(value: object) -> int:
    """A whole number of an answer; 0 if it is anything else."""
    found = number(value)
    return 0 if found is None else int(found)


def text(value: object, most: int = TEXT_MAX) -> str:
    """A text of an answer, shortened; empty if it is anything else."""
    if not isinstance(value, str | int):
        return ""
    found = str(value)
    return found if len(found) <= most else found[: most - 1] + "…"


def mapping(value: object) -> Mapping[str, Any]:
    """A mapping of an answer; empty if it is anything else."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: object, most: int = 100_000) -> list[Mapping[str, Any]]:
    """The mappings of a list; empty if it is no list."""
    return [each for each in value[:most] if isinstance(each, Mapping)] if isinstance(value, list) else []


def texts(value: object, most: int = 100) -> list[str]:
    """The texts of a list, shortened."""
    return (
        [text(each) for each in value[:most] if isinstance(each, str)]
        if isinstance(value, list | tuple)
        else []
    )


def rounded(value: float | None) -> float | None:
    """Three significant digits: what changes less is no news."""
    if not value:
        return value
    digits = 2 - math.floor(math.log10(abs(value)))
    found = round(value, digits)
    return int(found) if digits <= 0 else found
