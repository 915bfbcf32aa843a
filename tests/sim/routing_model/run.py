"""A run made from a seed: topology, load and faults, until all is quiet again.

Two to six routers on one to three LANs and on links of their own; one or two publishers and one to four
subscribers, on a LAN or at a router, some of them with two links. Routers crash, return and are suspended,
links are cut, members of a LAN take each other for dead, publishers crash.
"""

from __future__ import annotations

from collections.abc import Sequence

from .network import Link, Network, Violation
from .node import Node
from .program import Program
from .router import Router
from .rules import Rules
from .verdict import Verdict

#: The load ends, everything has to be settled, and nothing more may happen until the end.
LOAD_S, SETTLED_S, END_S = 12.0, 40.0, 45.0
TOPICS = 3


def play(seed: int, rules: Rules | None = None, *, faults: int | None = None) -> Run:
    """Play one seed to its end."""
    run = Run(seed, rules or Rules(), faults)
    run.play()
    return run


class Run:
    """The run of one seed."""

    def __init__(self, seed: int, rules: Rules, faults: int | None = None) -> None:
        self.network = Network(seed, rules)
        self.draw = self.network.draw
        self.routers: list[Router] = []
        self.publishers: list[Program] = []
        self.subscribers: list[Program] = []
        self._faults = faults
        self._build()
        self.verdict = Verdict(self.network, self.publishers, self.subscribers)

    @property
    def violations(self) -> list[Violation]:
        """What did not hold."""
        return self.network.violations

    def play(self) -> None:
        """Load and faults, then quiet, then the verdict."""
        self._plan_load()
        self._plan_faults()
        network = self.network
        network.run_until(LOAD_S + 3.0)
        if network.violations:
            return
        network.run_until(SETTLED_S)
        work = network.work
        network.run_until(END_S)
        self.verdict.judge(work_after_settling=network.work - work)

    # --- topology ---

    def _build(self) -> None:
        draw, network = self.draw, self.network
        self.routers = [Router(network, number) for number in range(1, draw.randint(2, 6) + 1)]
        lans = [
            self._link(draw.sample(self.routers, min(len(self.routers), draw.randint(1, 3))), is_lan=True)
            for _ in range(draw.randint(1, 3))
        ]
        self._join_all(lans)
        for _ in range(draw.randint(0, 3)):
            self._link(draw.sample(self.routers, 2))
        for kind, count in ((self.publishers, draw.randint(1, 2)), (self.subscribers, draw.randint(1, 4))):
            for _ in range(count):
                program = Program(network, 101 + len(self.publishers) + len(self.subscribers))
                self._place(program, lans, publishes=kind is self.publishers)
                kind.append(program)
        network.nodes |= {node.id: node for node in (*self.routers, *self.publishers, *self.subscribers)}
        for node in network.nodes.values():
            node.start()
            node.begin()
        for link in network.links:
            self._meet(link)

    def _link(self, nodes: Sequence[Node], *, is_lan: bool = False) -> Link:
        link = Link(len(self.network.links), is_lan=is_lan, nodes=list(nodes))
        self.network.links.append(link)
        for node in nodes:
            node.links.append(link)
        return link

    def _join_all(self, lans: list[Link]) -> None:
        """Add links until every router reaches every other one."""
        draw = self.draw
        while len(parts := self._parts()) > 1:
            one, two = (draw.choice(sorted(part, key=lambda each: each.id)) for part in draw.sample(parts, 2))
            near = [lan for lan in lans if one in lan.nodes and two not in lan.nodes]
            if near and draw.random() < 0.3:
                near[0].nodes.append(two)
                two.links.append(near[0])
            else:
                self._link([one, two])

    def _parts(self) -> list[set[Router]]:
        parts = [{router} for router in self.routers]
        for link in self.network.links:
            joined = [part for part in parts if part & set(link.nodes)]
            parts = [part for part in parts if part not in joined] + (
                [set().union(*joined)] if joined else []
            )
        return parts

    def _place(self, program: Program, lans: list[Link], *, publishes: bool) -> None:
        """On a LAN or at a router; some have a second link. A publisher with two has routers at both."""
        draw = self.draw
        two_links = draw.random() < 0.25
        if draw.random() < 0.65 and not (publishes and two_links):
            lan = draw.choice(lans)
            lan.nodes.append(program)
            program.links.append(lan)
        else:
            self._link([draw.choice(self.routers), program])
        if two_links:
            beside = {node for link in program.links for node in link.nodes}
            others = [router for router in self.routers if router not in beside]
            if others:
                self._link([draw.choice(others), program])

    def _meet(self, link: Link, only: Node | None = None) -> None:
        for one in link.nodes:
            for two in link.nodes:
                if (
                    one is not two
                    and (only is None or only in (one, two))
                    and not (one.is_dead or two.is_dead)
                ):
                    one.later(0.005 + self.draw.random() * 0.05, one.up, link, two.id, two.run)

    # --- load ---

    def _plan_load(self) -> None:
        draw, after = self.draw, self.network.after
        for subscriber in self.subscribers:
            for key in range(draw.randint(1, 3)):
                entry = (draw.randint(0, TOPICS), draw.choice((None, None, 0)))
                after(0.3 + draw.random() * (0.2 if key == 0 else 8.0), subscriber.subscribe, key, entry)
            if draw.random() < 0.3:
                after(2 + draw.random() * 6, subscriber.unsubscribe, 0)
        for publisher in self.publishers:
            at_s = 0.5 + draw.random() * draw.choice((0, 3))
            while at_s < LOAD_S:
                for _ in range(draw.randint(1, 6)):
                    after(at_s, self._publish, publisher, draw.randint(0, TOPICS), draw.randint(0, 1))
                    at_s += draw.random() * 0.02
                at_s += draw.choice((0.02, 0.1, 0.3, 2.0)) * draw.random() * 2
            for _ in range(draw.randint(0, 2)):
                after(2 + draw.random() * 9, self._flush, publisher)
            if draw.random() < 0.4:
                after(LOAD_S - 1 + draw.random(), self._close, publisher)

    def _publish(self, publisher: Program, topic: int, value: int) -> None:
        before = publisher.published
        publisher.publish(topic, value)
        if publisher.published > before:
            self.verdict.note_published(publisher, topic, value)

    def _flush(self, publisher: Program) -> None:
        if publisher.works:
            publisher.flush(8.0)

    def _close(self, publisher: Program) -> None:
        if not publisher.works:
            return
        flush = publisher.flush(5.0)
        self.verdict.closing[publisher.id] = flush

        def wait() -> None:
            if flush.outcome != "waiting":
                publisher.leave()
            elif not publisher.is_dead:
                self.network.after(0.05, wait)

        wait()

    # --- faults ---

    def _plan_faults(self) -> None:
        draw, after = self.draw, self.network.after
        cables = [link for link in self.network.links if not link.is_lan]
        lans = [link for link in self.network.links if link.is_lan and len(link.nodes) > 1]
        for _ in range(draw.randint(0, 4) if self._faults is None else self._faults):
            at_s, kind = 1 + draw.random() * 9, draw.random()
            if kind < 0.3:
                router = draw.choice(self.routers)
                after(at_s, self._crash, router)
                after(at_s + draw.choice((0.05, 0.3, 2.5)), self._restart, router)
            elif kind < 0.5 and cables:
                link = draw.choice(cables)
                after(at_s, self._cut, link)
                after(at_s + draw.choice((0.1, 0.6, 3)), self._mend, link)
            elif kind < 0.7:
                after(at_s, self._suspend, draw.choice(self.routers), draw.choice((0.4, 2, 4)))
            elif kind < 0.8:
                after(at_s, self._crash, draw.choice(self.publishers))
            elif lans:
                link = draw.choice(lans)
                one, two = draw.sample(link.nodes, 2)
                after(at_s, self._take_for_dead, link, one, two, draw.choice((0.3, 1.5)))

    def _crash(self, node: Node) -> None:
        if node.is_dead:
            return
        node.is_dead = True
        self.verdict.note_fault()
        for link in node.links:
            for other in link.nodes:
                if other is not node:
                    other.later(0.8 + self.draw.random() * 0.4, other.down, link, node.id, node.run)

    def _restart(self, router: Router) -> None:
        if not router.is_dead:
            return
        self.verdict.note_fault()
        router.is_dead, router.suspended_until_s = False, -1.0
        router.run += 1
        router.start()
        router.begin()
        self.verdict.note_fault()
        for link in router.links:
            self._meet(link, router)

    def _cut(self, link: Link) -> None:
        if not link.is_up:
            return
        link.is_up = False
        link.epoch += 1
        self.verdict.note_fault()

        def miss(one: Node, two: Node, run: int) -> None:
            if not link.is_up:
                one.down(link, two.id, run)

        for one in link.nodes:
            for two in link.nodes:
                if one is not two:
                    one.later(0.2 + self.draw.random(), miss, one, two, two.run)

    def _mend(self, link: Link) -> None:
        if link.is_up:
            return
        self.verdict.note_fault()
        link.is_up = True
        link.epoch += 1
        self.verdict.note_fault()
        for one in link.nodes:
            one.members[link.number].clear()
            for two in link.nodes:
                one.applied.pop((link.number, two.id), None)
        self._meet(link)

    def _suspend(self, router: Router, seconds: float) -> None:
        network, draw = self.network, self.draw
        if not router.works:
            return
        router.suspended_until_s, router.suspended_at_s = network.now_s + seconds, network.now_s
        self.verdict.note_fault()
        network.after(seconds - 0.001, self.verdict.note_fault)
        network.after(seconds + 0.001, self.verdict.note_fault)
        if seconds <= 1.2:
            return
        for link in router.links:
            for other in link.nodes:
                if other is router:
                    continue
                other.later(0.9 + draw.random() * 0.3, other.down, link, router.id, router.run)
                other.later(seconds + 0.02 + draw.random() * 0.1, other.up, link, router.id, router.run)
                if link.is_lan and draw.random() < 0.5:
                    deaf = (other.id, router.id, link.number)
                    network.after(1.3, network.deaf.add, deaf)
                    network.after(seconds + 0.01, network.deaf.discard, deaf)

    def _take_for_dead(self, link: Link, one: Node, two: Node, seconds: float) -> None:
        """A member takes another one for dead, which is not; it may then drop what the other one lacks."""
        network = self.network
        if one.is_dead or two.is_dead:
            return
        self.verdict.note_fault()
        one.later(0.0, one.down, link, two.id)
        self.verdict.taken_for_dead.add(two.id)
        deaf = (one.id, two.id, link.number)
        if self.draw.random() < 0.6:
            network.deaf.add(deaf)

        def back() -> None:
            network.deaf.discard(deaf)
            self.verdict.taken_for_dead.discard(two.id)
            self.verdict.note_fault()
            one.later(0.0, one.up, link, two.id, two.run)

        network.after(seconds, back)
