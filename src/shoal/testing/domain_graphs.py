"""Random networks: routers in random graphs, joined by LANs and TCP, and programs.

Links are cut, routers crash, return and stand still, programs publish and flush all the while. Then all
faults end, and every promise is checked.
"""

from __future__ import annotations

import random

from shoal.testing.checkers import numbered
from shoal.testing.domain import BusOptions, Domain, Node, Subscription
from shoal.testing.domain_checkers import DomainCheckError
from shoal.testing.domain_history import DomainHistory, Flush, Life
from shoal.testing.domain_scenarios import domain_scenario
from shoal.testing.faults import Link
from shoal.testing.routed_checkers import check_routed, every_number_accounted

#: Time for routers to find their tree, and for members to find each other, once all faults are over.
SETTLE_S = 20.0
STEPS = 8
PROGRAM = BusOptions(heartbeat_s=1.0, missed_heartbeats_max=3)
ROUTER = BusOptions(heartbeat_s=1.0, missed_heartbeats_max=3, router=True)


def reached(domain: Domain, publishers: list[Node], readers: list[Subscription], count: int = 10) -> None:
    """Messages that are published now, in quiet, reach every reader, once, before a flush is over."""
    before = {id(reader): len(reader.bodies) for reader in readers}
    for publisher in publishers:
        publisher.publish("t", *numbered(count))
    wanted = count * len(publishers)

    def came() -> bool:
        return all(len(reader.bodies) - before[id(reader)] >= wanted for reader in readers)

    for publisher in publishers:
        flush = publisher.flush(within_s=SETTLE_S)
        if flush is None or flush.silent:
            raise DomainCheckError(domain.history(), "flush", f"{publisher} waited in vain: {flush}")
    if not came():
        found = {repr(reader.node): len(reader.bodies) - before[id(reader)] for reader in readers}
        lacking = {name: got for name, got in found.items() if got < wanted}
        what = f"of {wanted} messages that were flushed came only {lacking}"
        raise DomainCheckError(domain.history(), "reached", what)


@domain_scenario
def routers_in_any_graph(domain: Domain) -> None:
    """Routers in a random graph that crash, return, and lose links, while programs publish and subscribe."""
    draw = random.Random(domain.seed)
    _Graph(domain, draw, draw.randint(4, 10)).run()


@domain_scenario
def routers_joined_by_tcp(domain: Domain) -> None:
    """The same, where routers are joined by TCP, and so are programs with one link or two."""
    draw = random.Random(domain.seed)
    _Graph(domain, draw, draw.randint(3, 8), cables=1.0, programs=draw.randint(0, 4)).run()


@domain_scenario
def routers_joined_by_anything(domain: Domain) -> None:
    """The same with LANs, multicast and TCP side by side, and weather."""
    draw = random.Random(domain.seed)
    domain.set_link(
        Link(
            loss=draw.choice((0.0, 0.0, draw.uniform(0.0, 0.05))),
            delay_s=draw.choice((0.0005, 0.005, 0.03)),
            jitter_s=draw.choice((0.0, 0.001, 0.02)),
        )
    )
    lans, programs = draw.randint(0, 2), draw.randint(0, 5)
    _Graph(domain, draw, draw.randint(3, 9), cables=0.5, lans=lans, programs=programs).run()


@domain_scenario
def routers_on_shared_lans(domain: Domain) -> None:
    """The same, where some networks have several routers: of those, one passes on."""
    draw = random.Random(domain.seed)
    _Graph(domain, draw, draw.randint(4, 8), lans=draw.randint(1, 3)).run()


@domain_scenario
def fifty_routers(domain: Domain) -> None:
    """Fifty routers in a random graph with failures."""
    _Graph(domain, random.Random(domain.seed), 50).run()


@domain_scenario
def fifty_routers_joined_by_tcp(domain: Domain) -> None:
    """Fifty routers in a random graph of TCP links and networks, with programs and failures."""
    _Graph(domain, random.Random(domain.seed), 50, cables=0.7, lans=2, programs=10).run()


@domain_scenario
def routers_and_short_publishers(domain: Domain) -> None:
    """The same with LANs and TCP; programs come all the while, publish three messages, and close."""
    draw = random.Random(domain.seed)
    lans, programs = draw.randint(0, 2), draw.randint(1, 4)
    graph = _Graph(domain, draw, draw.randint(3, 7), cables=0.5, lans=lans, programs=programs)
    graph.come_and_go = True
    graph.run()


class _Graph:
    """A random graph of routers, each edge a network of its own or a cable, and programs at some of them."""

    def __init__(
        self,
        domain: Domain,
        draw: random.Random,
        count: int,
        *,
        cables: float = 0.0,
        lans: int = 0,
        programs: int = 0,
    ) -> None:
        self.domain, self.draw, self.count = domain, draw, count
        edges = {(draw.randrange(place), place) for place in range(1, count)}
        while len(edges) < count + count // 2 and len(edges) < count * (count - 1) // 2:
            one, two = sorted(draw.sample(range(count), 2))
            edges.add((one, two))
        networks = [edge for edge in sorted(edges) if draw.random() >= cables]
        self.lans: list[list[int]] = [list(edge) for edge in networks]
        self.lans += [
            draw.sample(range(count), draw.randint(min(3, count), min(count, 5))) for _ in range(lans)
        ]
        self.cables = [edge for edge in sorted(edges) if edge not in networks]
        self.routers = [domain.add_node(segments=self.networks_of(place), **ROUTER) for place in range(count)]
        self.programs: list[Node] = []
        for _ in range(programs):
            self.add_program()
        for one, two in self.cables:
            self.lay_cable(one, two)
        self.readers: list[Subscription] = []
        #: Whether programs come, publish little, and leave.
        self.come_and_go = False

    def networks_of(self, place: int) -> tuple[int, ...]:
        return tuple(segment for segment, members in enumerate(self.lans) if place in members)

    def add_program(self) -> None:
        """A program with one link or two, over TCP or on a LAN."""
        draw = self.draw
        place = len(self.nodes)
        at = draw.sample(range(self.count), draw.choice((1, 1, 2)))
        networks: set[int] = set()
        for router in at:
            near = self.networks_of(router)
            if near and draw.random() < 0.4:
                networks.add(draw.choice(near))
            else:
                self.cables.append((place, router))
        for segment in networks:
            self.lans[segment].append(place)
        self.programs.append(self.domain.add_node(segments=tuple(sorted(networks)), **PROGRAM))

    def lay_cable(self, one: int, two: int) -> None:
        if self.draw.random() < 0.5:
            one, two = two, one
        self.domain.lay_cable(self.nodes[one], self.nodes[two])

    @property
    def nodes(self) -> list[Node]:
        return [*self.routers, *self.programs]

    # --- what is done ---

    def run(self) -> None:
        domain, draw, nodes = self.domain, self.draw, self.nodes
        self.readers = [node.subscribe("t") for node in nodes]
        domain.run_for(SETTLE_S)
        publishers = [*draw.sample(self.routers, min(3, self.count)), *self.programs[:2]]
        reached(domain, publishers, self.readers)
        self.check_tree(10 * len(publishers))
        for _ in range(STEPS):
            self.disturb([node for node in self.routers if node not in publishers])
            for publisher in publishers:
                publisher.publish("t", *numbered(5))
                if draw.random() < 0.3:
                    publisher.begin_flush()
            if self.come_and_go:
                self.publish_and_leave()
            domain.run_for(draw.choice((0.1, 1.0, 4.0)))
        domain.end_faults()
        for node in nodes:
            if node.life.end == "crashed":
                self.restart(node)
        domain.run_for(2 * SETTLE_S)
        before = self.passed()
        reached(domain, publishers, self.readers)
        self.check_tree(10 * len(publishers), before)
        history = domain.history()
        # Of publishers that left while a path was broken readers are not always told.
        check_routed(history, *(() if self.come_and_go else (every_number_accounted,)))
        self.check_flushes(history)

    def publish_and_leave(self) -> None:
        """A program comes to a router, publishes three messages once it is asked for them, and closes."""
        draw, domain = self.draw, self.domain
        at = draw.randrange(self.count)
        near = self.networks_of(at)
        is_on_lan = bool(near) and draw.random() < 0.5
        visitor = domain.add_node(segments=(draw.choice(near),) if is_on_lan else (), **PROGRAM)
        if not is_on_lan:
            domain.lay_cable(visitor, self.routers[at])
        domain.run_until_true(lambda: bool(visitor.interested("t")), within_s=1.0, step_s=0.01)
        visitor.publish("t", *numbered(3))
        visitor.close(within_s=draw.choice((0.5, 5.0)))

    def disturb(self, victims: list[Node]) -> None:
        """Something fails, or is mended."""
        draw, domain = self.draw, self.domain
        up = [node for node in victims if node.life.end == "running" and not node.is_paused]
        match draw.randrange(6):
            case 0 | 1:
                self.cut(*draw.choice(self.edges()))
            case 2 if len(victims) - len(up) < max(1, self.count // 5) and up:
                draw.choice(up).crash(hangs_up=draw.random() < 0.5)
            case 3 if len(victims) - len(up) < max(1, self.count // 5) and up:
                draw.choice(up).pause()
            case 4:
                gone = [node for node in victims if node.life.end == "crashed"]
                if gone:
                    self.restart(draw.choice(gone))
                for node in victims:
                    node.go_on()
            case _:
                domain.heal()

    def cut(self, one: int, two: int) -> None:
        """Cut a node off from another one, and from all others on the LANs that they have in common.

        On a LAN either all members hear a node or none does.
        """
        others = {two}
        for _ in self.lans:
            for members in self.lans:
                if one in members and others.intersection(members):
                    others.update(members)
        others.discard(one)
        self.domain.cut([self.nodes[one]], [self.nodes[other] for other in sorted(others)])

    def restart(self, node: Node) -> None:
        node.restart(node=None)
        self.readers = [reader for reader in self.readers if reader.node is not node]
        self.readers.append(node.subscribe("t"))

    def edges(self) -> list[tuple[int, int]]:
        pairs = [
            (min(one, two), max(one, two))
            for members in self.lans
            for at, one in enumerate(members)
            for two in members[at + 1 :]
        ]
        return sorted({*pairs, *((min(edge), max(edge)) for edge in self.cables)})

    # --- what must be true ---

    def check_flushes(self, history: DomainHistory) -> None:
        """Messages that a flush confirmed had come to every node that was never cut off from it."""
        for life in history.lives:
            for flush in life.flushes:
                if not flush.silent:
                    for reader in history.lives:
                        if reader is not life:
                            self.check_flush(history, life, flush, reader)

    def check_flush(self, history: DomainHistory, life: Life, flush: Flush, reader: Life) -> None:
        if reader.pauses or (reader.ended_s or flush.ended_s) < flush.ended_s:
            return
        losses = [loss for loss in reader.losses if loss.publisher == life.publisher]
        for record in reader.subscriptions.values():
            read = {reading.key for reading in record.readings if reading.at_s <= flush.ended_s}
            for message in life.published:
                if not message.key.number or message.at_s >= flush.began_s or message.key in read:
                    continue
                if message.at_s < max(
                    record.began_s, reader.began_s
                ) + SETTLE_S or not self.domain.topology.always_joined(
                    life.name, reader.name, message.at_s - SETTLE_S, flush.ended_s
                ):
                    continue
                is_lost = any(
                    loss.chain == message.key.chain and loss.first <= message.key.number <= loss.last
                    for loss in losses
                )
                if is_lost and any(
                    one.began_s >= message.at_s and one.ended_s <= flush.ended_s and one.losers
                    for one in life.flushes
                ):
                    continue
                what = f"{life} flushed by {flush.ended_s:.6f} s, and {reader} had not read {message.key}"
                raise DomainCheckError(history, "flushes_reach", what)

    def passed(self) -> int:
        return sum(router.state["passed_messages"] for router in self.routers)

    def check_tree(self, messages: int, before: int = 0) -> None:
        """A message that all want crosses each link of a tree once: the first hop counts at its publisher."""
        passed = self.passed() - before
        most = messages * (self.edges_of_tree() - 1)
        if passed > most:
            what = f"{passed} times, and a tree takes {most}"
            raise DomainCheckError(self.domain.history(), "optimal_tree", what)

    def edges_of_tree(self) -> int:
        """Transmissions that reach every node once."""
        return len(self.nodes) - 1
