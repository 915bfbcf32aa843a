"""Situations of data objects and commands."""

from __future__ import annotations

import random

from shoal.testing.checkers import check_all, objects_complete
from shoal.testing.faults import Link
from shoal.testing.scenarios import RATE, ids, scenario
from shoal.testing.simulation import NodeOptions, Simulation

SIZES = (1, 1_399, 1_400, 1_401, 30_000, 100_000)
CODES: list[NodeOptions] = [
    {"fec": "no_code"},
    {"fec": "reed_solomon_8"},
    {"fec": "reed_solomon_8", "parity_symbols": 6},
    {"fec": "reed_solomon_8", "parity_symbols": 6, "auto_parity": 3, "interleave_blocks": 4},
    {"fec": "small_block", "parity_symbols": 4, "auto_parity": 2},
]


@scenario
def objects(simulation: Simulation) -> None:
    """Objects with and without information go through loss, bursts, duplication and reordering."""
    weather = Link(
        loss=0.05,
        burst_begins=0.01,
        burst_ends=0.1,
        duplication=0.1,
        reordering=0.1,
        delay_s=0.001,
        jitter_s=0.001,
    )
    simulation.set_link(weather)
    draw = random.Random(simulation.seed)
    options: NodeOptions = {
        **CODES[simulation.seed % len(CODES)],
        "rate_bytes_per_s": RATE,
        "block_symbols": 16,
    }
    sender = simulation.add_node(**options)
    receivers = simulation.add_nodes(3, sync="all")
    sender.set_ackers(receivers)
    numbers = []
    for size in draw.sample(SIZES, len(SIZES)):
        for info in (b"", f"{size} bytes".encode()):
            number = sender.send_data(draw.randbytes(size), info=info)
            assert number is not None, "there is room for all"
            sender.request_watermark(number)
            numbers.append(number)
    assert sender.send_command(b"that is all", times=20)
    # A burst ends after a number of datagrams, and in the end there are few.
    simulation.run_until_holds(objects_complete(*ids(receivers)), within_s=3_600.0)
    simulation.run_for(10.0)
    check_all(simulation.history(), objects_complete(*ids(receivers)))
    # A burst may outlast the sender's patience with an acker; when the weather is fine, all answer.
    simulation.set_link(Link(delay_s=0.001))
    last = sender.send_data(b"and one more")
    assert last is not None
    sender.request_watermark(last)
    simulation.run_for(10.0)
    acked = {event.fields["stream"]: event.fields["acked"] for event in sender.events_of("watermark_done")}
    assert set(acked) == {*numbers, last}, f"seed {simulation.seed}: {acked}"
    assert acked[last] == ids(receivers), f"seed {simulation.seed}: {acked}"
    for receiver in receivers:
        assert receiver.events_of("command_received"), f"seed {simulation.seed}: {receiver} heard no command"


@scenario
def cancelled_objects(simulation: Simulation) -> None:
    """A receiver is away while objects are sent and cancelled: it gets the others, and hears of these."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    away, well = simulation.add_nodes(2, sync="all")
    draw = random.Random(simulation.seed)
    sender.send_data(b"a first one, that both hear of")
    simulation.run_until_holds(objects_complete(away.id, well.id), within_s=30.0, step_s=0.1)
    simulation.cut([sender], [away])
    numbers = [sender.send_data(draw.randbytes(5_000), info=b"five thousand bytes") for _ in range(10)]
    simulation.run_until_holds(objects_complete(well.id), within_s=30.0, step_s=0.1)
    cancelled = [number for number in numbers if number is not None and draw.random() < 0.5]
    for number in cancelled:
        assert sender.cancel_object(number)
    simulation.heal()
    sender.send_data(b"a last one, that tells of those before it")
    simulation.run_until_holds(objects_complete(away.id, well.id), within_s=60.0)
    check_all(simulation.history(), objects_complete(away.id, well.id))
    told = [event.fields["stream"] for event in away.events_of("object_aborted")]
    assert sorted(told, key=str) == sorted(cancelled, key=str), f"seed {simulation.seed}: {told}"
    assert not well.events_of("object_aborted")
