"""Access rules: which principal may do what with which destinations.

A rules file is TOML. Each `[[rule]]` allows or denies actions of principals on topics. Each `[[quota]]`
bounds what principals use.

    [[rule]]
    name = "desks read prices"
    principals = ["desk-*"]
    actions = ["subscribe"]
    topics = ["prices/>"]

How a request is decided:

1. An operator of the token file may do everything, so that no file locks its owner out.
2. If a rule that denies concerns the request, it is denied.
3. If a rule that allows covers the whole request, it is allowed.
4. Otherwise it is denied.

A request is about a topic, or about a pattern. A rule allows a pattern only if one of its topics covers it.
A rule denies a pattern as soon as a topic could match both. The queue `orders` is the topic `_queue/orders`.
No files are watched here: `AccessFile.refresh` is called by what enforces the rules.
"""

import fnmatch
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from shoal._core import match_topics
from shoal.config.checks import Checked, unknown_option
from shoal.config.patterns import could_meet, covers
from shoal.errors import ConfigError, InvalidTopicError

#: `publish` also sends to queues, `consume` receives from them, `browse` looks at them, and `admin` declares,
#: empties and deletes them.
Action = Literal["publish", "subscribe", "consume", "browse", "admin"]
#: Over links, `route` forwards what others publish, `store` is a store of topics, and `replicate` is a member
#: of a group of stores.
LinkAction = Literal["route", "store", "replicate"]
#: What `all` stands for: no rule makes a router of a program without saying so.
OF_PROGRAMS: tuple[str, ...] = get_args(Action)
ACTIONS: tuple[str, ...] = (*OF_PROGRAMS, *get_args(LinkAction))
#: The principal of a program that shows no token.
ANONYMOUS = "anonymous"

#: Rules and quotas of one file, and entries of a list.
_RULES_MAX, _ENTRIES_MAX = 10_000, 1_000
#: Decisions that are remembered; then all are forgotten.
_REMEMBERED_MAX = 10_000


@dataclass(frozen=True, kw_only=True)
class Rule(Checked):
    """One rule of a file."""

    #: For people: errors and `shoal access explain` print it.
    name: str
    principals: tuple[str, ...]
    actions: tuple[str, ...]
    topics: tuple[str, ...]
    effect: Literal["allow", "deny"] = "allow"

    def __post_init__(self) -> None:
        self.check_types()
        self.check("principals", bool(self.principals), "a list of names, such as ['desk-*']")
        known = ", ".join(ACTIONS)
        fine = bool(self.actions) and set(self.actions) <= set(ACTIONS)
        self.check("actions", fine, f"a list of some of {known}, or ['all']")
        self.check("topics", bool(self.topics), "a list of patterns, such as ['prices/>']")

    def names(self, principal: str) -> bool:
        """Whether the rule is about a principal."""
        return any(fnmatch.fnmatchcase(principal, each) for each in self.principals)

    def concerns(self, action: str, destination: str) -> bool:
        """Whether the rule counts for a request: see the module's steps 2 and 3."""
        if action not in self.actions:
            return False
        test = covers if self.effect == "allow" else could_meet
        return any(test(each, destination) for each in self.topics)


@dataclass(frozen=True, kw_only=True)
class Quota(Checked):
    """What each of some principals may use; `None` is without a bound. The first that names one counts."""

    name: str
    principals: tuple[str, ...]
    #: Connections to the store, gateway or listener.
    connections: int | None = None
    #: Bytes that it may send in a second, over links and to a gateway; what is more waits.
    bytes_per_s: int | None = None
    #: Bytes that may wait in each of its durable subscriptions.
    backlog_bytes: int | None = None

    def __post_init__(self) -> None:
        self.check_types()
        self.check("principals", bool(self.principals), "a list of names, such as ['desk-*']")
        for bound in ("connections", "bytes_per_s", "backlog_bytes"):
            self.check_range(bound, 1)


@dataclass(frozen=True)
class Decision:
    """Whether a request is allowed, and the rule that decided; none if no rule covers it."""

    is_allowed: bool
    rule: Rule | None = None
    is_operator: bool = False


@dataclass(frozen=True)
class Access:
    """The rules and quotas of one file."""

    rules: tuple[Rule, ...]
    quotas: tuple[Quota, ...] = ()
    source: str = "the rules"
    _decided: dict[tuple[str, str, str], Decision] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> "Access":
        """From a TOML file."""
        where = os.fspath(path)
        try:
            with Path(path).open("rb") as file:
                given = tomllib.load(file)
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"access is {where!r}, which cannot be read: {error}") from None
        return cls.of(given, where)

    @classmethod
    def of(cls, given: Mapping[str, Any], source: str = "the rules") -> "Access":
        """From the tables of a file."""
        unknown = ", ".join(sorted(given.keys() - {"rule", "quota"}))
        if unknown:
            raise ConfigError(f"{source} has {unknown}: it must have [[rule]] and [[quota]] and nothing else")
        rules = [_rule(table, number, source) for number, table in _tables(given, "rule", source)]
        quotas = [_quota(table, number, source) for number, table in _tables(given, "quota", source)]
        return cls(tuple(rules), tuple(quotas), source)

    def decide(self, principal: str, action: str, destination: str, *, operator: bool = False) -> Decision:
        """Decide a request about a topic or a pattern."""
        if operator:
            return Decision(True, is_operator=True)
        key = (principal, action, destination)
        found = self._decided.get(key)
        if found is None:
            if len(self._decided) >= _REMEMBERED_MAX:
                self._decided.clear()
            found = self._decided[key] = self._decide(*key)
        return found

    def _decide(self, principal: str, action: str, destination: str) -> Decision:
        concerned = self.concerned(principal, action, destination)
        denies = next((rule for rule in concerned if rule.effect == "deny"), None)
        if denies is not None:
            return Decision(False, denies)
        allows = next(iter(concerned), None)
        return Decision(allows is not None, allows)

    def concerned(self, principal: str, action: str, destination: str) -> list[Rule]:
        """The rules that count for a request, in the order of the file."""
        return [rule for rule in self.rules if rule.names(principal) and rule.concerns(action, destination)]

    def refusal(self, principal: str, action: str, destination: str, *, operator: bool = False) -> str | None:
        """Why a request is denied, naming the rule; none if it is allowed."""
        decision = self.decide(principal, action, destination, operator=operator)
        if decision.is_allowed:
            return None
        if decision.rule is not None:
            why = f"the rule {decision.rule.name!r} of {self.source} denies it"
        else:
            why = f"no rule of {self.source} allows it"
        return f"{principal!r} may not {action} {destination}: {why}."

    def quota(self, principal: str) -> Quota | None:
        """The quota of a principal: the first that names it."""
        for each in self.quotas:
            if any(fnmatch.fnmatchcase(principal, name) for name in each.principals):
                return each
        return None


class AccessFile:
    """A rules file, read again when it changes. May be shared between threads."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._stamp = self._stat()
        self.access = Access.read(self.path)

    def _stat(self) -> tuple[int, int, int]:
        try:
            status = self.path.stat()
        except OSError as error:
            raise ConfigError(f"access is {str(self.path)!r}, and cannot be read: {error.strerror}") from None
        return (status.st_mtime_ns, status.st_size, status.st_ino)

    def refresh(self) -> str | None:
        """Read the file again if it changed; what is wrong with it, in which case the former rules count."""
        try:
            stamp = self._stat()
            if stamp != self._stamp:
                self.access = Access.read(self.path)
                self._stamp = stamp
        except ConfigError as error:
            return str(error)
        return None


_Table = TypeVar("_Table", Rule, Quota)


def _tables(given: Mapping[str, Any], kind: str, source: str) -> list[tuple[int, Mapping[str, Any]]]:
    found = given.get(kind, [])
    if not isinstance(found, list) or not all(isinstance(each, Mapping) for each in found):
        raise ConfigError(f"{source}: {kind} is {found!r:.50}, and must be tables [[{kind}]]")
    if len(found) > _RULES_MAX:
        raise ConfigError(f"{source} has {len(found)} tables [[{kind}]]; at most {_RULES_MAX} are allowed")
    return list(enumerate(found, 1))


def _rule(table: Mapping[str, Any], number: int, source: str) -> Rule:
    where = f"{source}, rule {number}"
    options = _options(table, Rule, where, ("principals", "actions", "topics"))
    options.setdefault("name", f"rule {number}")
    if options.get("actions") == ("all",):
        options["actions"] = OF_PROGRAMS
    for topic in options.get("topics", ()):
        try:
            match_topics([topic], [])
        except InvalidTopicError as error:
            raise ConfigError(f"{where}: {error}") from None
    return _made(Rule, options, where)


def _quota(table: Mapping[str, Any], number: int, source: str) -> Quota:
    where = f"{source}, quota {number}"
    options = _options(table, Quota, where, ("principals",))
    options.setdefault("name", f"quota {number}")
    return _made(Quota, options, where)


def _options(
    table: Mapping[str, Any], kind: type[Rule] | type[Quota], where: str, lists: tuple[str, ...]
) -> dict[str, Any]:
    known = kind.__dataclass_fields__
    for name in table:
        if name not in known:
            raise ConfigError(f"{where}: {unknown_option(name, known)}")
    options = dict(table)
    for name in lists:
        value = options.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
            raise ConfigError(f"{where}: {name} is {value!r:.60}, and must be a list of texts")
        if len(value) > _ENTRIES_MAX:
            raise ConfigError(f"{where}: {name} has {len(value)} entries; at most {_ENTRIES_MAX} are allowed")
        options[name] = tuple(value)
    return options


def _made(kind: type[_Table], options: dict[str, Any], where: str) -> _Table:
    try:
        return kind(**options)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
