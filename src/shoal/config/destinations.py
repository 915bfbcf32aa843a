"""Options of destinations: what messages and subscriptions of a topic have where the program does not say.

Of several patterns that match, the most specific one counts, alone: a level that is named beats `*`, and `*`
beats `>`, from the first level on.
"""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

from shoal._core import match_topics
from shoal.config.checks import Checked, unknown_option
from shoal.config.connection import GROUPS_MAX, ConnectionConfig, QueueFull
from shoal.config.patterns import covers
from shoal.errors import ConfigError, InvalidTopicError

#: Topics whose rule is remembered; then it is found anew.
_CACHE_MAX = 10_000
#: Options that a link or its sockets have once for all destinations.
_OF_THE_CONNECTION = (
    "send_delay_s",
    "epoch_messages",
    "multicast_ttl",
    "rate_bytes_per_s",
    "profile",
)
_PUBLISHING = ("priority", "ttl_s", "persistent")
_SUBSCRIBING = ("queue_full", "queue_bytes_max")


@dataclass(frozen=True, kw_only=True)
class DestinationOptions(Checked):
    """What a pattern's messages and subscriptions have; `None` is the usual default."""

    #: Of a published message: 0 to 9.
    priority: int | None = None
    #: Of a published message: not delivered when it is older.
    ttl_s: float | None = None
    #: Of a published message: whether a store keeps it.
    persistent: bool | None = None
    #: Of a subscription: what happens when its queue is full.
    queue_full: QueueFull | None = None
    #: Of a subscription: how much may wait for its reader.
    queue_bytes_max: int | None = None
    #: Which of the connection's groups carries it, with `groups`; for patterns such as `fx/>`.
    group: int | None = None

    def __post_init__(self) -> None:
        self.check_types()
        self.check_range("priority", 0, 9)
        self.check("ttl_s", self.ttl_s is None or self.ttl_s > 0, "more than 0, or None")
        is_flag = self.persistent is None or isinstance(self.persistent, bool)
        self.check("persistent", is_flag, "True or False, or None")
        choices = get_args(QueueFull)
        fine = self.queue_full is None or self.queue_full in choices
        self.check("queue_full", fine, f"{', '.join(choices)}, or None")
        self.check_range("queue_bytes_max", 1)
        self.check_range("group", 0, GROUPS_MAX - 1)

    def given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Those of some options that are given."""
        return {name: value for name, value in asdict(self).items() if name in names and value is not None}


@dataclass(frozen=True)
class Destinations:
    """The options of all destinations."""

    #: Patterns and their options, the most specific first.
    rules: tuple[tuple[str, DestinationOptions], ...]
    _publishing: dict[str, dict[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, given: Mapping[str, Any] | str | Path) -> "Destinations":
        """From a mapping of patterns to options, or from a TOML file with `[destination."fx/>"]`."""
        if isinstance(given, str | Path):
            given = _read(Path(given))
        if not isinstance(given, Mapping):
            raise ConfigError(f"destinations is {given!r}, and must be a mapping of patterns, or a file")
        rules = [(pattern, _options(pattern, options)) for pattern, options in given.items()]
        return cls(tuple(sorted(rules, key=lambda rule: _rank(rule[0]))))

    def matching(self, topic: str) -> list[tuple[str, DestinationOptions]]:
        """The rules whose pattern matches a topic, or all that another pattern matches; the first counts."""
        return [(pattern, options) for pattern, options in self.rules if covers(pattern, topic)]

    def placed(self, config: ConnectionConfig) -> ConnectionConfig:
        """A connection whose topics are in the groups that their destinations have."""
        given = [(pattern, options.group) for pattern, options in self.rules if options.group is not None]
        if not given:
            return config
        if not config.groups:
            raise ConfigError(
                f"destination {given[0][0]!r} has group, and the connection has none: give it groups"
            )
        levels = [
            config.assigned_groups or "",
            *(f"{pattern.partition('/')[0]}={group}" for pattern, group in given),
        ]
        return replace(config, assigned_groups=",".join(filter(None, levels)))

    def publishing(self, topic: str) -> dict[str, Any]:
        """What a message of a topic has, as arguments of `publish`."""
        found = self._publishing.get(topic)
        if found is None:
            if len(self._publishing) >= _CACHE_MAX:
                self._publishing.clear()
            rules = self.matching(topic)
            found = self._publishing[topic] = rules[0][1].given(_PUBLISHING) if rules else {}
        return found

    def subscribing(self, pattern: str) -> dict[str, Any]:
        """What a subscription to a pattern has, as arguments of `subscribe`."""
        rules = self.matching(pattern)
        return rules[0][1].given(_SUBSCRIBING) if rules else {}


def _read(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            read = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"destinations is {os.fspath(path)!r}, which cannot be read: {error}") from error
    unknown = ", ".join(sorted(read.keys() - {"destination"}))
    if unknown:
        raise ConfigError(
            f'{path} has {unknown}: it must have tables [destination."PATTERN"] and nothing else'
        )
    found = read.get("destination", {})
    if not isinstance(found, dict):
        raise ConfigError(f'{path} has a destination that is no table: use [destination."PATTERN"]')
    return found


def _options(pattern: str, options: Any) -> DestinationOptions:
    try:
        match_topics([pattern], [])
    except (InvalidTopicError, TypeError) as error:
        raise ConfigError(f"destination {pattern!r}: {error}") from None
    if not isinstance(options, Mapping):
        raise ConfigError(f"destination {pattern!r} is {options!r}, and must be a table of options")
    known = DestinationOptions.__dataclass_fields__
    for name in options:
        if name in _OF_THE_CONNECTION:
            raise ConfigError(
                f"destination {pattern!r} has {name}, which a connection has for all its destinations: "
                "give it to `connect`, of a connection of its own if need be"
            )
        if name not in known:
            raise ConfigError(f"destination {pattern!r}: {unknown_option(name, known)}")
    try:
        made = DestinationOptions(**options)
    except ConfigError as error:
        raise ConfigError(f"destination {pattern!r}: {error}") from None
    level, _, rest = pattern.partition("/")
    if made.group is not None and (rest not in ("", ">") or set(level) & set("*>=")):
        raise ConfigError(
            f"destination {pattern!r} has group, which all topics of a first level have: name that, as in "
            f"{'fx/>'!r}"
        )
    return made


def _rank(pattern: str) -> tuple[tuple[int, ...], str]:
    """The smaller, the more specific."""
    return tuple({"*": 1, ">": 2}.get(level, 0) for level in pattern.split("/")), pattern
