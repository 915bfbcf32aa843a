"""What a store does now and then: indexes, projection, retention, stagings, the state of the disk."""

import logging
import os
import sqlite3
import time
from typing import Any

from shoal._core import Log, match_topics
from shoal.bus.store_protocol import queue_name
from shoal.errors import StoreCorruptError, StoreError, StoreFailedError, StoreFullError
from shoal.messages import Line, Notice
from shoal.messages import store as notices
from shoal.store.config import StoreConfig
from shoal.store.holds import holds_of
from shoal.store.projection import Projection, Topic
from shoal.store.retention import QUEUE_RULE, SegmentFacts, plan
from shoal.system import free_bytes

log = logging.getLogger("shoal.store")

#: A segment older than this share of the shortest time to keep is sealed, so that it can go in time.
SEAL_SHARE = 0.125
#: A segment is written anew if more of it than this share is rows that were staged and discarded.
RECLAIM_SHARE = 0.5
#: Indexes made in one turn: whoever asks for the status waits for a turn.
INDEXES_MAX = 8
#: Segments written anew in one turn.
COMPACT_MAX = 1
#: Topics whose rule is remembered.
RULES_KNOWN_MAX = 100_000


class Keeper:
    """Keeps a log in order. For one thread at a time."""

    def __init__(self, log_: Log, config: StoreConfig, projection: Projection) -> None:
        self._log = log_
        self._config = config
        self.projection = projection
        self._rule_of_topic: dict[str, int | None] = {}
        #: Facts of sealed segments, by number and bytes: a segment that is written anew has fewer.
        self._facts: dict[tuple[int, int], SegmentFacts] = {}
        #: Trouble that was logged and lasts.
        self._said: set[Notice] = set()
        self._topics: list[dict[str, Any]] = []
        self._topics_at = (0.0, -1)
        try:
            self._reconcile()
        except sqlite3.Error as error:
            # On a full disk the store starts: consuming and retention make room.
            projection.leave_file(error)
            self._reconcile()

    def _reconcile(self) -> None:
        """Make the projection anew if it is not of this log, or ahead of it."""
        incarnation, segment, position = self.projection.stands_for()
        durable = self._log.durable
        if incarnation is not None and (segment, position) > durable[:2]:
            notices.RESTORED_OR_CUT().log(log)
            self._log.renew(os.urandom(16))
        if incarnation != self._log.incarnation or (segment, position) > durable[:2]:
            self.projection.clear()
        self.projection.note_floor(self._log.floor)
        self.project()

    def turn(self, now_s: float | None = None, pin: int | None = None) -> None:
        """Do everything that is due. Messages from `pin` on are needed by queues or subscriptions."""
        now_us = int((time.time() if now_s is None else now_s) * 1e6)
        self.build_indexes()
        try:
            self.project()
            self._said.discard(notices.PROJECTION_BEHIND)
        except sqlite3.Error as error:
            # What is not projected is kept longer at the worst; retention may be what makes room again.
            self._say(notices.PROJECTION_BEHIND(why=error))
        self._expire_stagings(now_us)
        self._seal(now_us)
        self.retain(now_us, pin)
        self._reclaim()

    def build_indexes(self) -> None:
        """Make indexes that are missing. On a full disk segments have none, and are read whole."""
        try:
            for _ in range(INDEXES_MAX):
                if not self._log.build_next_index():
                    break
            self._said.discard(notices.NO_INDEX)
        except StoreFailedError:
            raise
        except StoreCorruptError as error:
            notices.CORRUPT(why=error).log(log)
        except StoreError as error:
            self._say(notices.NO_INDEX(why=error))

    def _say(self, line: Line) -> None:
        """Log trouble that may last, once."""
        if line.notice not in self._said:
            line.log(log)
            self._said.add(line.notice)

    def project(self, removed: tuple[int, ...] = (), changed: tuple[int, ...] = ()) -> None:
        """Bring the projection up to date."""
        sealed = {segment["number"]: segment for segment in self._sealed()}
        known = set(self.projection.segments())
        missing = [number for number in sealed if number not in known or number in changed]
        durable = self._log.durable
        position = durable[0], durable[1]
        if not missing and known <= sealed.keys() and not removed:
            _, *standing = self.projection.stands_for()
            if tuple(standing) == position:
                return
        self.projection.update(
            incarnation=self._log.incarnation,
            store_id=self._log.store_id,
            position=position,
            added=((sealed[number], self._topics_in(number)) for number in missing),
            removed=sorted(known - sealed.keys()),
            holds=holds_of(self._log),
            commits=self._log.scopes(),
        )

    def _sealed(self) -> list[dict[str, Any]]:
        """Sealed segments that have something to read. Some below the floor stay for rows of commits."""
        floor = self._log.floor
        return [each for each in self._log.segments()[:-1] if each["sealed"] and each["end"] > floor]

    def _topics_in(self, segment: int) -> list[Topic]:
        """The topics of a segment; of one that is damaged none are known."""
        try:
            return self._log.segment_topics(segment)
        except StoreCorruptError:
            return []

    def rule_of(self, topic: str) -> int | None:
        """The first rule whose pattern a topic matches; queues have one of their own."""
        known = self._rule_of_topic
        if topic not in known:
            if len(known) >= RULES_KNOWN_MAX:
                known.clear()
            rules = enumerate(self._config.record)
            other = QUEUE_RULE if queue_name(topic) is not None else None
            known[topic] = next((at for at, rule in rules if match_topics([rule.pattern], [topic])), other)
        return known[topic]

    def facts(self) -> list[SegmentFacts]:
        """The sealed segments."""
        known, self._facts = self._facts, {}
        facts, projected = [], set(self.projection.segments())
        for segment in self._sealed():
            key = segment["number"], segment["bytes"]
            facts.append(known.get(key) or self._facts_of(segment))
            if segment["number"] in projected:
                self._facts[key] = facts[-1]
        return facts

    def _facts_of(self, segment: dict[str, Any]) -> SegmentFacts:
        rules: dict[int | None, int] = {}
        for topic, size in self.projection.topics_of(segment["number"]).items():
            rule = self.rule_of(topic)
            rules[rule] = rules.get(rule, 0) + size
        if not rules and segment["end"] > segment["first"] and not segment["compacted"]:
            # It is damaged, or not projected yet: what is in it belongs to no rule, and stays.
            rules[None] = segment["bytes"]
        return SegmentFacts(
            number=segment["number"],
            first=segment["first"],
            end=segment["end"],
            ended_us=segment["ended_us"],
            bytes=segment["bytes"],
            rules=rules,
        )

    @property
    def _keeps_for_ever(self) -> bool:
        config = self._config
        rules = all(rule.keep_s is None and rule.keep_bytes is None for rule in config.record)
        return rules and config.keep_s is None and config.keep_bytes is None

    @property
    def _has_queues(self) -> bool:
        return any(self._log.readers("queue/"))

    def retain(self, now_us: int, pin: int | None = None) -> None:
        """Remove what need not be kept any longer."""
        if self._keeps_for_ever and not self._has_queues:
            return
        holds = [*holds_of(self._log).values(), *([] if pin is None else [pin])]
        unpublished = [first for first, _ in self._log.unpublished()]
        due = plan(
            self._config,
            self.facts(),
            floor=self._log.floor,
            hold=min([*holds, *unpublished], default=None),
            now_us=now_us,
        )
        if due.floor > self._log.floor:
            floor, removed = self._log.trim(due.floor)
            notices.TRIMMED(floor=floor, segments=len(removed)).log(log)
            self.project(removed=tuple(removed))
        for number, rules in due.compact[:COMPACT_MAX]:
            topics = [topic for topic in self.projection.topics_of(number) if self.rule_of(topic) in rules]
            self._compact(number, topics)

    def _seal(self, now_us: int) -> None:
        """Seal the last segment if it would otherwise keep messages far longer than asked."""
        times = [rule.keep_s for rule in self._config.record if rule.keep_s is not None]
        if self._config.keep_s is not None:
            times.append(self._config.keep_s)
        if not times:
            return
        last = self._log.segments()[-1]
        if last["end"] > last["first"] and now_us - last["begun_us"] > SEAL_SHARE * min(times) * 1e6:
            try:
                self._log.seal()
            except StoreFullError:
                # Its messages are kept a little longer.
                return

    def _reclaim(self) -> None:
        """Write a segment anew that is mostly rows which nobody committed."""
        for segment in self._log.segments()[:-1]:
            dead = segment["sealed"] and segment["dead_bytes"] > RECLAIM_SHARE * segment["bytes"]
            if dead and self._compact(segment["number"], []):
                return

    def _compact(self, number: int, topics: list[str]) -> bool:
        """Write a segment anew; false if it has to stay as it is."""
        try:
            if not self._log.compact(number, topics):
                return False
        except (StoreFullError, StoreCorruptError) as error:
            self._say(notices.NOT_COMPACTED(segment=number, why=error))
            return False
        self._said.discard(notices.NOT_COMPACTED)
        notices.COMPACTED(segment=number, topics=len(topics)).log(log)
        self.project(changed=(number,))
        return True

    def _expire_stagings(self, now_us: int) -> None:
        oldest_us = now_us - self._config.staging_keep_s * 1e6
        old = [staging[0] for staging in self._log.stagings() if staging[3] < oldest_us]
        if old:
            self._log.discard(old)
            notices.STAGINGS_EXPIRED(stagings=len(old)).log(log)

    def lost_before(self, patterns: list[str]) -> int:
        """The offset after the last message removed that matches, as far as is known; 0 if none was."""
        known_from = self.projection.fact("drops_known_from") or 0
        dropped = dict(self.projection.dropped())
        matching = match_topics(patterns, list(dropped)) if patterns else list(dropped)
        return max([known_from, *(dropped[topic] for topic in matching)])

    def disk_bytes(self) -> dict[str, int]:
        """What the log takes, and what is free."""
        count, spare_bytes = self._log.spares
        return {
            "log": sum(segment["bytes"] for segment in self._log.segments()),
            "spare": spare_bytes,
            "spare_segments": count,
            "free": free_bytes(self._config.path),
        }

    def topics(self, older_s: float = 0.0) -> list[dict[str, Any]]:
        """Every topic: how many messages, the first and last offset; perhaps as it was `older_s` ago."""
        end, now = self._log.durable_end, time.monotonic()
        if end != self._topics_at[1] and now - self._topics_at[0] >= older_s:
            self._topics, self._topics_at = self._list_topics(end), (now, end)
        return self._topics

    def _list_topics(self, end: int) -> list[dict[str, Any]]:
        found = {name: [count, first, last] for name, count, first, last, _ in self.projection.topics()}
        known = self.projection.segments()
        sealed = [segment["end"] for segment in self._log.segments() if segment["number"] in known]
        recent = self._log.topics(max([self._log.floor, *sealed[-1:]]), end, [])
        for name, count, first, last in recent:
            if name in found:
                found[name] = [found[name][0] + count, found[name][1], last]
            else:
                found[name] = [count, first, last]
        return [
            {"topic": name, "messages": count, "first": first, "last": last}
            for name, (count, first, last) in sorted(found.items())
        ]
