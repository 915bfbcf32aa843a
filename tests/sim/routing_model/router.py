"""A router: one ring for each chain, a cursor for each target, and one request for what it lacks itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .announcer import Announcer
from .chain import Chain, Kept, RingEntry, Target, To, Unwanted
from .records import (
    Message,
    Position,
    Positions,
    Replay,
    Skip,
    Why,
    matches,
)
from .requests import ASKS_OF_ONE, Requests
from .skip_run import SkipRun

if TYPE_CHECKING:
    from .network import Lane, Link, Network

FAR = 10**9
#: C11: a router gives up before the readers behind it do.
ROUTER_SHARE = 0.6
#: A standby router serves a LAN on which nothing came for this time.
STALL_S = 1.0
#: A publisher that ended may have data on its way for this time.
LANE_END_S = 0.5
#: Requests for the last word of a publisher that is gone, before the nearest hop gives it.
LAST_ASKS = 4
TURN_S = 0.25
LINK_STATE_TURNS = 20
#: Silence after which positions are said again, so that a lost one is found.
POSITION_AGES_S = (1.0, 2.0, 4.0, 8.0)


class Router(Announcer):
    """A node that forwards."""

    def __init__(self, network: Network, id_: int) -> None:
        self.ring_max = network.draw.choice((16, 60, 1000))
        super().__init__(network, id_)

    def start(self) -> None:
        """Begin with nothing."""
        super().start()
        share = ROUTER_SHARE if self.rules.last_word else 1.0
        self.requests = Requests(self, patience=share, asks_of_one=ASKS_OF_ONE)

    def begin(self) -> None:
        """The links are known: say so, and start to turn."""
        self.say_links()
        self.later(0.0, self._turn, 0)

    # --- links ---

    def attach(self, link: Link, member: int) -> None:
        """A link of its own is served anew."""
        super().attach(link, member)
        if not link.is_lan:
            for chain in self.chains.values():
                chain.targets.pop(To(link.number), None)
            self._retarget()

    def on_members(self, link: Link, member: int) -> None:
        """A publisher that failed ends its chain."""
        super().on_members(link, member)
        if self.is_program(member) and member not in self.members[link.number]:
            self._missed(link, member)

    def _missed(self, link: Link, member: int) -> None:
        """A publisher failed here: what was heard of it is all that this router will hear."""
        chain = self.chains.get(member)
        if chain is None or chain.root is None or chain.ended or not self.rules.last_word:
            return
        if chain.root in (("lan", link.number), ("router", self.id)):
            chain.ended, chain.ended_at_s = True, self.now_s

    def on_map(self) -> None:
        """Branches may have changed."""
        self._retarget()

    def on_root(self, chain: Chain) -> None:
        """A chain has another tree."""
        self._aim(chain)

    # --- targets ---

    def _retarget(self) -> None:
        for chain in self.chains.values():
            self._aim(chain)

    def _aim(self, chain: Chain) -> None:
        """Serve the links that the chain's tree uses, and programs with a link of their own."""
        if chain.root is None or not chain.next:
            return
        wanted = set(self.tree(chain.root).branches(self.id))
        for link in self.links:
            others = (member for member in self.members[link.number] if member != chain.publisher)
            if link.is_up and not link.is_lan and any(map(self.is_program, others)):
                wanted.add(link.number)
        for to in [to for to in chain.targets if to.asker is None and to.link not in wanted]:
            del chain.targets[to]
        for number in wanted:
            if To(number) not in chain.targets and self.link(number).is_up:
                first = chain.heard.get(number, chain.next) if self.link(number).is_lan else chain.next
                chain.targets[To(number)] = Target(max(1, first))
                self.later(0.0, self._say_position, chain, [number])
        self._pump_all(chain)

    def _say_position(self, chain: Chain, links: list[int]) -> None:
        last = max(chain.next - 1, chain.last)
        if last > 0 and chain.root is not None:
            entry = Position(chain.publisher, last, chain.root, chain.ended)
            for number in links:
                if self.link(number).is_up:
                    self.tell_all(self.link(number), Positions((entry,)))

    def _is_wanted(self, chain: Chain, to: To, kept: Kept, *, strict: bool) -> bool:
        """Whether a target wants a message; an answer holds all that anybody behind it may want."""
        assert chain.root is not None
        to_program = to.asker is not None and self.is_program(to.asker)
        programs = [to.asker] if to_program else [m for m in self.members[to.link] if self.is_program(m)]
        for member in programs:
            said = self.announced.get((to.link, member)) if member is not None else None
            if member != chain.publisher and (said is None or matches(said.interest, kept.topic, kept.value)):
                return True
        routers = self.tree(chain.root).branches(self.id).get(to.link, frozenset())
        if strict and not to_program:
            routers = frozenset(self.interests.keys() - {self.id})
        elif to_program:
            routers = frozenset()
        return any(
            matches(self.interests[router].interest, kept.topic, kept.value)
            for router in routers & self.interests.keys()
        )

    # --- forwarding ---

    def _pump_all(self, chain: Chain) -> None:
        for to in list(chain.targets):
            self._pump(chain, to)

    def _pump(self, chain: Chain, to: To) -> None:
        """Give a target what the ring has from its next number on."""
        target, link = chain.targets.get(to), self.link(to.link)
        if target is None or not link.is_up or chain.root is None:
            return
        if target.age_s is not None and not self._find_age(chain, to, target):
            return
        target.missing = None
        run = SkipRun(self, chain, to)
        while target.next < chain.next or target.next in chain.ring or self._is_answered(chain, target):
            entry = self._entry(chain, target)
            strict = target.next < target.strict_below
            passed = None if entry is None else self._passes(chain, to, entry, strict=strict)
            if passed is None:
                target.missing = target.next
                break
            if isinstance(passed, Kept):
                run.end()
                self.say(to, Message(chain.publisher, target.next, *passed, chain.root))
            else:
                run.add(target.next, *passed)
            target.next += 1
        run.end()
        if target.missing is not None:
            self._lacks(chain, to, target)

    def _is_answered(self, chain: Chain, target: Target) -> bool:
        asked = target.next <= chain.last and target.strict_below > target.next
        return target.next in chain.passing or asked

    def _entry(self, chain: Chain, target: Target) -> RingEntry | None:
        entry = chain.ring.get(target.next) or chain.passing.get(target.next)
        if entry is None and target.next < target.strict_below and self._has_last_word(chain):
            return "lost"
        return entry

    def _passes(
        self, chain: Chain, to: To, entry: RingEntry, *, strict: bool
    ) -> Kept | tuple[Why, int] | None:
        """What a target gets for an entry: the message, a skip with its clock, or nothing yet."""
        if isinstance(entry, Kept):
            return entry if self._is_wanted(chain, to, entry, strict=strict) else ("unwanted", self.clock)
        if not isinstance(entry, Unwanted):
            return entry, self.clock
        assert chain.root is not None
        version = entry.version
        if self.rules.parent_and_digest and entry.digest not in (None, self.tree(chain.root).digest):
            version = 0
        if self.rules.split_horizon and entry.link == to.link:
            version = 0
        asker = to.asker if to.asker is not None else next(iter(self.members[to.link]), None)
        applied_at = self.own_applied.get((to.link, asker), (0, 0))[0] if asker is not None else 0
        if strict and version < applied_at:
            return ("lost", self.clock) if self._has_last_word(chain) else None
        return "unwanted", version

    def say(self, to: To, record: Message | Skip) -> None:
        """Give something to a target."""
        link = self.link(to.link)
        if to.asker is None:
            self.put(link, record)
        else:
            self.network.send(self, link, self.network.nodes[to.asker], "answer", record)

    def _find_age(self, chain: Chain, to: To, target: Target) -> bool:
        """A target asks by age: begin with the first message that is young enough, if that is known."""
        assert target.age_s is not None
        assert chain.root is not None
        older = [
            number
            for number, entry in chain.ring.items()
            if isinstance(entry, Kept) and entry.at_s < target.age_s and number + 1 >= chain.low
        ]
        if not chain.next or (chain.low > 1 and not older):
            if target.ring_only:
                chain.targets.pop(to, None)
            else:
                target.missing = 0
                self.requests.need(chain, 0, target.age_s)
            return False
        target.age_s, target.next, target.strict_below = None, max(older, default=0) + 1, chain.next
        self.say(to, Skip(chain.publisher, 1, target.next, "older", self.clock, None, chain.root))
        return True

    def _lacks(self, chain: Chain, to: To, target: Target) -> None:
        """The ring does not have what a target needs: ask for it, unless the target has to ask elsewhere."""
        if target.ring_only:
            chain.targets.pop(to, None)
        elif self.rules.split_horizon and to.asker is not None and self._upstream_link(chain) == to.link:
            # It hears our upstream itself.
            del chain.targets[to]
        else:
            assert target.missing is not None
            self.requests.need(chain, target.missing)

    def _upstream_link(self, chain: Chain) -> int | None:
        assert chain.root is not None
        if chain.root[0] == "lan" and any(link.number == chain.root[1] for link in self.links):
            return chain.root[1]
        upstream = self.tree(chain.root).upstream(self.id)
        return upstream[0] if upstream else None

    def _has_last_word(self, chain: Chain) -> bool:
        """C11: the publisher ended, and no node nearer to it is left to be asked."""
        if not self.rules.last_word or chain.root is None or not chain.ended:
            return False
        if chain.root != ("router", self.id):
            here = [link for link in self.links if chain.root == ("lan", link.number)]
            if not here:
                return False
            others = any(not self.is_program(member) for member in self.members[here[0].number])
            if others and not (chain.ask and chain.ask.count >= LAST_ASKS):
                return False
        is_read = self.now_s - chain.ended_at_s > LANE_END_S
        return is_read and not any(chain.publisher in self.members[link.number] for link in self.links)

    # --- requests ---

    def open_number(self, chain: Chain) -> int | None:
        """The lowest number that this router lacks; 0 by age."""
        missing = [target.missing for target in chain.targets.values() if target.missing is not None]
        if chain.next and chain.next <= chain.above:
            missing.append(chain.next)
        return min(missing, default=None)

    def neighbours_to_ask(self, chain: Chain, count: int) -> list[tuple[Link, int]]:
        """Towards the publisher; after three requests any router."""
        found = self._nearer(chain) if chain.root is not None else []
        if count >= ASKS_OF_ONE:
            found += [(link, member) for link in self.links for member in self._routers_on(link)]
        return found

    def age_to_ask(self, asked_s: float | None) -> float:
        """The age that the target asked for."""
        return self.now_s if asked_s is None else asked_s

    def before_asking(self, chain: Chain) -> None:
        """Targets may have been served meanwhile."""
        self._pump_all(chain)

    def _nearer(self, chain: Chain) -> list[tuple[Link, int]]:
        assert chain.root is not None
        on_root_lan = [link for link in self.links if chain.root == ("lan", link.number)]
        if on_root_lan or chain.root == ("router", self.id):
            found = [
                (link, chain.publisher) for link in self.links if chain.publisher in self.members[link.number]
            ]
            return found or [(link, member) for link in on_root_lan for member in self._routers_on(link)]
        upstream = self.tree(chain.root).upstream(self.id)
        if upstream is None:
            return []
        link = self.link(upstream[0])
        return [(link, upstream[1])] if upstream[1] else [(link, member) for member in self._routers_on(link)]

    def _routers_on(self, link: Link) -> list[int]:
        return sorted(member for member in self.members[link.number] if not self.is_program(member))

    def give_up(self, chain: Chain, first: int) -> None:
        """No neighbour answers: forward the hole as lost (C11), before the readers behind give up."""
        if self.rules.last_word and first:
            end = min(
                [number for number in chain.ring if number > first] + [max(chain.next, chain.above + 1)]
            )
            for target in chain.targets.values():
                if target.missing == first:
                    target.missing, target.age_s, target.next = None, None, max(target.next, 1)
            for number in range(first, end):
                chain.passing[number] = "lost"
                chain.keep(number, "lost", self.ring_max)
            chain.next = max(chain.next, end)
            self._pump_all(chain)
            chain.passing = {}
            return
        for to, target in list(chain.targets.items()):
            if to.asker is not None:
                del chain.targets[to]
                continue
            if target.missing == first:
                target.missing, target.age_s, target.strict_below = None, None, 0
                target.next = max(target.next if target.next < FAR // 2 else chain.next, chain.low, 1)
            if target.next == first:
                target.next = min([number for number in chain.ring if number > first] + [chain.next])
        if chain.next == first:
            chain.next = max(chain.next, chain.above)
            chain.low = max(chain.low, 1)

    # --- receiving ---

    def on_message(self, link: Link, sender: int, lane: Lane, record: Message) -> None:
        """Take the next number, ask for a gap, give an older one to targets that wait for it."""
        if record.chain == self.id:
            return
        chain = self.chain(record.chain, record.root)
        number, kept = record.number, Kept(record.topic, record.value, record.at_s)
        chain.last = max(chain.last, number)
        if lane == "data":
            chain.hear(link.number, number + 1, self.now_s)
            target = chain.targets.get(To(link.number))
            is_live = target is not None and target.missing is None and not target.strict_below
            if target is not None and link.is_lan and is_live and target.next <= number:
                target.next = number + 1
        if chain.next == 0:
            self._begin(chain, number)
        if number == chain.next:
            chain.keep(number, kept, self.ring_max)
            chain.next, chain.moved_at_s = number + 1, self.now_s
        elif number > chain.next:
            chain.above = max(chain.above, number)
            self.requests.need(chain, chain.next, None, (link, sender))
            return
        elif not isinstance(chain.ring.get(number), Kept) and any(
            target.missing in (number, 0) for target in chain.targets.values()
        ):
            chain.passing = {number: kept}
            chain.keep(number, kept, self.ring_max)
        self._pump_all(chain)
        chain.passing = {}
        self.completeness.report_all(only_changed=True)

    def _begin(self, chain: Chain, number: int) -> None:
        """The first that is known of a chain: links are served from there on."""
        chain.next = chain.low = number
        self._aim(chain)
        for target in chain.targets.values():
            if target.age_s is None and not target.strict_below:
                target.next = max(target.next, number)

    def on_skip(self, link: Link, sender: int, lane: Lane, record: Skip) -> None:
        """Note under which of our views numbers are not wanted, as far as it may be believed (C1)."""
        if record.chain == self.id:
            return
        chain = self.chain(record.chain, record.root)
        chain.last = max(chain.last, record.end - 1)
        tree = self.tree(record.root)
        version = self.translated(link, sender, record.clock)
        if lane == "data" and record.why != "older" and link.is_lan:
            chain.hear(link.number, record.end, self.now_s)
        if record.why == "unwanted" and sender != record.chain and self.rules.parent_and_digest:
            if tree.upstream(self.id) != (link.number, sender):
                return
            if record.digest != tree.digest:
                version = 0
        if record.why == "older":
            self._on_older(chain, record)
            return
        if chain.next == 0:
            chain.next = chain.low = record.first
        if record.first > chain.next:
            chain.above = max(chain.above, record.end - 1)
            self.requests.need(chain, chain.next, None, (link, sender))
            return
        entry: RingEntry = "lost"
        if record.why == "unwanted":
            entry = Unwanted(version, tree.digest, link.number)
        for number in range(record.first, record.end):
            self._note(chain, number, entry)
        self._pump_all(chain)
        chain.passing = {}
        self.completeness.report_all(only_changed=True)

    def _note(self, chain: Chain, number: int, entry: RingEntry) -> None:
        """A skip of one number: a newer view replaces an older one."""
        if number >= chain.next:
            chain.keep(number, entry, self.ring_max)
            chain.next = number + 1
            return
        before = chain.ring.get(number)
        if before is None:
            if any(t.missing is not None and t.missing <= number for t in chain.targets.values()):
                chain.passing[number] = entry
                chain.keep(number, entry, self.ring_max)
        elif isinstance(before, Unwanted):
            assert chain.root is not None
            known = before.version if before.digest == self.tree(chain.root).digest else -1
            if not isinstance(entry, Unwanted) or entry.version > known:
                chain.ring[number] = entry

    def _on_older(self, chain: Chain, record: Skip) -> None:
        """The answer to a request by age: what is below `end` is older."""
        assert chain.root is not None
        if chain.next == 0:
            chain.next = chain.low = record.end
        for number in range(max(record.first, record.end - 200), record.end):
            if number not in chain.ring:
                chain.keep(number, "older", self.ring_max)
        chain.low = min(chain.low, record.first)
        for to, target in chain.targets.items():
            if target.age_s is not None:
                target.age_s, target.next = None, record.end
                target.strict_below = max(chain.next, chain.last + 1)
                self.say(to, Skip(chain.publisher, 1, record.end, "older", self.clock, None, chain.root))
        self._pump_all(chain)

    def on_position(self, link: Link, sender: int, entry: Position) -> None:
        """Ask for what is missing, and tell the other links."""
        chain = self.chain(entry.chain, entry.root)
        is_new = entry.last > max(chain.last, chain.next - 1) or (entry.ended and not chain.ended)
        chain.last = max(chain.last, entry.last)
        if entry.ended and not chain.ended:
            chain.ended, chain.ended_at_s = True, chain.ended_at_s or self.now_s
        if not is_new:
            return
        self._say_position(chain, [each.number for each in self.links if each is not link])
        if not chain.next:
            self._begin(chain, entry.last + 1)
        elif entry.last >= chain.next:
            chain.above = max(chain.above, entry.last)
            self.requests.need(chain, chain.next, None, (link, sender))

    def on_replay(self, link: Link, sender: int, record: Replay) -> None:
        """A neighbour asks: its target goes back to what it lacks."""
        chain = self.chain(record.chain, record.root)
        to = To(link.number, sender if link.is_lan else None)
        target = chain.targets.setdefault(to, Target(record.first))
        target.age_s = record.age_s if record.first == 0 else None
        target.next = record.first or FAR // 2
        target.strict_below = max(chain.next, chain.last + 1, record.first + 1)
        target.asked_at_s = self.now_s
        target.ring_only = (
            self.rules.ring_only
            and not self.is_program(sender)
            and chain.root is not None
            and sender not in self.tree(chain.root).branches(self.id).get(link.number, ())
        )
        self._pump(chain, to)
        if to.asker is not None:
            self.later(0.5, self._end_answer, chain, to, self.now_s)

    def _end_answer(self, chain: Chain, to: To, asked_at_s: float) -> None:
        """An asker that reached the live stream needs no answers of its own."""
        target = chain.targets.get(to)
        if target is not None and target.asked_at_s == asked_at_s:
            if target.next >= chain.next:
                del chain.targets[to]
            else:
                self.later(0.5, self._end_answer, chain, to, asked_at_s)

    # --- each quarter of a second ---

    def _turn(self, count: int) -> None:
        for chain in list(self.chains.values()):
            silent_s = self.now_s - chain.moved_at_s
            if any(age_s <= silent_s < age_s + TURN_S for age_s in POSITION_AGES_S):
                self._say_position(chain, [link.number for link in self.links])
            self._take_over(chain)
            self.requests.again(chain)
        if count % LINK_STATE_TURNS == 0 and self.id in self.states:
            self.flood(self.states[self.id])
        self.later(TURN_S, self._turn, count + 1)

    def _take_over(self, chain: Chain) -> None:
        """A standby serves a LAN that got nothing for a while, if its ring has messages wanted there."""
        if chain.root is None or not chain.next:
            return
        branches = self.tree(chain.root).branches(self.id)
        for link in self.links:
            number = link.number
            if not link.is_lan or number in branches or chain.root == ("lan", number):
                continue
            heard = chain.heard.get(number, 0)
            if heard == 0:
                chain.stands_since_s.setdefault(number, self.now_s)
                heard = chain.low
            stood_s = self.now_s - chain.stands_since_s.get(number, self.now_s)
            if chain.next <= heard or stood_s <= STALL_S:
                continue
            first = max(heard, chain.low)
            kept = [chain.ring.get(each) for each in range(first, chain.next)]
            if any(
                isinstance(each, Kept) and self._is_wanted(chain, To(number), each, strict=False)
                for each in kept
            ):
                chain.targets[To(number)] = Target(first)
                self._pump(chain, To(number))
                chain.targets.pop(To(number), None)
            chain.heard[number], chain.stands_since_s[number] = chain.next, self.now_s
