"""Faults say what is wrong with them, and do in the network what they say."""

from itertools import pairwise

import pytest

from shoal.testing import Clock, Link, Node, Port, Simulation, numbered

SEED = 11
COUNT = 4_000


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Link(loss=1.2), "loss"),
        (lambda: Link(loss=float("nan")), "loss"),
        (lambda: Link(burst_begins=0.1), "burst_ends"),
        (lambda: Link(duplication=-0.1), "duplication"),
        (lambda: Link(delay_s=-1.0), "delay_s"),
        (lambda: Link(jitter_s=float("inf")), "jitter_s"),
        (lambda: Port(egress_bytes_per_s=0.0), "egress_bytes_per_s"),
        (lambda: Port(ingress_queue_bytes=-1), "ingress_queue_bytes"),
        (lambda: Clock(skew=-1.0), "skew"),
        (lambda: Clock(offset_s=-5.0), "offset_s"),
    ],
)
def test_an_impossible_fault_names_its_field(make, field):
    with pytest.raises(ValueError, match=f"^{field} must be"):
        make()


def test_a_link_without_loss_keeps_its_delay():
    calm = Link(loss=0.3, burst_begins=0.1, burst_ends=0.5, delay_s=0.02, cut=True).without_loss()
    assert calm == Link(delay_s=0.02)
    assert calm.is_lossless
    assert not Link(loss=0.1).is_lossless


def send_segments(link: Link, **port: object) -> tuple[Simulation, Node]:
    """Send one datagram per message to a receiver that never asks for repair."""
    simulation = Simulation(seed=SEED, link=link, trace=True)
    sender = simulation.add_node(rate_bytes_per_s=1e6, segment_bytes=100, receive=False)
    receiver = simulation.add_node(**port)
    simulation.set_link(Link(cut=True), source=receiver, target=sender)
    sender.publish(sender.open_stream(), *numbered(COUNT, size=99))
    simulation.run_until(2.0)
    return simulation, receiver


def data_arrivals(simulation: Simulation) -> list[tuple[float, int]]:
    """When data came, and in which order it had been sent."""
    return [
        (datagram.at_s, int.from_bytes(datagram.content[2:4]))
        for datagram in simulation.trace
        if datagram.content[0] & 0xF == 2
    ]


@pytest.mark.parametrize("loss", [0.05, 0.3])
def test_loss_takes_its_share(loss):
    simulation, _ = send_segments(Link(loss=loss))
    arrived = len(data_arrivals(simulation))
    assert 1 - arrived / COUNT == pytest.approx(loss, rel=0.15)


def test_burst_loss_takes_neighbours():
    simulation, _ = send_segments(Link(burst_begins=0.01, burst_ends=0.1))
    sequences = [sequence for _, sequence in data_arrivals(simulation)]
    gaps = [after - before - 1 for before, after in pairwise(sequences)]
    bursts = [gap for gap in gaps if gap > 0]
    assert sum(bursts) / len(bursts) == pytest.approx(10, rel=0.5)


def test_duplication_doubles_its_share():
    simulation, _ = send_segments(Link(duplication=0.2))
    assert len(data_arrivals(simulation)) == pytest.approx(COUNT * 1.2, rel=0.05)


def test_jitter_keeps_the_order_and_reordering_does_not():
    jittery = [sequence for _, sequence in data_arrivals(send_segments(Link(delay_s=0.01, jitter_s=0.01))[0])]
    assert jittery == sorted(jittery)
    mixed = [sequence for _, sequence in data_arrivals(send_segments(Link(delay_s=0.01, reordering=0.1))[0])]
    assert len(mixed) == COUNT
    assert mixed != sorted(mixed)


def test_delay_is_the_least_time_under_way():
    simulation, _ = send_segments(Link(delay_s=0.25))
    assert data_arrivals(simulation)[0][0] == pytest.approx(0.25)


def test_a_narrow_port_drops_what_its_queue_cannot_hold():
    port = Port(ingress_bytes_per_s=5e5, ingress_queue_bytes=5_000)
    simulation, _ = send_segments(Link(), port=port)
    assert len(data_arrivals(simulation)) == pytest.approx(COUNT / 2, rel=0.1)


def test_a_narrow_egress_port_delays_and_drops_nothing():
    simulation = Simulation(seed=SEED, trace=True)
    sender = simulation.add_node(port=Port(egress_bytes_per_s=1e5))
    simulation.add_node()
    sender.publish(sender.open_stream(), *numbered(100, size=1_000))
    simulation.run_until(5.0)
    last = max(at_s for at_s, _ in data_arrivals(simulation))
    assert last == pytest.approx(1.0, rel=0.1)


def test_a_cut_is_one_way_unless_asked_otherwise():
    simulation = Simulation(seed=SEED)
    one, other = simulation.add_nodes(2, rate_bytes_per_s=1e6)
    simulation.cut([one], [other])
    for node in (one, other):
        node.publish(node.open_stream(), *numbered(10, first=100 * node.id))
    simulation.run_until(1.0)
    assert (one.delivered, other.delivered) == (10, 0)
    simulation.heal()
    one.publish(0, *numbered(1, first=200))
    simulation.run_until(2.0)
    assert other.delivered > 0
