"""A program: it publishes, subscribes, flushes and syncs, over one link or two."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from .chain import Chain, Kept
from .records import (
    Announce,
    Entry,
    Goodbye,
    Message,
    Own,
    Position,
    Positions,
    Replay,
    Root,
    Skip,
    Subject,
    Watch,
    matches,
)
from .requests import AskingNode, Requests

if TYPE_CHECKING:
    from .network import Lane, Link

#: Messages that a publisher keeps, wanted or not.
HISTORY_MAX = 400
#: A run of skips is said after this time.
SKIP_S = 0.05
#: Pauses after the last message, after which a publisher says its position.
POSITION_S = (1.0, 1.0, 2.0, 4.0, 8.0)
#: A Watch is repeated, and completeness is looked at.
WATCH_S, LOOK_S = 1.0, 0.05
TURN_S = 0.25
#: A goodbye leaves before its program does.
LINGER_S = 0.05


@dataclass
class Flush:
    """A flush, and what became of it."""

    publisher: int
    number: int
    ends_s: float
    outcome: Literal["waiting", "confirmed", "failed"] = "waiting"
    at_s: float = 0.0
    losers: frozenset[int] = frozenset()


class _Skipped(NamedTuple):
    link: Link
    first: int
    end: int
    clock: int


class Program(AskingNode):
    """A node with an application."""

    def start(self) -> None:
        """Begin with nothing."""
        super().start()
        self.requests = Requests(self, patience=1.0, asks_of_one=1)
        self._version = 1
        self.subscriptions: dict[int, Entry] = {}
        #: When `sync()` confirmed each subscription; a subscriber counts on it from then on.
        self.confirmed_at_s: dict[int, float] = {}
        self._oldest_s: float | None = None
        self.received: dict[int, list[int]] = defaultdict(list)
        self.lost: dict[int, list[int]] = defaultdict(list)
        self.published = 0
        self.history: dict[int, Kept] = {}
        #: Numbers that no neighbour on the active link wants, and that were not said there yet.
        self._skipped: _Skipped | None = None
        self._active_before: Link | None = None
        self._watches = 0

    def begin(self) -> None:
        """Start to turn."""
        self.later(0.0, self._turn)

    # --- links ---

    @property
    def active(self) -> Link:
        """The link that it publishes over: the first one with a router."""
        for link in self.links:
            if link.is_up and any(not self.is_program(member) for member in self.members[link.number]):
                return link
        return self.links[0]

    @property
    def root(self) -> Root:
        """Where its chain enters the network."""
        link = self.active
        if link.is_lan:
            return ("lan", link.number)
        return ("router", next(node.id for node in link.nodes if node is not self))

    def on_members(self, link: Link, member: int) -> None:
        """If another link is the active one now, its router learns how far the chain is."""
        active = self.active
        if self.published and active is not self._active_before:
            self._end_skip()
            self.tell_all(active, Positions((self._position(),)))
        self._active_before = active

    def on_map(self) -> None:
        """A router that left the tree may return (C12)."""
        self.completeness.note_tree(self.root)

    def _position(self) -> Position:
        return Position(self.id, self.published, self.root, self.has_left)

    def positions(self, link: Link) -> list[Position]:
        """Chains it reads, and its own."""
        return super().positions(link) + ([self._position()] if self.published else [])

    # --- publishing ---

    def publish(self, topic: int, value: int) -> None:
        """Give a number, and send it or skip it."""
        if not self.works or self.has_left:
            return
        self.published += 1
        kept = Kept(topic, value, self.now_s)
        self.history[self.published] = kept
        self.history.pop(self.published - HISTORY_MAX, None)
        link = self._active_before = self.active
        if self._is_wanted(link, kept):
            self._end_skip()
            self.put(link, Message(self.id, self.published, *kept, self.root))
        else:
            before = self._skipped
            if before and (before.clock, before.link) != (self.clock, link):
                # A run of skips never spans a change of the clock, and is for the link it was decided for.
                self._end_skip()
            first = self._skipped.first if self._skipped else self.published
            self._skipped = _Skipped(link, first, self.published + 1, self.clock)
            self.later(SKIP_S, self._end_skip)
        self.later(POSITION_S[0], self._say_position, self.published, 1)

    def _is_wanted(self, link: Link, kept: Kept, member: int | None = None) -> bool:
        for each in [member] if member is not None else self.members[link.number]:
            said = self.announced.get((link.number, each))
            if said is None or matches(said.interest, kept.topic, kept.value):
                return True
        return False

    def _end_skip(self) -> None:
        if self._skipped is not None and self._skipped.link.is_up:
            link, first, end, clock = self._skipped
            self.put(link, Skip(self.id, first, end, "unwanted", clock, None, self.root))
        self._skipped = None

    def _say_position(self, number: int, count: int) -> None:
        if self.published == number:
            self.tell_all(self.active, Positions((self._position(),)))
            if count < len(POSITION_S) and not self.has_left:
                self.later(POSITION_S[count], self._say_position, number, count + 1)

    def on_replay(self, link: Link, sender: int, record: Replay) -> None:
        """The publisher has the last word: it answers from all it published."""
        if record.chain != self.id:
            return
        first, root = record.first, self.root
        if first == 0:
            assert record.age_s is not None
            young = [number for number, kept in self.history.items() if kept.at_s >= record.age_s]
            first = min(young, default=self.published + 1)
            self.answer(link, sender, Skip(self.id, 1, first, "older", self.clock, None, root))
        clock: int | Own = self.clock
        if link.is_lan and self.rules.unicast_version:
            clock = Own(self.own_applied.get((link.number, sender), (0, 0))[1])
        oldest = min(self.history, default=1)
        if first < oldest:
            self.answer(link, sender, Skip(self.id, first, oldest, "lost", self.clock, None, root))
            first = oldest
        unwanted = 0
        for number in range(first, self.published + 1):
            kept = self.history[number]
            if not self._is_wanted(link, kept, sender):
                unwanted = unwanted or number
                continue
            if unwanted:
                self.answer(link, sender, Skip(self.id, unwanted, number, "unwanted", clock, None, root))
                unwanted = 0
            self.answer(link, sender, Message(self.id, number, *kept, root))
        if unwanted:
            end = self.published + 1
            self.answer(link, sender, Skip(self.id, unwanted, end, "unwanted", clock, None, root))

    def leave(self) -> None:
        """Say goodbye with the last number, and be gone."""
        if self.is_dead:
            return
        self._end_skip()
        self.has_left = True
        for link in self.links:
            self.tell_all(link, Goodbye(self.published, self.root))
        self.network.after(LINGER_S, self.die)

    def die(self) -> None:
        """Be gone."""
        self.is_dead = True

    # --- subscribing ---

    @property
    def version(self) -> int:
        """Counts changes of its subscriptions."""
        return self._version

    def announcement(self, link: Link) -> Announce:
        """All its subscriptions."""
        return Announce(self._version, frozenset(self.subscriptions.values()), is_router=False)

    def subscribe(self, key: int, entry: Entry) -> None:
        """Subscribe, and sync."""
        if self.is_dead:
            return
        self.subscriptions[key] = entry
        if self._oldest_s is None:
            self._oldest_s = self.now_s
        self._changed()
        self.later(0.01, self._sync, key, self._version, 0)

    def unsubscribe(self, key: int) -> None:
        """Unsubscribe."""
        if self.subscriptions.pop(key, None) is not None:
            self.confirmed_at_s.pop(key, None)
            self._changed()

    def _changed(self) -> None:
        self._version += 1
        self.clock += 1
        for link in self.links:
            self.announce(link)

    def _sync(self, key: int, version: int, count: int) -> None:
        """Wait until every router on the tree reported that it knows the version."""
        if key not in self.subscriptions:
            return
        subject, root = Subject("interest", self.id), self.root
        if count % int(WATCH_S / LOOK_S) == 0:
            self._watch(subject, root)
        known, _ = self.completeness.behind(subject, root)
        if count and known >= version and not self.completeness.is_router_missing():
            self.confirmed_at_s[key] = self.now_s
            if self.rules.sync_floor:
                for link in self.links:
                    for node in link.nodes:
                        place = (link.number, node.id)
                        self.floor[place] = max(self.floor.get(place, 0), version)
            return
        self.later(LOOK_S, self._sync, key, version, count + 1)

    def _watch(self, subject: Subject, root: Root) -> None:
        self._watches += 1
        self.tell_all(self.active, Watch(subject, root, self._watches))

    # --- receiving ---

    def on_message(self, link: Link, sender: int, lane: Lane, record: Message) -> None:
        """Take the next number; ask for a gap."""
        if record.chain == self.id:
            return
        chain, number = self.chain(record.chain, record.root), record.number
        chain.last = max(chain.last, number)
        if chain.next == 0:
            if number > 1 and self.rules.head_by_age:
                self._unknown(chain, number, (link, sender))
                return
            chain.next = number
        if number == chain.next:
            self._take(chain, number)
        elif number > chain.next:
            self._note_above(chain, number)
            self.requests.need(chain, chain.next, None, (link, sender))

    def _take(self, chain: Chain, number: int) -> None:
        chain.next = number + 1
        if chain.above < chain.next:
            chain.above = 0
        before = self.received[chain.publisher]
        if before and before[-1] >= number:
            self.network.violate("in order, once", f"{self.id} read {number} of {chain.publisher} again")
        before.append(number)
        self.completeness.acknowledge(chain.publisher)

    def _unknown(self, chain: Chain, number: int, via: tuple[Link, int]) -> None:
        """C7: what came before may be lost; it is asked for by age."""
        if not self.subscriptions:
            chain.next = number
            return
        chain.above = min(chain.above or number, number)
        self.requests.need(chain, 0, self._oldest_s, via)

    def _note_above(self, chain: Chain, number: int) -> None:
        chain.above = min(chain.above, number) if chain.above > chain.next else number

    def on_skip(self, link: Link, sender: int, lane: Lane, record: Skip) -> None:
        """Believe a skip that was decided with our subscriptions in view; ask for others."""
        if record.chain == self.id:
            return
        chain = self.chain(record.chain, record.root)
        chain.last = max(chain.last, record.end - 1)
        if record.why == "older":
            if chain.next == 0 and record.first <= 1:
                chain.next, chain.above = record.end, 0
            elif chain.next and record.first <= chain.next < record.end:
                chain.next = record.end
            return
        if chain.next == 0:
            if record.first > 1 and self.rules.head_by_age:
                self._unknown(chain, record.first, (link, sender))
                return
            chain.next = record.first
        if record.end <= chain.next:
            return
        if record.first > chain.next:
            self._note_above(chain, record.first)
            self.requests.need(chain, chain.next, None, (link, sender))
            return
        if record.why == "lost":
            self._lose(chain, chain.next, record.end)
        elif not self._is_valid(link, sender, record):
            self.network.counts["skips not believed"] += 1
            self.requests.need(chain, chain.next, None, (link, sender))
            return
        chain.next = record.end
        self.completeness.acknowledge(chain.publisher)

    def _is_valid(self, link: Link, sender: int, record: Skip) -> bool:
        place = (link.number, sender)
        floor = self.floor.get(place)
        if floor is None:
            return False
        if isinstance(record.clock, Own):
            return record.clock.version >= floor
        clock = record.clock
        applied = self.applied.get(place, {})
        return any(version >= floor and since <= clock for version, since in applied.items())

    def _lose(self, chain: Chain, first: int, end: int) -> None:
        """Report numbers lost to the application."""
        self.lost[chain.publisher].extend(range(first, end))
        self.network.counts["lost"] += end - first
        for number in range(first, end):
            self.network.after(0.0, self.network.on_lost, self, chain.publisher, number)

    def has_lost(self, publisher: int) -> bool:
        """Whether something of a publisher was reported lost."""
        return bool(self.lost[publisher])

    def on_position(self, link: Link, sender: int, entry: Position) -> None:
        """Ask for what is missing at the head or at the tail."""
        chain = self.chain(entry.chain, entry.root)
        chain.last = max(chain.last, entry.last)
        chain.ended |= entry.ended
        if not self.subscriptions:
            return
        if chain.next == 0:
            self.requests.need(chain, 0, self._oldest_s, (link, sender))
        elif entry.last >= chain.next:
            self.requests.need(chain, chain.next, None, (link, sender))

    # --- requests ---

    def open_number(self, chain: Chain) -> int | None:
        """The next number, if a higher one exists; 0 by age."""
        if chain.next > max(chain.last, chain.above) or not self.subscriptions:
            return None
        return chain.next

    def neighbours_to_ask(self, chain: Chain, count: int) -> list[tuple[Link, int]]:
        """The publisher if it is a neighbour, then the routers."""
        beside = [
            (link, chain.publisher) for link in self.links if chain.publisher in self.members[link.number]
        ]
        return beside + [
            (link, member)
            for link in self.links
            for member in sorted(self.members[link.number])
            if not self.is_program(member)
        ]

    def age_to_ask(self, asked_s: float | None) -> float:
        """The age of the oldest subscription."""
        return self.now_s if self._oldest_s is None else self._oldest_s

    def give_up(self, chain: Chain, first: int) -> None:
        """No neighbour answers: report the hole lost."""
        end = chain.above if chain.above > chain.next else chain.last + 1
        self._lose(chain, chain.next or 1, end)
        chain.next = end
        if chain.above < chain.next:
            chain.above = 0
        self.completeness.acknowledge(chain.publisher)

    def _turn(self) -> None:
        for chain in list(self.chains.values()):
            if chain.ask is None and (first := self.open_number(chain)) is not None:
                self.requests.need(chain, first, self._oldest_s)
        self.later(TURN_S, self._turn)

    # --- flush ---

    def flush(self, deadline_s: float) -> Flush:
        """Wait until all behind reported the last number, or the deadline is over."""
        flush = Flush(self.id, self.published, self.now_s + deadline_s)
        self.network.flushes.append(flush)
        self._flush(flush, 0)
        return flush

    def _flush(self, flush: Flush, count: int) -> None:
        if self.now_s > flush.ends_s:
            flush.outcome = "failed"
            return
        subject, root = Subject("messages", self.id), self.root
        if count % int(WATCH_S / LOOK_S) == 0:
            self._watch(subject, root)
        number, losers = self.completeness.behind(subject, root)
        if count and number >= flush.number and not self.completeness.is_router_missing():
            flush.outcome, flush.at_s, flush.losers = "confirmed", self.now_s, losers
            self.network.on_confirmed(flush)
            return
        self.later(LOOK_S, self._flush, flush, count + 1)
