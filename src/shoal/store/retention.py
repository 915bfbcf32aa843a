"""Which segments may go, and what within others. Decides from figures alone; the keeper acts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shoal.store.config import StoreConfig

#: The rule of queues' messages: they go once nobody needs them.
QUEUE_RULE = -1
#: A segment is written anew only if this share of it goes.
COMPACT_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """A sealed segment."""

    number: int
    first: int
    end: int
    ended_us: int
    bytes: int
    #: Bytes of messages in it, by the number of the rule they belong to; none is those without a rule.
    rules: Mapping[int | None, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to go."""

    #: History begins here: everything below goes.
    floor: int
    #: Segments to write anew, and the rules whose messages they lose.
    compact: tuple[tuple[int, frozenset[int | None]], ...] = ()


def plan(
    config: StoreConfig, segments: Sequence[SegmentFacts], *, floor: int, hold: int | None, now_us: int
) -> Plan:
    """What is to go now.

    `segments` are the sealed ones, oldest first; `hold` is the lowest offset that somebody still needs.
    """
    kept: dict[int | None, int] = {}
    total = 0
    expired: dict[int, frozenset[int | None]] = {}
    oversized: set[int] = set()
    for segment in reversed(segments):
        total += segment.bytes
        if config.keep_bytes is not None and total > config.keep_bytes:
            oversized.add(segment.number)
        for rule, size in segment.rules.items():
            kept[rule] = kept.get(rule, 0) + size
        expired[segment.number] = frozenset(
            rule for rule in segment.rules if _has_expired(config, rule, segment, kept[rule], now_us)
        )
    new_floor = floor
    rest = list(segments)
    while rest and _may_go(rest[0], hold) and _is_spent(rest[0], expired, oversized):
        new_floor = max(new_floor, rest.pop(0).end)
    compact = [
        (segment.number, expired[segment.number])
        for segment in rest
        if _may_go(segment, hold) and _is_worth_it(segment, expired[segment.number])
    ]
    return Plan(new_floor, tuple(compact))


def _has_expired(
    config: StoreConfig, rule: int | None, segment: SegmentFacts, kept_bytes: int, now_us: int
) -> bool:
    keep_s, keep_bytes = config.keep_s, None
    if rule == QUEUE_RULE:
        return True
    if rule is not None:
        found = config.record[rule]
        keep_s = found.keep_s if found.keep_s is not None else config.keep_s
        keep_bytes = found.keep_bytes
    too_old = keep_s is not None and segment.ended_us < now_us - keep_s * 1e6
    return too_old or (keep_bytes is not None and kept_bytes > keep_bytes)


def _may_go(segment: SegmentFacts, hold: int | None) -> bool:
    return hold is None or segment.end <= hold


def _is_spent(
    segment: SegmentFacts, expired: Mapping[int, frozenset[int | None]], oversized: set[int]
) -> bool:
    """Whether nothing in it is to be kept. One without messages goes with those before it."""
    return segment.number in oversized or len(expired[segment.number]) == len(segment.rules)


def _is_worth_it(segment: SegmentFacts, going: frozenset[int | None]) -> bool:
    """Whether so much of a segment goes that it is worth writing anew."""
    size = sum(segment.rules[rule] for rule in going)
    return bool(going) and size >= COMPACT_SHARE * sum(segment.rules.values())
