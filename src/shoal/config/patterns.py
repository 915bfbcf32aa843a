"""Patterns of topics compared with each other: `*` is one level, `>` the rest. Names with `_` are reserved.

A pattern that does not begin with `_` matches no reserved topic.
"""

from shoal._core import match_topics


def covers(pattern: str, topic: str) -> bool:
    """Whether a pattern matches a topic, or everything that another pattern matches."""
    if topic.startswith("_") and not pattern.startswith("_"):
        return False
    if "*" not in topic and ">" not in topic:
        return bool(match_topics([pattern], [topic]))
    wanted, levels = pattern.split("/"), topic.split("/")
    for number, level in enumerate(wanted):
        if level == ">":
            return len(levels) > number
        if number >= len(levels) or levels[number] == ">" or (level != "*" and level != levels[number]):
            return False
    return len(wanted) == len(levels)


def could_meet(one: str, other: str) -> bool:
    """Whether a topic could match both patterns."""
    if one.startswith("_") != other.startswith("_"):
        return False
    left, right = one.split("/"), other.split("/")
    for ours, theirs in zip(left, right, strict=False):
        if ">" in (ours, theirs):
            return True
        if ours != theirs and "*" not in (ours, theirs):
            return False
    return len(left) == len(right)
