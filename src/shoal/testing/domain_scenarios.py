"""Named situations of whole nodes, each a function of a seed that runs one and checks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from shoal.testing.checkers import numbered
from shoal.testing.domain import Domain, Node, paused
from shoal.testing.domain_checkers import DomainCheckError, accounted, check_domain, no_stall, nothing_lost
from shoal.testing.domain_history import DomainHistory, Published
from shoal.testing.faults import Clock, Link, Port
from shoal.testing.routed_checkers import STRICT
from shoal.testing.scenarios import SCENARIOS
from shoal.testing.stranger import Stranger

LAN = Link(delay_s=0.0005)
#: Time in which nodes find each other again, and report losses, once all faults are over.
SETTLE_S = 60.0
#: How long a member that gets nowhere may hold a publisher back: `slow_after_s`, and once more to notice it.
STALL_S = 1.5


@dataclass(frozen=True)
class DomainScenario:
    """A situation with a name: called with a seed, it runs and checks itself."""

    name: str
    play: Callable[[Domain], None]

    def __call__(self, seed: int) -> Domain:
        """Run with a seed, and return the finished simulation."""
        domain = self.prepare(seed)
        self.play(domain)
        return domain

    def prepare(self, seed: int, *, trace: bool = False, strict: bool = False) -> Domain:
        """Make the empty domain that `play` wants; its failures say how to repeat the run."""
        repeat = self.repeat_command(seed) + (" --strict" if strict else "")
        return Domain(seed=seed, link=LAN, trace=trace, repeat=repeat, strict=strict)

    def repeat_command(self, seed: int) -> str:
        """The command that runs this scenario again with a seed."""
        return f"python -m shoal.testing.search --scenario {self.name} --seed {seed}"

    @property
    def summary(self) -> str:
        """What it is about, in a sentence."""
        return (self.play.__doc__ or "").partition("\n")[0]


def domain_scenario(play: Callable[[Domain], None]) -> DomainScenario:
    """Make a scenario of a function, and register it under the function's name."""
    made = DomainScenario(play.__name__, play)
    SCENARIOS[made.name] = made
    return made


def settle(domain: Domain, *, within_s: float = SETTLE_S) -> DomainHistory:
    """End all faults, and let time pass until everything is accounted for; then check it."""
    domain.end_faults()
    known = domain.run_until_true(domain.everybody_knows_everybody, within_s=within_s)
    if not known:
        views = {node.name: len(node.members) for node in domain.nodes.values() if node.life.end == "running"}
        what = f"after {within_s} s without faults not everybody knows everybody: {views}"
        raise DomainCheckError(domain.history(), "settle", what)

    def all_accounted() -> bool:
        try:
            accounted(domain.history())
        except DomainCheckError:
            return False
        return not any(node.life.end == "running" and node.state["backlog"] for node in domain.nodes.values())

    domain.run_until_true(all_accounted, within_s=within_s)
    history = domain.history()
    check_domain(history, accounted, *(STRICT if history.strict else ()))
    stuck = [node for node in domain.nodes.values() if node.life.end == "running" and node.state["backlog"]]
    if stuck:
        raise DomainCheckError(history, "settle", f"{stuck[0]} still cannot publish")
    return history


def meet(domain: Domain, *, within_s: float = 10.0) -> None:
    """Let nodes find each other."""
    if not domain.run_until_true(domain.everybody_knows_everybody, within_s=within_s):
        raise DomainCheckError(domain.history(), "meet", f"not everybody knows everybody after {within_s} s")


def publish_for(
    domain: Domain, publisher: Node, topic: str, seconds: float, *, every_s: float = 0.01
) -> None:
    """Publish numbered messages for a while."""
    end_s = domain.now_s + seconds
    number = 0
    while domain.now_s < end_s:
        publisher.publish(topic, *numbered(1, first=number))
        number += 1
        domain.run_for(every_s)


@domain_scenario
def whole_nodes_meet(domain: Domain) -> None:
    """Nodes that start together find each other; what is published then reaches all, at home and away."""
    nodes = domain.add_nodes(5)
    for node in nodes:
        node.subscribe("prices/>")
    meet(domain)
    for node in nodes:
        node.publish("prices/ACME", *numbered(20))
        node.publish("prices/urgent", *numbered(20), priority=9)
        node.publish("elsewhere", *numbered(5))
    nodes[0].flush()
    nothing_lost(settle(domain))


@domain_scenario
def a_fresh_publisher_loses_nothing(domain: Domain) -> None:
    """A program that connects, publishes and leaves at once reaches every subscriber that was there."""
    readers = [node.subscribe("prices/>") for node in domain.add_nodes(4)]
    meet(domain)
    domain.run_for(3.0)
    publisher = domain.add_node()
    bodies = numbered(50)
    publisher.publish("prices/ACME", *bodies)
    publisher.close()
    domain.run_for(2.0)
    for reader in readers:
        if reader.bodies != bodies:
            what = f"{reader.node} read {len(reader.bodies)} of {len(bodies)}"
            raise DomainCheckError(domain.history(), "fresh_publisher", what)
    settle(domain)


@domain_scenario
def joins_leaves_and_crashes(domain: Domain) -> None:
    """Nodes come, leave and crash by the dozen while others publish."""
    publisher, steady = domain.add_nodes(2)
    steady.subscribe("prices/>")
    meet(domain)
    others: list[Node] = []
    for wave in range(6):
        for _ in range(5):
            node = domain.add_node()
            node.subscribe("prices/>")
            others.append(node)
        publish_for(domain, publisher, "prices/ACME", 0.4)
        for position, node in enumerate(others):
            if node.life.end != "running":
                continue
            if (position + wave) % 3 == 0:
                node.leave()
            elif (position + wave) % 3 == 1:
                node.crash()
    publish_for(domain, publisher, "prices/ACME", 0.5)
    settle(domain)


@domain_scenario
def partition_and_healing(domain: Domain) -> None:
    """The network is cut for longer than heartbeats last, and heals; both sides publish all the time."""
    nodes = domain.add_nodes(5)
    for node in nodes:
        node.subscribe("prices/>")
    meet(domain)
    publish_for(domain, nodes[0], "prices/ACME", 0.3)
    domain.cut(nodes[:2], nodes[2:])
    for _ in range(8):
        publish_for(domain, nodes[0], "prices/left", 0.3)
        publish_for(domain, nodes[4], "prices/right", 0.3)
    domain.heal()
    publish_for(domain, nodes[0], "prices/ACME", 0.5)
    settle(domain)


@domain_scenario
def lost_doubled_and_reordered(domain: Domain) -> None:
    """Announcements, welcomes and messages are lost, doubled and reordered from the first moment on."""
    domain.set_link(Link(delay_s=0.001, jitter_s=0.004, loss=0.2, duplication=0.2, reordering=0.3))
    nodes = domain.add_nodes(5)
    for node in nodes:
        node.subscribe("prices/>")
    for step in range(20):
        nodes[step % 5].publish("prices/ACME", *numbered(5, first=5 * step))
        domain.run_for(0.1)
    settle(domain)


@domain_scenario
def interest_that_changes(domain: Domain) -> None:
    """Subscriptions come and go while messages flow, with and without selectors."""
    publisher, *readers = domain.add_nodes(4)
    meet(domain)

    def urgent(message: Published) -> bool:
        return message.priority > 5

    held = [reader.subscribe("prices/>") for reader in readers]
    for step in range(40):
        reader = step % 3
        if step % 4 == 0:
            held[reader].close()
            held[reader] = readers[reader].subscribe(("prices/>", "prices/ACME", "*/EMCA")[step % 3])
        if step % 5 == 0:
            readers[reader].subscribe("prices/*", selector="JMSPriority > 5", accepts=urgent)
        for topic in ("prices/ACME", "prices/EMCA", "news"):
            publisher.publish(topic, *numbered(3, first=3 * step), priority=(4, 7)[step % 2])
        domain.run_for(0.05)
    nothing_lost(settle(domain))


@domain_scenario
def a_slow_reader(domain: Domain) -> None:
    """One reader of four stops: its publisher waits no longer than documented, and it hears of its loss."""
    publisher, *readers = domain.add_nodes(5, lane_bytes_max=64 << 10, window_bytes=64 << 10)
    subscriptions = [node.subscribe("prices/>", queue_bytes_max=32 << 10) for node in readers]
    meet(domain)
    subscriptions[0].set_reading(False)
    for step in range(150):
        publisher.publish("prices/ACME", *numbered(10, size=1000, first=10 * step))
        domain.run_for(0.02)
    subscriptions[0].set_reading(True)
    no_stall(STALL_S)(settle(domain))


@domain_scenario
def a_slow_store(domain: Domain) -> None:
    """A store that reads by fits and starts is waited for: nothing is lost, and it is not expelled."""
    bytes_max = 64 << 10
    publisher, store, *readers = domain.add_nodes(
        4,
        lane_bytes_max=bytes_max,
        window_bytes=bytes_max,
        cache_bytes=2 * bytes_max,
        receive_window_bytes=2 * bytes_max,
    )
    store.set_store()
    recorder = store.subscribe("prices/>", queue_bytes_max=32 << 10)
    for reader in readers:
        reader.subscribe("prices/>")
    meet(domain)
    for step in range(200):
        # For three seconds not at all, then in one turn of twenty.
        recorder.set_reading(step >= 100 and step % 20 == 0)
        publisher.publish("prices/ACME", *numbered(10, size=1000, first=10 * step))
        domain.run_for(0.03)
    recorder.set_reading(True)
    nothing_lost(settle(domain))
    slow = [happening for happening in publisher.happenings if happening.kind == "slow"]
    if slow:
        raise DomainCheckError(domain.history(), "slow store", f"the publisher went on without it: {slow[0]}")
    if max(sent.waited_s for sent in publisher.life.published) < 2.0:
        raise DomainCheckError(domain.history(), "slow store", "the publisher did not wait for it")


@domain_scenario
def a_host_that_pauses_now_and_then(domain: Domain) -> None:
    """A host that stands still at times is given longer until it is taken for dead, and buries no other."""
    publisher, pausing, other = domain.add_nodes(3)
    for node in (pausing, other):
        node.subscribe("prices/>")
    meet(domain)
    # Within its heartbeats the first time; then, once it is known to pause, for longer than they allow.
    for pause_s in (2.0, 2.0, 4.0):
        publish_for(domain, publisher, "prices/ACME", 1.0, every_s=0.1)
        with paused(pausing, socket_bytes=64 << 10):
            publish_for(domain, publisher, "prices/ACME", pause_s, every_s=0.1)
    publish_for(domain, publisher, "prices/ACME", 1.0, every_s=0.1)
    nothing_lost(settle(domain))
    gone = [happening for node in (publisher, pausing, other) for happening in node.happenings]
    gone = [happening for happening in gone if happening.kind == "gone"]
    if gone:
        raise DomainCheckError(domain.history(), "deaths", f"somebody was taken for dead: {gone[0]}")


@domain_scenario
def a_paused_host(domain: Domain) -> None:
    """A host stands still for longer than its heartbeats, comes back, and hears what it missed."""
    publisher, reader, other = domain.add_nodes(3)
    reader.subscribe("prices/>")
    other.subscribe("news")
    meet(domain)
    publish_for(domain, publisher, "prices/ACME", 0.3)
    with paused(reader, socket_bytes=64 << 10):
        publish_for(domain, publisher, "prices/ACME", 6.0)
    publish_for(domain, publisher, "prices/ACME", 0.5)
    settle(domain)


@domain_scenario
def clocks_that_jump(domain: Domain) -> None:
    """Calendars jump back and forth by hours, and clocks run at their own speed, while messages flow."""
    nodes = [
        domain.add_node(clock=Clock(offset_s=1000.0 * number, skew=0.01 * number)) for number in range(3)
    ]
    for node in nodes:
        node.subscribe("prices/>")
    meet(domain)
    for step in range(20):
        nodes[step % 3].jump((-3600.0, 7200.0)[step % 2])
        for node in nodes:
            node.publish("prices/ACME", *numbered(3, first=3 * step))
        domain.run_for(0.05)
    nothing_lost(settle(domain))


@domain_scenario
def several_links(domain: Domain) -> None:
    """A node on two networks reaches the readers of both, with one identity for each message."""
    both = domain.add_node(segments=(1, 2))
    left, right = domain.add_node(segments=(1,)), domain.add_node(segments=(2,))
    readers = [left.subscribe("prices/>"), right.subscribe("prices/>"), both.subscribe("prices/>")]
    domain.run_until_true(lambda: len(both.interested("prices/ACME")) == 2, within_s=10.0)
    bodies = numbered(50)
    both.publish("prices/ACME", *bodies)
    domain.run_for(2.0)
    history = domain.history()
    for reader in readers:
        if reader.bodies != bodies:
            raise DomainCheckError(history, "several_links", f"{reader.node} read {len(reader.bodies)} of 50")
    check_domain(history, accounted, nothing_lost)


@domain_scenario
def a_restarted_node(domain: Domain) -> None:
    """A publisher and a reader crash and start again, under their old node ids and under new ones."""
    publisher, reader, steady = domain.add_nodes(3)
    steady.subscribe("prices/>")
    reader.subscribe("prices/>")
    meet(domain)
    for round_ in range(4):
        publish_for(domain, publisher, "prices/ACME", 0.3)
        publisher.restart(node=publisher.life.node if round_ % 2 else None)
        publish_for(domain, publisher, "prices/ACME", 0.3)
        reader.restart(node=reader.life.node if round_ % 2 == 0 else None)
        reader.subscribe("prices/>")
    publish_for(domain, publisher, "prices/ACME", 0.5)
    settle(domain)


@domain_scenario
def two_nodes_with_one_id(domain: Domain) -> None:
    """Nodes have one node id, side by side or beyond a cut that heals: each gets its own, and none a gap."""
    left = domain.add_nodes(3)
    right = [domain.add_node(node=node.life.node) for node in (left[0], left[1], left[1])]
    nodes = [*left, *right]
    domain.cut(left, right)
    for node in nodes:
        node.subscribe("prices/>")
    for _ in range(2):
        for node in nodes:
            publish_for(domain, node, "prices/ACME", 0.3)
            node.publish("prices/large", *numbered(2, size=50_000))
        domain.heal()
    meet(domain)
    for node in nodes:
        publish_for(domain, node, "prices/ACME", 0.3)
    nothing_lost(settle(domain))
    ids = [node.life.node for node in nodes]
    if len(set(ids)) < len(ids):
        raise DomainCheckError(domain.history(), "node ids", f"not everybody has its own: {ids}")


@domain_scenario
def a_publisher_that_leaves(domain: Domain) -> None:
    """What a publisher said last is lost, and it leaves: its goodbye tells readers what they lost."""
    publisher, reader, other = domain.add_nodes(3)
    prices = reader.subscribe("prices/>")
    other.subscribe("prices/>")
    meet(domain)
    publish_for(domain, publisher, "prices/ACME", 0.3)
    domain.cut([publisher], [reader], both_ways=False)
    publish_for(domain, publisher, "prices/ACME", 0.2)
    domain.heal()
    publisher.leave()
    domain.run_for(5.0)
    history = domain.history()
    check_domain(history)
    read = {reading.key.number for reading in prices.readings}
    lost = {number for loss in reader.life.losses for number in range(loss.first, loss.last + 1)}
    given = {message.key.number for message in publisher.life.published}
    if read | lost != given or read & lost or not lost:
        what = f"of {len(given)} messages {len(read)} were read and {len(lost)} told as lost"
        raise DomainCheckError(history, "goodbye", what)


@domain_scenario
def a_narrow_cable(domain: Domain) -> None:
    """One member's cable takes a tenth of what is published: the others are served all the same."""
    publisher, slow, *fast = domain.add_nodes(5, lane_bytes_max=64 << 10, window_bytes=64 << 10)
    slow.set_port(Port(ingress_bytes_per_s=20_000, ingress_queue_bytes=20_000))
    for node in (slow, *fast):
        node.subscribe("prices/>")
    meet(domain)
    for step in range(100):
        publisher.publish("prices/ACME", *numbered(4, size=1000, first=4 * step))
        domain.run_for(0.02)
    slow.set_port(Port())
    settle(domain)


def under_attack(domain: Domain, attack: Callable[[Stranger], None]) -> None:
    """Let a publisher and two readers go on for three seconds while a stranger sends copies."""
    publisher, *readers = domain.add_nodes(3)
    for node in readers:
        node.subscribe("prices/>")
    meet(domain)
    stranger = Stranger(domain)
    publish_for(domain, publisher, "prices/ACME", 1.0)
    end_s = domain.now_s + 3.0
    number = 0
    while domain.now_s < end_s:
        stranger.listen()
        attack(stranger)
        publisher.publish("prices/ACME", *numbered(10, size=500, first=number))
        number += 10
        domain.run_for(0.01)


@domain_scenario
def changed_copies(domain: Domain) -> None:
    """A stranger without a key sends 3,500 changed copies of what he hears in a second: the flow goes on."""
    under_attack(domain, lambda stranger: stranger.send_changed(35))
    no_stall(STALL_S)(settle(domain))


@domain_scenario
def copies_once_more(domain: Domain) -> None:
    """A stranger without a key sends 3,500 copies of what he hears in a second: none is lost or doubled."""
    under_attack(domain, lambda stranger: stranger.send_again(35))
    history = settle(domain)
    no_stall(STALL_S)(history)
    nothing_lost(history)


@domain_scenario
def copies_of_another_run(domain: Domain) -> None:
    """A stranger repeats all that he hears as another run of its sender: most arrives, the rest is reported.

    More is not promised: a node that hears two runs of one node at once cannot know which is true, and
    only a key helps.
    """
    under_attack(domain, lambda stranger: stranger.send_as(50, instance=7))
    history = settle(domain)
    no_stall(STALL_S)(history)
    published = sum(len(life.published) for life in history.lives)
    for life in history.lives:
        for record in life.subscriptions.values():
            if 2 * len(record.readings) < published:
                what = f"{life} read only {len(record.readings)} of {published} messages"
                raise DomainCheckError(history, "copies_of_another_run", what)


@domain_scenario
def copies_under_another_id(domain: Domain) -> None:
    """A stranger repeats all that he hears under one other node id: no member moves there."""
    under_attack(domain, lambda stranger: stranger.send_as(50, node=77))
    history = settle(domain)
    no_stall(STALL_S)(history)
    nothing_lost(history)
