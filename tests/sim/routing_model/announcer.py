"""What a router tells others of its links and of its programs' interest, and the views that follow of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Announce, Entry, Interest, LinkState, Own, RouterInterest
from .requests import AskingNode

if TYPE_CHECKING:
    from .network import Link


class Announcer(AskingNode):
    """The half of a router that knows who wants what, and where."""

    is_router = True

    def start(self) -> None:
        """Begin with nothing."""
        super().start()
        self._stamp = self.now_s
        self._views_due = False
        self._said_links: object = None
        self._said_interest: object = None

    def attach(self, link: Link, member: int) -> None:
        """Before the interest, say the map."""
        for record in (*self.states.values(), *self.interests.values()):
            self.tell(link, member, record)
        super().attach(link, member)

    def on_members(self, link: Link, member: int) -> None:
        """Links and interest of this router may have changed."""
        self.say_links()

    def say_links(self) -> None:
        """Flood the state of this router's links, if it changed."""
        links = frozenset(
            (link.number, frozenset(m for m in self.members[link.number] if not self.is_program(m)))
            for link in self.links
            if link.is_up and (link.is_lan or self.members[link.number])
        )
        if links != self._said_links:
            self._said_links = links
            self._stamp = max(self._stamp + 1e-6, self.now_s)
            self.states[self.id] = LinkState(self.id, self._stamp, links)
            self.flood(self.states[self.id])
            self.map_changed()
        self.say_interest()

    def say_interest(self) -> None:
        """Flood what this router's own programs want, if it changed."""
        programs = [(member, said) for (_, member), said in self.announced.items() if not said.is_router]
        interest: Interest = frozenset(entry for _, said in programs for entry in said.interest)
        versions = frozenset((member, said.version) for member, said in programs)
        if (interest, versions) != self._said_interest:
            self._said_interest = (interest, versions)
            before = self.interests.get(self.id)
            stamp = max(self.now_s, before.stamp + 1e-6 if before else 0.0)
            self.interests[self.id] = RouterInterest(self.id, stamp, interest, versions)
            self.flood(self.interests[self.id])
            self.tick()
            self.completeness.report_all(only_changed=True)

    def on_interest(self, record: Announce) -> None:
        """The interest of a program is part of this router's."""
        if not record.is_router:
            self.say_interest()

    def flood(self, record: object, but: tuple[int, int] | None = None) -> None:
        """Say something to all neighbours except its sender."""
        for link in self.links:
            for member in self.members[link.number]:
                if (link.number, member) != but:
                    self.tell(link, member, record)

    def relay(self, link: Link, sender: int, record: object) -> None:
        """Pass on what concerns all routers."""
        self.flood(record, (link.number, sender))
        if isinstance(record, RouterInterest):
            self.tick()

    def tick(self) -> None:
        """Neighbours get another view, a moment later (C6)."""
        super().tick()
        if not self._views_due:
            self._views_due = True
            self.later(self.network.draw.random() * 0.02, self._say_views)

    def _say_views(self) -> None:
        self._views_due = False
        for link in self.links:
            if link.is_up:
                self.announce(link)

    def announcement(self, link: Link) -> Announce:
        """What is wanted behind all other links, by the tree that starts at this one."""
        interest: set[Entry] = set()
        if not link.is_lan and self.id in self.interests:
            interest |= self.interests[self.id].interest
        for (number, _), said in self.announced.items():
            if number != link.number and not said.is_router:
                interest |= said.interest
        tree = self.tree(("lan", link.number) if link.is_lan else ("router", self.id))
        for number, routers in tree.branches(self.id).items():
            if number != link.number:
                for router in routers & self.interests.keys():
                    interest |= self.interests[router].interest
        return Announce(self.clock, frozenset(interest), is_router=True)

    def translated(self, link: Link, sender: int, clock: int | Own) -> int:
        """The newest version of ours that a skip was decided under; 0 if none is known (C6)."""
        if isinstance(clock, Own):
            return clock.version
        applied = self.applied.get((link.number, sender), {})
        versions = [version for version, since in applied.items() if since <= clock and version > 0]
        if not versions:
            return 0
        newest = max(versions)
        if self.rules.view_is_clock:
            return newest
        later = [version for version in applied if version > newest]
        return min(self.clock, min(later) - 1) if later else self.clock
