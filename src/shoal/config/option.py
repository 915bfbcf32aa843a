"""One option of a connection: its default, the connections that it is for, and its range."""

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

from shoal.config.checks import Checked


class On(enum.Flag):
    """The kinds of connections."""

    NORM = enum.auto()
    UDP = enum.auto()
    #: Links with single programs: `tcp` and such.
    LINKS = enum.auto()
    #: The same, found through a registry.
    LOCATE = enum.auto()
    INPROC = enum.auto()
    #: Links with single programs beside a multicast group: a router has some, and TCP may stand in for it.
    BESIDE = enum.auto()


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of a field beside its type and its default."""

    on: On
    #: The engine of NORM has it, and checks it.
    engine: bool = False
    #: The range, both ends included; `above` excludes the lower end.
    least: float | None = None
    above: float | None = None
    most: float | None = None


def option(default: Any, on: On, *, repr: bool = True, **more: Any) -> Any:
    """A field of a connection's dataclass."""
    return dataclasses.field(default=default, repr=repr, metadata={Option: Option(on=on, **more)})


def options_of(config: type[Checked] | Checked) -> dict[str, Option]:
    """The options of a dataclass, by name."""
    return {field.name: field.metadata[Option] for field in dataclasses.fields(config)}


def check_ranges(config: Checked) -> None:
    """Refuse numbers out of their range."""
    for name, known in options_of(config).items():
        if known.above is not None:
            fine = known.above < getattr(config, name) <= (known.most or float("inf"))
            most = "" if known.most is None else f", and at most {known.most:,.0f}"
            config.check(name, fine, f"more than {known.above:g}{most}")
        elif known.least is not None:
            config.check_range(name, known.least, known.most)
