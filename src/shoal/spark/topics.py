"""Which topics a query reads: patterns, or those of a store's topics that a regular expression matches."""

import re
from collections.abc import Iterable

from shoal.errors import ConfigError

#: A regular expression may stand for as many topics; a pattern has no such bound.
TOPICS_MAX = 10_000


def matches(pattern: str, topic: str) -> bool:
    """Whether a pattern with wildcards stands for a topic."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if levels[0].startswith("_") and wanted[0] in ("*", ">"):
        return False
    for at, level in enumerate(wanted):
        if level == ">":
            return len(levels) > at
        if at >= len(levels) or level not in ("*", levels[at]):
            return False
    return len(levels) == len(wanted)


def narrowed(patterns: Iterable[str], topics: Iterable[str] | None) -> tuple[str, ...]:
    """The patterns, or of `topics` those that some pattern stands for."""
    if topics is None:
        return tuple(patterns)
    kept = list(patterns)
    return tuple(sorted(topic for topic in topics if any(matches(pattern, topic) for pattern in kept)))


def matching(regex: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Those topics that the expression matches as a whole."""
    compiled = re.compile(regex)
    found = tuple(sorted(topic for topic in topics if compiled.fullmatch(topic)))
    if len(found) > TOPICS_MAX:
        raise ConfigError(
            f"option subscribePattern matches {len(found)} topics, and {TOPICS_MAX} are the most: use option "
            "subscribe with wildcards (* for one level, > for all that follow)"
        )
    return found
