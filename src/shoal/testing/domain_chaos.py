"""A domain by chance: nodes, weather and mishaps all follow from the seed."""

from __future__ import annotations

import random

from shoal.testing.checkers import numbered
from shoal.testing.domain import BusOptions, Domain, Node, Subscription
from shoal.testing.domain_history import Published
from shoal.testing.domain_scenarios import domain_scenario, settle
from shoal.testing.faults import Clock, Link

STEPS = 12
TOPICS = ("a", "a/b", "a/c", "a/b/c", "d")
PATTERNS = (">", "a/>", "a/*", "a/b", "*", "d", "a/*/c")
NODES_MAX = 8


@domain_scenario
def domain_chaos(domain: Domain) -> None:
    """Publish and subscribe through random faults, end them, and check every promise of the bus."""
    _Chaos(domain, random.Random(domain.seed)).run()


class _Chaos:
    """The run: who is there, and what was done."""

    def __init__(self, domain: Domain, draw: random.Random) -> None:
        self.domain = domain
        self.draw = draw
        self.published = 0
        self.subscriptions: list[Subscription] = []
        self.options = self.draw_options()

    def run(self) -> None:
        self.domain.set_link(self.weather())
        for _ in range(self.draw.randint(2, 4)):
            self.join()
        actions = (
            [self.publish] * 6 + [self.subscribe] * 3 + [self.unsubscribe, self.join, self.join, self.leave]
        )
        actions += [self.crash, self.restart, self.pause, self.go_on, self.partition, self.heal, self.turn]
        actions += [self.jump, self.flush, self.stop_reading, self.read_again]
        for _ in range(STEPS):
            for _ in range(self.draw.randint(1, 4)):
                self.draw.choice(actions)()
            self.domain.run_for(self.draw.choice((0.0, 0.01, 0.1, 0.5, 2.0)))
        for subscription in self.subscriptions:
            if subscription.node.life.end == "running":
                subscription.set_reading(True)
        settle(self.domain)

    def weather(self) -> Link:
        draw = self.draw
        return Link(
            loss=draw.choice((0.0, 0.0, draw.uniform(0.0, 0.3))),
            run_loss=draw.choice((0.0, 0.0, draw.uniform(0.0, 0.1))),
            duplication=draw.choice((0.0, draw.uniform(0.0, 0.2))),
            reordering=draw.choice((0.0, draw.uniform(0.0, 0.3))),
            delay_s=draw.choice((0.0, 0.0005, 0.005, 0.03)),
            jitter_s=draw.choice((0.0, 0.001, 0.02)),
        )

    def draw_options(self) -> BusOptions:
        draw = self.draw
        small = draw.random() < 0.5
        return BusOptions(
            heartbeat_s=draw.choice((0.2, 0.5, 1.0)),
            missed_heartbeats_max=draw.choice((2, 5)),
            window_bytes=16 << 10 if small else 256 << 10,
            cache_bytes=32 << 10 if small else 1 << 20,
            lane_bytes_max=16 << 10 if small else 256 << 10,
            segment_bytes=draw.choice((400, 1400)),
            backoff_factor=draw.choice((0, 1, 4)),
        )

    # --- who ---

    def running(self) -> list[Node]:
        return [node for node in self.domain.nodes.values() if node.life.end == "running"]

    def any_node(self) -> Node | None:
        awake = [node for node in self.running() if not node.is_paused]
        return self.draw.choice(awake) if awake else None

    # --- actions ---

    def join(self) -> None:
        if len(self.running()) < NODES_MAX:
            clock = Clock(offset_s=self.draw.uniform(0, 1e6), skew=self.draw.uniform(-0.01, 0.01))
            node = self.domain.add_node(clock=clock, **self.options)
            if self.draw.random() < 0.7:
                self.subscribe(node)

    def leave(self) -> None:
        if (node := self.any_node()) and len(self.running()) > 2:
            node.leave()

    def crash(self) -> None:
        if (node := self.any_node()) and len(self.running()) > 2:
            node.crash()

    def restart(self) -> None:
        if node := self.any_node():
            node.restart(node=node.life.node if self.draw.random() < 0.5 else None)
            if self.draw.random() < 0.7:
                self.subscribe(node)

    def publish(self) -> None:
        if node := self.any_node():
            count = self.draw.choice((1, 5, 30))
            size = self.draw.choice((20, 200, 2000))
            bodies = numbered(count, size=size, first=self.published)
            self.published += count
            priority = self.draw.choice((4, 4, 4, 1, 8))
            node.publish(self.draw.choice(TOPICS), *bodies, priority=priority)

    def subscribe(self, node: Node | None = None) -> None:
        node = node or self.any_node()
        if node is None:
            return
        pattern = self.draw.choice(PATTERNS)
        if self.draw.random() < 0.3:
            subscription = node.subscribe(pattern, selector="JMSPriority > 5", accepts=_is_urgent)
        else:
            subscription = node.subscribe(
                pattern,
                no_local=self.draw.random() < 0.2,
                queue_bytes_max=self.draw.choice((4 << 10, 256 << 10)),
                queue_full=self.draw.choice(("block", "block", "drop_old")),
            )
        self.subscriptions.append(subscription)

    def unsubscribe(self) -> None:
        awake = [held for held in self.subscriptions if self.is_live(held) and not held.node.is_paused]
        if awake:
            self.draw.choice(awake).close()

    def is_live(self, held: Subscription) -> bool:
        return held.node.life.end == "running" and held.record.ended_s is None

    def stop_reading(self) -> None:
        live = [held for held in self.subscriptions if self.is_live(held)]
        if live:
            self.draw.choice(live).set_reading(False)

    def read_again(self) -> None:
        for held in self.subscriptions:
            if self.is_live(held):
                held.set_reading(True)

    def pause(self) -> None:
        if node := self.any_node():
            node.pause(socket_bytes=self.draw.choice((None, 0, 20_000, 200_000)))

    def go_on(self) -> None:
        for node in self.domain.nodes.values():
            node.go_on()

    def partition(self) -> None:
        nodes = list(self.domain.nodes.values())
        away = self.draw.sample(nodes, self.draw.randint(1, max(1, len(nodes) - 1)))
        rest = [node for node in nodes if node not in away]
        self.domain.cut(away, rest, both_ways=self.draw.random() < 0.7)

    def heal(self) -> None:
        self.domain.heal()

    def turn(self) -> None:
        self.domain.set_link(self.weather())

    def jump(self) -> None:
        if node := self.any_node():
            node.jump(self.draw.choice((-3600.0, -1.0, 5.0, 86400.0)))

    def flush(self) -> None:
        if node := self.any_node():
            node.begin_flush()


def _is_urgent(message: Published) -> bool:
    return message.priority > 5
