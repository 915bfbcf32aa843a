"""What an agent may run: registered roles, with options that are parsed into a dataclass each."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal_bench.seeds.cell import Cell

SECONDS_MAX = 3600.0
#: Datagrams of one check.
COUNT_MAX = 100_000
#: No option is greater.
NUMBER_MAX = 1e6


class RoleRefusedError(ValueError):
    """A role that is not registered, or options that it does not take."""


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """Options of a cell's node."""

    every_s: float
    address: str
    core: int | None = None


@dataclass(frozen=True, kw_only=True)
class LoadOptions:
    """Options of a cell's load."""

    cell: dict[str, Any]
    urls: list[str]
    seconds: float
    core: int | None = None

    def __post_init__(self) -> None:
        Cell.from_json(self.cell)
        if not all(isinstance(url, str) and url.startswith("tcp://") for url in self.urls):
            raise ValueError("urls must begin with tcp://")


@dataclass(frozen=True, kw_only=True)
class HearOptions:
    """Options of the receiver of a check."""

    address: str
    group: str
    port: int
    seconds: float


@dataclass(frozen=True, kw_only=True)
class SayOptions:
    """Options of the sender of a check."""

    address: str
    targets: list[str]
    port: int
    count: int

    def __post_init__(self) -> None:
        if not 0 < self.count <= COUNT_MAX:
            raise ValueError(f"count must be from 1 to {COUNT_MAX}, not {self.count}")


#: The module and the options of each role.
ROLES: Mapping[str, tuple[str, type[Any]]] = {
    "node": ("shoal_bench.seeds.sides", NodeOptions),
    "load": ("shoal_bench.seeds.sides", LoadOptions),
    "hear": ("shoal_bench.check_sides", HearOptions),
    "say": ("shoal_bench.check_sides", SayOptions),
}


def parse(role: object, options: object) -> tuple[str, dict[str, Any]]:
    """The module of a role and its options, as they may be run.

    Raises:
        RoleRefusedError: it says what is wrong.
    """
    if not isinstance(role, str) or role not in ROLES:
        raise RoleRefusedError(f"there is no role {role!r}: there are {', '.join(ROLES)}")
    module, kind = ROLES[role]
    if not isinstance(options, dict):
        raise RoleRefusedError(f"the options of {role} are no mapping")
    fields = {field.name: field for field in dataclasses.fields(kind)}
    if unknown := sorted(set(map(str, options)) - set(fields)):
        raise RoleRefusedError(f"{role} has no option {unknown[0]!r}")
    try:
        for name, value in options.items():
            _check(name, value, fields[name].type)
        return module, dataclasses.asdict(kind(**options))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise RoleRefusedError(f"{role}: {error}") from error


#: Which values a field of a type takes. A bool is no number.
_VALUES: Mapping[object, tuple[type[Any], ...]] = {
    float: (int, float),
    int: (int,),
    int | None: (int, type(None)),
    str: (str,),
    list[str]: (list,),
    dict[str, Any]: (dict,),
}


def _check(name: str, value: object, kind: object) -> None:
    if not isinstance(value, _VALUES[kind]) or isinstance(value, bool):
        wanted = kind.__name__ if isinstance(kind, type) else kind
        raise ValueError(f"{name} must be {wanted}, not {value!r:.100}")
    if isinstance(value, float | int) and not (math.isfinite(value) and 0 <= value <= NUMBER_MAX):
        raise ValueError(f"{name} is out of range: {value!r:.100}")
    if name in ("seconds", "every_s") and isinstance(value, float | int) and not 0 < value <= SECONDS_MAX:
        raise ValueError(f"{name} must be more than 0 and at most {SECONDS_MAX:g}, not {value!r:.100}")
