"""What routers and programs share: membership, the interest clock with Applied, and the map.

The *interest clock* of a node counts every change of what it knows to be wanted behind its links. A skip
names the clock it was decided under. `Applied{clock, member, version}` in the data lane says from which clock
on a member's version counts, so that the member knows which skips were decided with its interest in view.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .chain import Chain
from .complete import Completeness
from .records import (
    Announce,
    Applied,
    Complete,
    Goodbye,
    Hello,
    LinkState,
    Message,
    Position,
    Positions,
    Replay,
    Root,
    RouterInterest,
    Skip,
    Watch,
)
from .tree import Tree

if TYPE_CHECKING:
    from .network import Lane, Link, Network

#: Subjects that a neighbour of a run that is over may still bring.
_OF_ANY_RUN = Message | Goodbye
#: What counts though its sender is no member (yet).
_OF_STRANGERS = Message | Skip | Applied | Positions
Place = tuple[int, int]


class Node:
    """A router or a program, from one start to the next."""

    is_router = False

    def __init__(self, network: Network, id_: int) -> None:
        self.network, self.rules, self.id = network, network.rules, id_
        self.links: list[Link] = []
        self.run = 1
        self.is_dead = False
        #: A program that said goodbye.
        self.has_left = False
        self.suspended_until_s = -1.0
        self.suspended_at_s = 0.0
        #: Entries of Applied that are kept for each neighbour.
        self.applied_max = network.draw.choice((3, 64))
        self.start()

    def start(self) -> None:
        """Begin with nothing."""
        self.clock = 1
        self.members: dict[int, dict[int, int]] = {link.number: {} for link in self.links}
        #: By (link, neighbour): what it announced; what it applied of ours; what we applied of its.
        self.announced: dict[Place, Announce] = {}
        self.applied: dict[Place, dict[int, int]] = {}
        self.own_applied: dict[Place, tuple[int, int]] = {}
        #: The version that a neighbour must have applied, so that its skips count for us.
        self.floor: dict[Place, int] = {}
        self.gaps: set[Place] = set()
        self.chains: dict[int, Chain] = {}
        self.states: dict[int, LinkState] = {}
        self.interests: dict[int, RouterInterest] = {}
        self.trees: dict[Root, Tree] = {}
        self.completeness = Completeness(self)
        self._map_due = False

    def begin(self) -> None:
        """All links are there: start to work."""
        raise NotImplementedError

    # --- time ---

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self.network.now_s

    @property
    def works(self) -> bool:
        """Neither dead nor suspended."""
        return not self.is_dead and self.suspended_until_s <= self.now_s

    def later(self, seconds: float, do: Callable[..., object], *arguments: object) -> None:
        """Do something later, in this run, and not while suspended."""
        self.network.after(seconds, self._do, self.run, do, arguments)

    def _do(self, run: int, do: Callable[..., object], arguments: tuple[object, ...]) -> None:
        if self.is_dead or self.run != run:
            return
        if self.suspended_until_s > self.now_s:
            wait_s = self.suspended_until_s - self.now_s + 0.001
            self.network.after(wait_s, self._do, run, do, arguments)
            return
        do(*arguments)

    # --- sending ---

    def tell(self, link: Link, member: int, record: object) -> None:
        """Say something to one neighbour, in the control lane."""
        self.network.send(self, link, self.network.nodes[member], "control", record)

    def tell_all(self, link: Link, record: object) -> None:
        """Say something to a link, in the control lane."""
        self.network.cast(self, link, "control", record)

    def put(self, link: Link, record: object) -> None:
        """Put something into a link's data lane."""
        self.network.cast(self, link, "data", record)

    def answer(self, link: Link, member: int, record: object) -> None:
        """Answer one asker: by unicast on a LAN, in the data lane elsewhere."""
        if link.is_lan:
            self.network.send(self, link, self.network.nodes[member], "answer", record)
        else:
            self.put(link, record)

    def link(self, number: int) -> Link:
        """A link by its number."""
        return self.network.links[number]

    def is_program(self, member: int) -> bool:
        """Whether a neighbour is no router."""
        return not self.network.nodes[member].is_router

    # --- membership ---

    def up(self, link: Link, member: int, run: int) -> None:
        """A neighbour is there."""
        other = self.network.nodes[member]
        if other.is_dead or other.run != run or not link.is_up or other.has_left:
            return
        if self.members[link.number].get(member) == run:
            return
        place = (link.number, member)
        self.applied.pop(place, None)
        self._forget(link, member)
        self.members[link.number][member] = run
        self.tick()
        self.attach(link, member)
        if self.rules.unicast_version:
            self.tell(link, member, Hello())
        self.on_members(link, member)

    def down(self, link: Link, member: int, run: int | None = None) -> None:
        """A neighbour failed, or left."""
        there = self.members[link.number].get(member)
        if there is None or (run is not None and run != there):
            return
        del self.members[link.number][member]
        self._forget(link, member)
        self.tick()
        self.put(link, Applied(self.clock, member, 0))
        self.on_members(link, member)

    def _forget(self, link: Link, member: int) -> None:
        place = (link.number, member)
        self.announced.pop(place, None)
        self.own_applied.pop(place, None)
        self.completeness.forget(member)
        for chain in self.chains.values():
            for to in [to for to in chain.targets if (to.link, to.asker) == place]:
                del chain.targets[to]

    def on_members(self, link: Link, member: int) -> None:
        """A neighbour came or went."""

    def on_gap(self, link: Link, member: int) -> None:
        """A neighbour's data lane lost something: what it applied may be among it (C5)."""
        if self.rules.unicast_version:
            self.applied.pop((link.number, member), None)
            self.tell(link, member, Hello())

    def attach(self, link: Link, member: int) -> None:
        """Say everything to a neighbour that is new: the map, the interest in full, and all positions."""
        self.announce(link, member)
        self.floor[link.number, member] = self.version
        if positions := self.positions(link):
            self.tell(link, member, Positions(tuple(positions)))

    def positions(self, link: Link) -> list[Position]:
        """How far all chains are."""
        return [
            Position(chain.publisher, max(chain.next - 1, chain.last), chain.root, chain.ended)
            for chain in self.chains.values()
            if chain.root is not None and (chain.next or chain.last)
        ]

    # --- interest ---

    @property
    def version(self) -> int:
        """The version of what this node announces."""
        return self.clock

    def announcement(self, link: Link) -> Announce:
        """What this node wants of a link."""
        raise NotImplementedError

    def announce(self, link: Link, member: int | None = None) -> None:
        """Say what is wanted, to one neighbour or to all on a link."""
        said = self.announcement(link)
        if member is None:
            self.tell_all(link, said)
        else:
            self.tell(link, member, said)

    def tick(self) -> None:
        """What is wanted behind a link changed."""
        self.clock += 1

    def apply(self, link: Link, member: int, version: int) -> None:
        """From now on skips are decided under this version of a member's interest."""
        self.own_applied[link.number, member] = (self.clock, version)
        self.put(link, Applied(self.clock, member, version))

    def on_applied(self, link: Link, sender: int, record: Applied) -> None:
        """A neighbour applied a version of ours; 0 ends all before."""
        if record.member != self.id:
            return
        versions = self.applied.setdefault((link.number, sender), {})
        if record.version == 0:
            versions.clear()
            return
        versions[record.version] = record.clock
        while len(versions) > self.applied_max:
            # A skip that needs a forgotten entry is asked for.
            del versions[next(iter(versions))]

    def on_announce(self, link: Link, sender: int, record: Announce) -> None:
        """A neighbour says what it wants."""
        place = (link.number, sender)
        before = self.announced.get(place)
        if before and before.version > record.version:
            return
        self.announced[place] = record
        if not before or before.interest != record.interest:
            self.tick()
        self.on_interest(record)
        self.apply(link, sender, record.version)

    def on_interest(self, record: Announce) -> None:
        """The interest of a neighbour was heard."""

    def has_lost(self, publisher: int) -> bool:
        """Whether something of a publisher was reported lost here."""
        return False

    # --- the map ---

    def tree(self, root: Root) -> Tree:
        """The tree of a root on the present map."""
        if root not in self.trees:
            lans = frozenset(link.number for link in self.network.links if link.is_lan)
            self.trees[root] = Tree(root, self.states, lans)
        return self.trees[root]

    def map_changed(self) -> None:
        """Compute trees again, in a moment."""
        if not self._map_due:
            self._map_due = True
            self.later(self.network.draw.choice((0.005, 0.02, 0.02, 0.3)), self._remap)

    def _remap(self) -> None:
        self._map_due = False
        before, self.trees = self.trees, {}
        if not before or any(
            self.tree(root).shape(self.id) != tree.shape(self.id) for root, tree in before.items()
        ):
            self.tick()
            for (number, member), (_, version) in list(self.own_applied.items()):
                if self.rules.applied_anew:
                    self.put(self.link(number), Applied(self.clock, member, 0))
                self.apply(self.link(number), member, version)
        self.on_map()
        self.completeness.report_all()

    def on_map(self) -> None:
        """Trees may have changed."""

    def on_state(self, link: Link, sender: int, record: LinkState) -> None:
        """A router's links; routers relay them."""
        known = self.states.get(record.router)
        if record.router == self.id or (known and known.stamp >= record.stamp):
            return
        self.states[record.router] = record
        self.relay(link, sender, record)
        self.map_changed()

    def on_router_interest(self, link: Link, sender: int, record: RouterInterest) -> None:
        """A router's interest; routers relay it."""
        known = self.interests.get(record.router)
        if record.router == self.id or (known and known.stamp >= record.stamp):
            return
        self.interests[record.router] = record
        self.relay(link, sender, record)
        self.completeness.report_all(only_changed=True)

    def relay(self, link: Link, sender: int, record: object) -> None:
        """Pass on what concerns all routers."""

    # --- receiving ---

    def receive(self, link: Link, sender: int, run: int, lane: Lane, record: object) -> None:
        """A record arrives."""
        if run != self.network.nodes[sender].run and not isinstance(record, _OF_ANY_RUN):
            return
        members = self.members[link.number]
        if sender in members and members[sender] != run and not isinstance(record, _OF_ANY_RUN):
            self.up(link, sender, run)
        if sender not in members:
            may_be_strange = isinstance(record, _OF_STRANGERS)
            if not isinstance(record, Goodbye) and not (
                may_be_strange and not self.network.nodes[sender].has_left
            ):
                self.up(link, sender, run)
            if sender not in members and not may_be_strange and not isinstance(record, Goodbye):
                return
        match record:
            case Message():
                self.on_message(link, sender, lane, record)
            case Skip():
                self.on_skip(link, sender, lane, record)
            case Applied():
                self.on_applied(link, sender, record)
            case Announce():
                self.on_announce(link, sender, record)
            case LinkState():
                self.on_state(link, sender, record)
            case RouterInterest():
                self.on_router_interest(link, sender, record)
            case Positions():
                for entry in record.entries:
                    if entry.chain != self.id:
                        self.on_position(link, sender, entry)
            case Replay():
                self.on_replay(link, sender, record)
            case Hello():
                self.attach(link, sender)
                if (place := (link.number, sender)) in self.own_applied:
                    self.apply(link, sender, self.own_applied[place][1])
            case Goodbye():
                self.on_goodbye(link, sender, record)
            case Watch():
                self.completeness.on_watch(link, sender, record)
            case Complete():
                self.completeness.on_complete(sender, record)

    def on_message(self, link: Link, sender: int, lane: Lane, record: Message) -> None:
        """A message of a chain."""
        raise NotImplementedError

    def on_skip(self, link: Link, sender: int, lane: Lane, record: Skip) -> None:
        """Numbers that do not come as messages."""
        raise NotImplementedError

    def on_position(self, link: Link, sender: int, entry: Position) -> None:
        """How far a chain is."""
        raise NotImplementedError

    def on_replay(self, link: Link, sender: int, record: Replay) -> None:
        """A neighbour lacks something."""
        raise NotImplementedError

    def on_goodbye(self, link: Link, sender: int, record: Goodbye) -> None:
        """A program left."""
        self.down(link, sender)
        if record.last:
            self.chain(sender, record.root).ended_at_s = self.now_s
            self.on_position(link, sender, Position(sender, record.last, record.root, ended=True))

    def chain(self, publisher: int, root: Root | None) -> Chain:
        """A publisher's chain; where it enters may change."""
        chain = self.chains.get(publisher)
        if chain is None:
            chain = self.chains[publisher] = Chain(publisher)
        if root is not None and chain.root != root:
            chain.root = root
            self.on_root(chain)
        return chain

    def on_root(self, chain: Chain) -> None:
        """A chain enters the network elsewhere."""
