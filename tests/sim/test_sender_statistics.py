"""The statistics of a sender, exact against simulated runs; the send delay and epochs that they show."""

import pytest

from shoal.bus.statistics import Statistics, statistics_of
from shoal.testing import Link, Simulation, check_all, numbered
from shoal.testing.checkers import complete
from shoal.testing.simulation import Node

DELAY_S = 0.002
LAN = Link(delay_s=DELAY_S)
#: A message of this length, with its own length before it, fills a segment.
MESSAGE_BYTES = 1_396


def run(
    seed: int = 1,
    link: Link = LAN,
    count: int = 500,
    window_bytes: int | None = 1 << 20,
    receivers: int = 2,
    **options: object,
) -> tuple[Statistics, Node, Simulation]:
    """A sender whose messages all receivers get: its statistics."""
    print(f"seed {seed}")
    simulation = Simulation(seed=seed, link=link, trace=True)
    sender = simulation.add_node(**options)  # type: ignore[arg-type]
    others = simulation.add_nodes(receivers, sync="start")
    sender.set_ackers(others)
    stream = sender.open_stream(window_bytes=window_bytes)
    sender.publish(stream, *numbered(count, size=MESSAGE_BYTES))
    assert simulation.run_until_delivered(dict.fromkeys(others, count), within_s=600)
    simulation.run_for(1)
    check_all(simulation.history(), complete(*(node.id for node in others)))
    return statistics_of(sender.stats, count, 0.0), sender, simulation


def test_without_loss_nothing_is_asked_for_again_and_nothing_sleeps() -> None:
    found, sender, _ = run()
    assert found.datagrams_sent == sender.stats["segments_sent"] >= 500
    assert (found.retransmit_requests, found.slept_s) == (0, 0.0)


def test_an_epoch_takes_the_round_trip_of_its_request() -> None:
    found, _, _ = run()
    assert found.epochs_acknowledged > 0
    assert found.epoch_ack_s == pytest.approx(2 * DELAY_S, rel=0.05)


@pytest.mark.parametrize("delay_s", [0.000_05, 0.000_13, 0.001, 0.01])
def test_the_mean_gap_is_the_send_delay(delay_s: float) -> None:
    # A window that never closes, so that nothing else delays.
    found, _, _ = run(send_delay_s=delay_s, window_bytes=None)
    assert found.gap_s == pytest.approx(delay_s, rel=0.01)
    assert found.slept_s == pytest.approx(found.gap_total_s, rel=0.01)


def test_a_rate_delays_as_well_and_the_slower_of_both_counts() -> None:
    found, _, _ = run(rate_bytes_per_s=1e6, send_delay_s=0.000_1, window_bytes=None)
    assert found.gap_s == pytest.approx(1_428 / 1e6, rel=0.05)


def test_requests_are_what_receivers_found_missing() -> None:
    # One receiver, so that none is asked for by two; a little loss, so that hardly a repair is lost.
    found, _, simulation = run(seed=3, link=Link(delay_s=DELAY_S, loss=0.02), receivers=1)
    receiver = simulation.nodes[2]
    assert found.retransmit_requests > 0
    asked = receiver.stats["losses_detected"]
    # What is lost again is asked for again.
    assert asked <= found.retransmit_requests <= asked * 1.2
    assert found.retransmit_share == found.retransmit_requests / found.datagrams_sent


@pytest.mark.parametrize("epoch", [5, 50])
def test_an_epoch_of_messages_asks_for_acknowledgement_that_often(epoch: int) -> None:
    # Slowly enough that an answer comes before the next epoch ends.
    found, _, _ = run(epoch_messages=epoch, send_delay_s=0.002, count=2000)
    # A window that is nearly full asks as well, until it has opened.
    assert 2000 / epoch - 1 <= found.epochs_acknowledged <= 2000 / epoch + 5


def test_epochs_that_end_in_one_segment_ask_once() -> None:
    simulation = Simulation(seed=1, link=LAN)
    sender = simulation.add_node(epoch_messages=1)
    other = simulation.add_node(sync="start")
    sender.set_ackers([other])
    sender.publish(sender.open_stream(window_bytes=1 << 20), *numbered(40, size=10))
    assert simulation.run_until_delivered({other: 40}, within_s=60)
    simulation.run_for(1)
    assert sender.stats["epochs_acknowledged"] == 1
