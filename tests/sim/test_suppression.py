"""NACKs follow what is lost, not how many receivers lost it."""

import pytest

from shoal.testing import Link, Simulation, check_all, numbered
from shoal.testing.checkers import complete

LAN = Link(delay_s=0.0005)
OUTAGES = 10


def nacks_for_shared_loss(receivers: int, seed: int) -> int:
    """Ten outages that hit everybody alike; returns how many NACKs they cost in all."""
    print(f"seed {seed}")
    simulation = Simulation(seed=seed, link=LAN)
    sender = simulation.add_node(rate_bytes_per_s=1e6, group_size=receivers)
    others = simulation.add_nodes(receivers, sync="start")
    sender.publish(sender.open_stream(), *numbered(200, size=1_000))
    for _ in range(OUTAGES):
        simulation.run_for(0.015)
        simulation.set_link(Link(cut=True))
        simulation.run_for(0.003)
        simulation.set_link(LAN)
    simulation.run_until_delivered(dict.fromkeys(others, 200), within_s=30.0)
    check_all(simulation.history(), complete(*(node.id for node in others)))
    return sum(node.stats["nacks_sent"] for node in others)


@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_times_the_receivers_cost_a_dozen_times_the_nacks_at_most(seed):
    few, many, most = (nacks_for_shared_loss(receivers, seed) for receivers in (10, 100, 1_000))
    print(f"NACKs with 10, 100 and 1000 receivers: {few}, {many}, {most}")
    assert few <= 3 * OUTAGES
    assert many <= 5 * OUTAGES
    assert most <= 12 * OUTAGES


def test_without_back_off_everybody_asks():
    """The same, without what suppresses: the figures above are suppression's work."""
    simulation = Simulation(seed=1, link=LAN)
    sender = simulation.add_node(rate_bytes_per_s=1e6, backoff_factor=0)
    others = simulation.add_nodes(100, sync="start")
    sender.publish(sender.open_stream(), *numbered(50, size=1_000))
    simulation.run_for(0.015)
    simulation.set_link(Link(cut=True))
    simulation.run_for(0.003)
    simulation.set_link(LAN)
    simulation.run_until_delivered(dict.fromkeys(others, 50), within_s=30.0)
    assert sum(node.stats["nacks_sent"] for node in others) > 90
