"""Who could reach whom in a simulated domain, and when."""

import math

from shoal.testing import Domain
from shoal.testing.domain_topology import Topology


def lans_and_a_router() -> Topology:
    """Programs 1 and 2 on one LAN, 3 on another, router 4 between them."""
    topology = Topology()
    for name, segments in ((1, (0,)), (2, (0,)), (3, (1,)), (4, (0, 1))):
        topology.add(name, domain=7, segments=segments, router=name == 4)
    topology.note(0.0)
    return topology


def test_nodes_are_joined_over_a_lan_and_through_routers():
    topology = lans_and_a_router()
    assert topology.always_joined(1, 2, 0.0, 9.0)
    assert topology.always_joined(1, 3, 0.0, 9.0)
    assert not topology.always_joined(1, 3, -1.0, 9.0), "there was no network yet"
    assert topology.routers_beside(1, 5.0) == [4]


def test_a_program_does_not_forward():
    topology = Topology()
    for name, segments in ((1, (0,)), (2, (0, 1)), (3, (1,))):
        topology.add(name, domain=7, segments=segments, router=False)
    topology.note(0.0)
    assert topology.always_joined(1, 2, 0.0, 1.0)
    assert not topology.always_joined(1, 3, 0.0, 1.0)


def test_nodes_are_apart_while_a_router_is_down_or_a_path_is_cut():
    topology = lans_and_a_router()
    topology.set_up(4, False)
    topology.note(2.0)
    topology.set_up(4, True)
    topology.note(3.0)
    assert topology.always_joined(1, 3, 0.0, 1.9)
    assert not topology.always_joined(1, 3, 1.0, 2.5)
    assert not topology.always_joined(1, 3, 2.5, 4.0)
    assert topology.always_joined(1, 3, 3.0, 4.0)
    assert topology.always_joined(1, 2, 0.0, 4.0)
    topology.set_cut(3, 4, True)
    topology.note(5.0)
    assert not topology.always_joined(1, 3, 5.0, 5.0), "one direction is enough"
    topology.heal()
    topology.note(6.0)
    assert topology.always_joined(1, 3, 6.0, 7.0)


def test_it_tells_when_two_nodes_had_been_joined_for_long():
    topology = lans_and_a_router()
    assert topology.joined_for(1, 3, 0.0, 5.0) == 5.0
    assert topology.joined_for(1, 3, 2.0, 5.0) == 7.0
    topology.set_up(4, False)
    topology.note(4.0)
    assert topology.joined_for(1, 3, 0.0, 5.0) == math.inf
    topology.set_up(4, True)
    topology.note(6.0)
    assert topology.joined_for(1, 3, 0.0, 5.0) == 11.0


def test_nodes_of_different_domains_are_apart():
    topology = Topology()
    for name, domain in ((1, 7), (2, 8)):
        topology.add(name, domain=domain, segments=(0,), router=False)
    topology.note(0.0)
    assert not topology.always_joined(1, 2, 0.0, 1.0)


def test_a_simulated_domain_keeps_it():
    domain = Domain(seed=1)
    one, two = domain.add_node(segments=()), domain.add_node(segments=(), router=True)
    domain.run_for(1.0)
    domain.lay_cable(one, two)
    domain.run_for(1.0)
    domain.cut([one], [two])
    domain.run_for(1.0)
    domain.heal()
    two.pause()
    domain.run_for(1.0)
    two.go_on()
    domain.run_for(1.0)
    two.restart()
    domain.run_for(1.0)
    joined = [
        domain.topology.always_joined(one.name, two.name, at_s, at_s)
        for at_s in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5)
    ]
    assert joined == [False, True, False, False, True, True]
    one.leave()
    domain.run_for(1.0)
    assert not domain.topology.always_joined(one.name, two.name, 6.5, 6.5)
