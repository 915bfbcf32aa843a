"""Networks joined by routers: named situations.

Every network is a simulated segment. A segment with two nodes is a link between them; one with more is a LAN.
"""

from __future__ import annotations

import random
from itertools import pairwise

from shoal.testing.checkers import numbered
from shoal.testing.domain import BusOptions, Domain, Node
from shoal.testing.domain_checkers import DomainCheckError, nothing_lost
from shoal.testing.domain_graphs import SETTLE_S, reached
from shoal.testing.domain_scenarios import domain_scenario
from shoal.testing.faults import Link
from shoal.testing.routed_checkers import check_routed, every_number_accounted


@domain_scenario
def two_lans_and_a_router(domain: Domain) -> None:
    """A router joins two LANs; what no program on the other side wants does not cross."""
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
    check_routed(domain.history(), every_number_accounted)
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
    check_routed(domain.history(), every_number_accounted)


@domain_scenario
def a_router_crashes_while_messages_cross(domain: Domain) -> None:
    """Of two routers between two LANs one crashes, and returns, while messages cross: none is missed."""
    draw = random.Random(domain.seed)
    routers = [domain.add_node(segments=(0, 1), router=True, heartbeat_s=1.0) for _ in range(2)]
    here, there = (domain.add_node(segments=(segment,), heartbeat_s=1.0) for segment in (0, 1))
    readers = [there.subscribe("t"), here.subscribe("back")]
    domain.run_for(8)
    published = 0

    def publish_for(seconds: float) -> None:
        nonlocal published
        ends_s = domain.now_s + seconds
        while domain.now_s < ends_s:
            here.publish("t", *numbered(3))
            there.publish("back", *numbered(3))
            published += 3
            domain.run_for(draw.uniform(0.01, 0.2))

    for victim in (draw.choice(routers), routers[0], routers[1]):
        publish_for(draw.uniform(0.0, 1.0))
        victim.crash()
        publish_for(draw.uniform(7.0, 9.0))
        victim.restart()
        publish_for(draw.uniform(4.0, 8.0))
    domain.run_for(SETTLE_S)
    for reader in readers:
        if len(reader.bodies) != published:
            what = f"of {published} messages came {len(reader.bodies)} on {reader.record.pattern!r}"
            raise DomainCheckError(domain.history(), "said_again", what)
    check_routed(domain.history(), every_number_accounted)


@domain_scenario
def a_dead_router_is_missed_soon(domain: Domain) -> None:
    """Of two routers between two LANs the one in use dies: the other one goes on within seconds."""
    routers = [
        domain.add_node(segments=(0, 1), router=True, heartbeat_s=4.0, missed_heartbeats_max=5)
        for _ in range(2)
    ]
    here, there = (
        domain.add_node(segments=(segment,), heartbeat_s=4.0, missed_heartbeats_max=5) for segment in (0, 1)
    )
    readers = [there.subscribe("t"), here.subscribe("back")]
    domain.run_for(30)

    def publish_for(seconds: float) -> None:
        ends_s = domain.now_s + seconds
        while domain.now_s < ends_s:
            here.publish("t", *numbered(3))
            there.publish("back", *numbered(3))
            domain.run_for(0.1)

    publish_for(5)
    max(routers, key=lambda router: router.state["passed_messages"]).crash()
    publish_for(10)
    domain.run_for(1)
    for reader in readers:
        times = [reading.at_s for reading in reader.readings]
        silence_s = max(later - earlier for earlier, later in pairwise(times))
        if silence_s > 4.0:
            what = f"nothing came for {silence_s:.1f} s"
            raise DomainCheckError(domain.history(), "missed_soon", what)
    check_routed(domain.history(), every_number_accounted)
    nothing_lost(domain.history())


@domain_scenario
def a_second_link_comes_up(domain: Domain) -> None:
    """A program publishes while its second link comes up, and leaves: nothing is lost."""
    draw = random.Random(domain.seed)
    domain.set_link(
        Link(delay_s=draw.choice((0.0001, 0.0005, 0.005)), jitter_s=draw.choice((0.0, 0.0002, 0.002)))
    )
    is_lan = draw.random() < 0.5
    routers = [domain.add_node(segments=(0,) if is_lan else (), router=True) for _ in range(2)]
    if not is_lan:
        domain.lay_cable(*routers)
    reader, publisher = (domain.add_node(segments=()) for _ in range(2))
    domain.lay_cable(reader, routers[1])
    subscription = reader.subscribe("t")
    domain.run_for(8)
    domain.lay_cable(publisher, routers[0])
    domain.run_until_true(lambda: bool(publisher.interested("t")), within_s=5, step_s=0.001)
    domain.lay_cable(publisher, routers[1])
    published = 0
    while published < 10:
        domain.run_for(draw.choice((0.0, 0.0002, 0.0005, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.01, 0.02)))
        count = draw.randint(1, 10 - published)
        publisher.publish("t", *numbered(count))
        published += count
    if not publisher.close(within_s=5.0):
        raise DomainCheckError(domain.history(), "flush", "the flush was not over, or somebody was silent")
    domain.run_for(SETTLE_S)
    if len(subscription.bodies) != published:
        what = f"of {published} messages that were flushed came {len(subscription.bodies)}"
        raise DomainCheckError(domain.history(), "reached", what)
    check_routed(domain.history(), every_number_accounted)


@domain_scenario
def a_router_that_serves_nobody_is_killed(domain: Domain) -> None:
    """Of three routers in a circle one is killed that has no node behind it: a flush does not wait for it."""
    routers = [domain.add_node(segments=(), router=True, resume_s=60.0) for _ in range(3)]
    programs = [domain.add_node(segments=(), resume_s=60.0) for _ in range(2)]
    for at, router in enumerate(routers):
        domain.lay_cable(router, routers[(at + 1) % 3])
    for program, router in zip(programs, routers, strict=False):
        domain.lay_cable(program, router)
    readers = [program.subscribe("t") for program in programs]
    domain.run_for(8)
    reached(domain, programs, readers)
    routers[2].crash(hangs_up=True)
    began_s = domain.now_s
    reached(domain, programs, readers)
    if domain.now_s - began_s > 5.0:
        what = f"the flushes took {domain.now_s - began_s:.1f} s"
        raise DomainCheckError(domain.history(), "waits_for_nobody", what)
    check_routed(domain.history(), every_number_accounted)
    nothing_lost(domain.history())


@domain_scenario
def a_short_publisher_beside_a_killed_router(domain: Domain) -> None:
    """Of two routers one is killed: a program that begins about then, publishes and leaves is heard."""
    draw = random.Random(domain.seed)
    routers = [domain.add_node(segments=(), router=True) for _ in range(2)]
    reader = domain.add_node(segments=())
    domain.lay_cable(*routers)
    for router in routers:
        domain.lay_cable(reader, router)
    subscription = reader.subscribe("t")
    domain.run_for(8)
    killed_s = domain.now_s + draw.uniform(0.0, 0.4)
    began_s = domain.now_s + draw.uniform(0.0, 1.5)
    domain.run_until(min(killed_s, began_s))
    victim = draw.choice(routers)
    if killed_s < began_s:
        victim.crash(hangs_up=True)
        domain.run_until(began_s)
    publisher = domain.add_node(segments=())
    for router in routers:
        domain.lay_cable(publisher, router)
    domain.run_until(max(killed_s, began_s + 0.02))
    if victim.life.end == "running":
        victim.crash(hangs_up=True)
    domain.run_for(draw.choice((0.0, 0.005, 0.1)))
    publisher.publish("t", *numbered(10))
    if not publisher.close(within_s=5.0):
        raise DomainCheckError(domain.history(), "flush", "the flush was not over, or somebody was silent")
    domain.run_for(SETTLE_S)
    if len(subscription.bodies) != 10:
        what = f"of 10 messages that were flushed came {len(subscription.bodies)}"
        raise DomainCheckError(domain.history(), "reached", what)
    check_routed(domain.history(), every_number_accounted)


def _publish_and_leave(domain: Domain, publisher: Node) -> bool:
    """What a short program does; false if a member lacked something when it left."""
    domain.run_until_true(lambda: bool(publisher.interested("t")), within_s=3, step_s=0.01)
    publisher.publish("t", *numbered(5))
    return publisher.close(within_s=2.5)


@domain_scenario
def short_publishers_beside_a_router_that_returns(domain: Domain) -> None:
    """Of two routers the one in use returns, or stood still: what was flushed comes."""
    draw = random.Random(domain.seed)
    segments = draw.choice(((0, 1), (1, 0)))
    routers = [domain.add_node(segments=(0, 1), router=True) for _ in range(2)]
    reader, first = (domain.add_node(segments=(segment,)) for segment in segments)
    subscription = reader.subscribe("t")
    domain.run_for(8)
    reached(domain, [first], [subscription])
    victim = max(routers, key=lambda router: router.state["passed_messages"])
    stands_still = draw.random() < 0.5
    if stands_still:
        victim.pause(socket_bytes=draw.choice((None, 64 << 10)))
    else:
        victim.crash()
    returns_s = domain.now_s + (draw.uniform(3.0, 7.0) if stands_still else draw.uniform(0.05, 1.0))
    ends_s, confirmed = returns_s + 4.0, []
    while domain.now_s < ends_s:
        domain.run_for(draw.uniform(0.0, 0.3))
        if domain.now_s >= returns_s and (victim.is_paused or victim.life.end == "crashed"):
            victim.go_on()
            if victim.life.end == "crashed":
                victim.restart(node=None)
        publisher = domain.add_node(segments=segments[1:])
        if _publish_and_leave(domain, publisher):
            confirmed.append(publisher)
    domain.run_for(SETTLE_S)
    read = {reading.key for reading in subscription.readings}
    for publisher in confirmed:
        for message in publisher.life.published:
            if message.key not in read:
                what = f"{publisher} flushed {message.key}, and {reader} did not read it"
                raise DomainCheckError(domain.history(), "flushes_reach", what)
    check_routed(domain.history(), every_number_accounted)


@domain_scenario
def a_router_that_returns_at_once(domain: Domain) -> None:
    """Of two routers the one in use is killed and returns before it is missed: the other has everything."""
    draw = random.Random(domain.seed)
    routers = [domain.add_node(segments=(0, 1), router=True) for _ in range(2)]
    reader, publisher = domain.add_node(segments=(0,)), domain.add_node(segments=(1,))
    subscription = reader.subscribe("t")
    domain.run_for(8)
    reached(domain, [publisher], [subscription])
    for _ in range(3):
        before = {router.name: router.state["passed_messages"] for router in routers}
        publisher.publish("t", *numbered(5))
        domain.run_for(0.5)
        victim = max(routers, key=lambda router: router.state["passed_messages"] - before[router.name])
        victim.crash()
        returns_s = domain.now_s + draw.uniform(0.01, 2.5)
        for _ in range(50):
            publisher.publish("t", *numbered(1))
            domain.run_for(draw.uniform(0.0, 0.2))
            if victim.life.end == "crashed" and domain.now_s >= returns_s:
                victim.restart(node=None)
        if victim.life.end == "crashed":
            victim.restart(node=None)
        domain.run_for(SETTLE_S)
    history = domain.history()
    check_routed(history, every_number_accounted)
    nothing_lost(history)
    if len(subscription.bodies) != len(publisher.life.published):
        what = f"of {len(publisher.life.published)} messages came {len(subscription.bodies)}"
        raise DomainCheckError(history, "reached", what)


@domain_scenario
def a_quiet_publisher_beside_another(domain: Domain) -> None:
    """Two publish behind a router, one of them little, while a reader stands still: it hears of both losses.

    So does the quiet one, by its first flush that every node answers.
    """
    draw = random.Random(domain.seed)
    small = BusOptions(cache_bytes=64 << 10, window_bytes=32 << 10, receive_window_bytes=64 << 10)
    domain.add_node(segments=(0, 1), **BusOptions(**small, router=True))
    busy, quiet = (domain.add_node(segments=(0,), **small) for _ in range(2))
    patient = BusOptions(**small, heartbeat_s=2.0)
    reader, other = (domain.add_node(segments=(1,), **patient) for _ in range(2))
    subscriptions = [node.subscribe("t") for node in (reader, other)]
    domain.run_for(8)
    reached(domain, [busy, quiet], subscriptions)
    reader.pause()
    for step in range(100):
        busy.publish("t", *numbered(10, size=1000, first=10 * step))
        if step in range(40, 60):
            quiet.publish("t", *numbered(1, first=step))
        domain.run_for(draw.uniform(0.01, 0.03))
    flushes = draw.random() < 0.5
    if flushes:
        quiet.flush(within_s=5)
    reader.go_on()
    domain.run_for(SETTLE_S)
    flush = quiet.flush(within_s=SETTLE_S)
    history = domain.history()
    check_routed(history, every_number_accounted)
    read = {reading.key for reading in subscriptions[0].readings}
    losses = [loss for loss in reader.life.losses if loss.publisher == quiet.life.publisher]
    for message in quiet.life.published:
        told = any(loss.first <= message.key.number <= loss.last for loss in losses)
        if message.key not in read and not told:
            what = f"{reader} neither read {message.key} nor was told"
            raise DomainCheckError(history, "told", what)
    if losses and (flush is None or reader.life.node not in flush.losers):
        raise DomainCheckError(history, "flushes_hold", f"{reader} lost {losses}, and the flush said {flush}")


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
    check_routed(domain.history(), every_number_accounted)
