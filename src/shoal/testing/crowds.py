"""Situations that are large: a thousand receivers, an hour."""

from __future__ import annotations

from shoal.testing.checkers import check_all, complete, nacks_bounded, numbered
from shoal.testing.faults import Link
from shoal.testing.scenarios import RATE, ids, scenario, transfer
from shoal.testing.simulation import NodeOptions, Simulation


@scenario
def thousand_receivers(simulation: Simulation) -> None:
    """One sender, a thousand receivers with loss of their own, and NACKs that do not grow with them."""
    simulation.set_link(Link(loss=0.01, delay_s=0.0005))
    _, receivers = transfer(simulation, receivers=1_000, messages=200, size=1_000, group_size=1_000)
    # Some receiver loses nearly every segment, so repairs take as much of the rate as data does, and wait;
    # a receiver that waits for one for longer than the hold-off asks again.
    check_all(simulation.history(), complete(*ids(receivers)), nacks_bounded(per_repair=7.0))


@scenario
def thousand_receivers_with_parity(simulation: Simulation) -> None:
    """The same with parity: one symbol repairs what different receivers lost, and few need to ask."""
    simulation.set_link(Link(loss=0.01, delay_s=0.0005))
    options: NodeOptions = {"group_size": 1_000, "parity_symbols": 16}
    sender, receivers = transfer(simulation, receivers=1_000, messages=200, size=1_000, **options)
    check_all(simulation.history(), complete(*ids(receivers)), nacks_bounded(per_repair=3.0))
    segments, repairs = sender.stats["segments_sent"], sender.stats["repairs_sent"]
    assert repairs < segments / 3, f"seed {simulation.seed}: {repairs} repairs of {segments} segments"


@scenario
def one_hour(simulation: Simulation) -> None:
    """An hour of a little traffic, a little loss, and long silences."""
    simulation.set_link(Link(loss=0.05, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    receivers = simulation.add_nodes(3, sync="start")
    stream = sender.open_stream()
    for minute in range(60):
        sender.publish(stream, *numbered(20, first=20 * minute))
        simulation.run_until(60.0 * (minute + 1))
        for receiver in receivers:
            assert receiver.delivered == 20 * (minute + 1), f"seed {simulation.seed}, minute {minute}"
    check_all(simulation.history(), complete(*ids(receivers)))
