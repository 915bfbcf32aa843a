"""Networks joined by routers: named situations, and made-up ones with many routers.

Every network is a simulated segment. A segment with two nodes is a link between them; one with more is a LAN.
"""

from __future__ import annotations

import random
from collections import defaultdict

from shoal.testing.checkers import numbered
from shoal.testing.domain import Domain, Node, Subscription
from shoal.testing.domain_checkers import (
    DomainCheckError,
    memory_bounded,
    nothing_lost,
    once_and_in_order,
    one_identity,
    only_what_was_asked,
)
from shoal.testing.domain_history import DomainHistory, Published
from shoal.testing.domain_scenarios import domain_scenario

#: Routers have so long to find their tree, and members each other, once all faults are over.
SETTLE_S = 20.0


def check_routed(history: DomainHistory) -> None:
    """What holds for every run, whoever is next to whom."""
    for checker in (once_and_in_order, only_what_was_asked, one_identity, memory_bounded, accounted_between):
        checker(history)


def accounted_between(history: DomainHistory) -> None:
    """Between the first and the last message that somebody read of a chain, all others were read or lost."""
    chains: dict[tuple[int, int], list[Published]] = defaultdict(list)
    for life in history.lives:
        for message in life.published:
            if message.key.number:
                chains[message.key[:2]].append(message)
    for life in history.lives:
        for record in life.subscriptions.values():
            if not record.keeps_all:
                continue
            read: dict[tuple[int, int], set[int]] = defaultdict(set)
            for reading in record.readings:
                read[reading.key[:2]].add(reading.key.number)
            for chain, numbers in read.items():
                ranges = [
                    (loss.first, loss.last) for loss in life.losses if (loss.publisher, loss.chain) == chain
                ]
                for message in chains[chain]:
                    number = message.key.number
                    if (
                        min(numbers) < number < max(numbers)
                        and number not in numbers
                        and record.wants(message)
                        and message.at_s > record.began_s
                        and not any(first <= number <= last for first, last in ranges)
                    ):
                        what = f"{life}, subscription {record.number}, neither read nor lost {message.key}"
                        raise DomainCheckError(history, "accounted_between", what)


def reached(domain: Domain, publishers: list[Node], readers: list[Subscription], count: int = 10) -> None:
    """What is published now, in quiet, reaches everybody, once, before a flush is over."""
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
def two_lans_and_a_router(domain: Domain) -> None:
    """A router joins two LANs; what nobody on the other side wants does not cross."""
    router = domain.add_node(segments=(0, 1), router=True)
    here, there = (
        [domain.add_node(segments=(0,)) for _ in range(2)],
        [domain.add_node(segments=(1,)) for _ in range(2)],
    )
    readers = [node.subscribe("t") for node in (*here, *there)]
    domain.run_for(5)
    reached(domain, [*here, *there], readers)
    crossed = router.state["passed_messages"]
    here[0].publish("elsewhere", *numbered(100))
    domain.run_for(2)
    if router.state["passed_messages"] != crossed:
        raise DomainCheckError(domain.history(), "dropped_at_source", "a message crossed that nobody wants")
    check_routed(domain.history())
    nothing_lost(domain.history())


@domain_scenario
def two_routers_between_the_same_lans(domain: Domain) -> None:
    """Two routers join the same two LANs: nothing comes twice, and one goes on when the other is gone."""
    routers = [domain.add_node(segments=(0, 1), router=True) for _ in range(2)]
    here, there = domain.add_node(segments=(0,)), domain.add_node(segments=(1,))
    readers = [node.subscribe("t") for node in (here, there)]
    domain.run_for(8)
    reached(domain, [here, there], readers, count=50)
    passed = sum(router.state["passed_messages"] for router in routers)
    if passed != 100:
        raise DomainCheckError(domain.history(), "passed_once", f"{passed} times instead of 100")
    nothing_lost(domain.history())
    routers[0].crash()
    domain.run_for(SETTLE_S)
    reached(domain, [here, there], readers)
    routers[0].restart()
    domain.run_for(SETTLE_S)
    reached(domain, [here, there], readers)
    check_routed(domain.history())


@domain_scenario
def a_router_crashes_while_messages_cross(domain: Domain) -> None:
    """Of two routers between two LANs one crashes, and returns, while messages cross: none is missed."""
    draw = random.Random(domain.seed)
    routers = [domain.add_node(segments=(0, 1), router=True, heartbeat_s=1.0) for _ in range(2)]
    here, there = (domain.add_node(segments=(segment,), heartbeat_s=1.0) for segment in (0, 1))
    reader = there.subscribe("t")
    domain.run_for(8)
    published = 0

    def publish_for(seconds: float) -> None:
        nonlocal published
        ends_s = domain.now_s + seconds
        while domain.now_s < ends_s:
            here.publish("t", *numbered(3))
            published += 3
            domain.run_for(draw.uniform(0.01, 0.2))

    for victim in (draw.choice(routers), routers[0], routers[1]):
        publish_for(draw.uniform(0.0, 1.0))
        victim.crash()
        publish_for(draw.uniform(7.0, 9.0))
        victim.restart()
        publish_for(draw.uniform(4.0, 8.0))
    domain.run_for(SETTLE_S)
    if len(reader.bodies) != published:
        what = f"of {published} messages came {len(reader.bodies)}"
        raise DomainCheckError(domain.history(), "said_again", what)
    check_routed(domain.history())


@domain_scenario
def a_circle_of_routers(domain: Domain) -> None:
    """Four routers in a circle: one way is used, and another one when it is cut."""
    routers = [domain.add_node(segments=(place, (place + 1) % 4), router=True) for place in range(4)]
    readers = [router.subscribe("t") for router in routers]
    domain.run_for(8)
    reached(domain, routers, readers)
    domain.cut([routers[0]], [routers[1]])
    domain.run_for(SETTLE_S)
    reached(domain, routers, readers)
    domain.heal()
    domain.run_for(SETTLE_S)
    reached(domain, routers, readers)
    check_routed(domain.history())


@domain_scenario
def routers_in_any_graph(domain: Domain) -> None:
    """Routers in a random graph that crash, return, and lose links, while programs publish and subscribe."""
    _Graph(domain, random.Random(domain.seed), random.Random(domain.seed).randint(4, 10)).run()


@domain_scenario
def routers_on_shared_lans(domain: Domain) -> None:
    """The same, where some networks have several routers: of those, one passes on."""
    draw = random.Random(domain.seed)
    _Graph(domain, draw, draw.randint(4, 8), lans=draw.randint(1, 3)).run()


@domain_scenario
def fifty_routers(domain: Domain) -> None:
    """Fifty routers in a random graph with failures."""
    _Graph(domain, random.Random(domain.seed), 50).run()


class _Graph:
    """A random graph of routers, each edge a network of its own, and programs at some of them."""

    def __init__(self, domain: Domain, draw: random.Random, count: int, lans: int = 0) -> None:
        self.domain, self.draw, self.count = domain, draw, count
        edges = {(draw.randrange(place), place) for place in range(1, count)}
        while len(edges) < count + count // 2 and len(edges) < count * (count - 1) // 2:
            one, two = sorted(draw.sample(range(count), 2))
            edges.add((one, two))
        self.edges = sorted(edges)
        links: dict[int, list[int]] = defaultdict(list)
        for segment, (one, two) in enumerate(self.edges):
            links[one].append(segment)
            links[two].append(segment)
        for segment in range(len(self.edges), len(self.edges) + lans):
            for place in draw.sample(range(count), draw.randint(3, min(count, 5))):
                links[place].append(segment)
        self.routers = [
            domain.add_node(segments=tuple(links[place]), router=True, heartbeat_s=1.0)
            for place in range(count)
        ]

    def run(self) -> None:
        domain, draw = self.domain, self.draw
        readers = [router.subscribe("t") for router in self.routers]
        domain.run_for(SETTLE_S)
        publishers = draw.sample(self.routers, 3)
        reached(domain, publishers, readers)
        self.check_tree(10 * len(publishers))
        crashed: list[Node] = []
        for _ in range(6):
            match draw.randrange(3):
                case 0:
                    one, two = draw.choice(self.edges)
                    domain.cut([self.routers[one]], [self.routers[two]])
                case 1 if len(crashed) < self.count // 5:
                    victims = [
                        node for node in self.routers if node not in publishers and node not in crashed
                    ]
                    victim = draw.choice(victims)
                    victim.crash()
                    crashed.append(victim)
                case _:
                    domain.heal()
            for publisher in publishers:
                publisher.publish("t", *numbered(5))
            domain.run_for(draw.choice((0.1, 1.0, 4.0)))
        domain.end_faults()
        for node in crashed:
            node.restart(node=None)
            readers = [reader for reader in readers if reader.node is not node]
            readers.append(node.subscribe("t"))
        domain.run_for(2 * SETTLE_S)
        before = sum(router.state["passed_messages"] for router in self.routers)
        reached(domain, publishers, readers)
        self.check_tree(10 * len(publishers), before)
        check_routed(domain.history())

    def check_tree(self, messages: int, before: int = 0) -> None:
        """A message that all want crosses each link of a tree once: the first hop counts at its publisher."""
        passed = sum(router.state["passed_messages"] for router in self.routers) - before
        most = messages * (self.count - 2)
        if passed > most:
            what = f"{passed} times, and a tree takes {most}"
            raise DomainCheckError(self.domain.history(), "optimal_tree", what)
