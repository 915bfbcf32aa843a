"""What a store forwards to another one: a rule, as keywords or a table of its configuration say it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from shoal._core import match_topics
from shoal.bus.store_protocol import QUEUES, TEMPORARY_QUEUES, is_queue_name, queue_name
from shoal.config.checks import Checked, unknown_option
from shoal.config.target import target_of
from shoal.errors import ConfigError

#: Rules of one store.
RULES_MAX = 100
#: Where messages go that no store takes: it belongs to each store, and stays there.
DEAD_LETTERS = "dead-letters"


@dataclass(frozen=True, kw_only=True)
class ForwardRule(Checked):
    """Persistent messages that a store takes into custody and forwards to the next store."""

    #: What the rule is called, for ever: how far it is belongs to its name.
    name: str
    #: Topics, as patterns, and queues, as `_queue/NAME`.
    patterns: tuple[str, ...]
    #: The address of the next store, `tcp://host:port` or `tls://host:port`.
    to: str
    #: The domain of the next store; none is this store's own.
    domain: str | None = None
    #: Keep a message until the next store has `stored` it, or until that one has `passed` it on in its turn.
    release: Literal["stored", "passed"] = "stored"
    #: Have the next store publish topics to live subscribers there; not where routers join both sites.
    publish: bool = True
    #: What may wait here, in bytes; beyond it publishers are refused. None is without a limit of its own.
    backlog_max_bytes: int | None = None
    #: A file with the token to show to the next store.
    token_file: Path | None = None
    #: The fingerprint of the next store's certificate, or a file with the authorities that signed it.
    fingerprint: str | None = None
    ca: str | None = None

    def __post_init__(self) -> None:
        self.check_types()
        fine = isinstance(self.patterns, tuple) and bool(self.patterns)
        self.check("patterns", fine and all(isinstance(each, str) for each in self.patterns), "patterns")
        self.check(
            "name", is_queue_name(self.name) and "/" not in self.name, "a name without '/' and wildcards"
        )
        self.check("token_file", self.token_file is None or isinstance(self.token_file, Path), "a file")
        self.check_range("backlog_max_bytes", 1)
        for pattern in self.patterns:
            _check_pattern(pattern)
        target = target_of(self.to, 0)
        if target.scheme not in ("tcp", "tls"):
            raise ConfigError(f"to is {self.to!r}, and must be tcp://host:port or tls://host:port")

    @property
    def queues(self) -> frozenset[str]:
        """The names of the queues that it forwards."""
        return frozenset(name for pattern in self.patterns if (name := queue_name(pattern)) is not None)

    @property
    def topics(self) -> list[str]:
        """The patterns of topics that it forwards."""
        return [pattern for pattern in self.patterns if queue_name(pattern) is None]

    def matches(self, destination: str) -> bool:
        """Whether a topic, or the destination of a queue, is forwarded. What is reserved never is."""
        name = queue_name(destination)
        if name is not None:
            return name in self.queues
        return not destination.startswith("_") and bool(match_topics(self.topics, [destination]))


def _check_pattern(pattern: str) -> None:
    """Refuse what is no pattern of topics, or the destination of a queue that stays."""
    name = queue_name(pattern)
    if name is None:
        # Raises what is wrong with it.
        match_topics([pattern], [])
        if pattern.startswith("_"):
            raise ConfigError(f"patterns has {pattern!r}: topics that begin with '_' are not forwarded")
    elif not is_queue_name(name) or name.startswith(TEMPORARY_QUEUES) or name == DEAD_LETTERS:
        raise ConfigError(
            f"patterns has {pattern!r}, and must name a queue, {QUEUES}NAME: no wildcards, no temporary "
            f"queue, not {DEAD_LETTERS!r}, which each store has for itself"
        )


def forward_rules(given: Any) -> tuple[ForwardRule, ...]:
    """Rules from mappings, as a TOML file has them."""
    if isinstance(given, (str, bytes, Mapping)):
        raise ConfigError(
            f"forward is {given!r:.100}, and must be a list of tables with name, patterns and to"
        )
    rules = tuple(_rule(each) for each in given)
    names = [rule.name for rule in rules]
    if len(set(names)) < len(names):
        raise ConfigError(f"forward has two rules of one name: {', '.join(sorted(names))}")
    if len(rules) > RULES_MAX:
        raise ConfigError(f"forward has {len(rules)} rules, and may have {RULES_MAX}")
    queues = [queue for rule in rules for queue in rule.queues]
    if len(set(queues)) < len(queues):
        twice = next(queue for queue in queues if queues.count(queue) > 1)
        raise ConfigError(
            f"forward has two rules for the queue {twice!r}: a message of a queue goes to one store"
        )
    return rules


def _rule(each: Any) -> ForwardRule:
    if isinstance(each, ForwardRule):
        return each
    if not isinstance(each, Mapping):
        raise ConfigError(f"forward has {each!r:.100}, and must have tables with name, patterns and to")
    known = ForwardRule.__dataclass_fields__
    for name in each:
        if name not in known:
            raise unknown_option(name, known, " in forward")
    for name in ("name", "patterns", "to"):
        if name not in each:
            raise ConfigError(f"forward has a rule without {name}: {dict(each)!r:.200}")
    given = dict(each)
    patterns = given["patterns"]
    given["patterns"] = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    if isinstance(given.get("token_file"), str):
        given["token_file"] = Path(given["token_file"])
    return ForwardRule(**given)
