"""The simulation's own promises: the same seed gives the same run, and wrong options are named."""

import gc
import sys
import threading

import pytest

from shoal.testing import Link, Simulation, numbered
from shoal.testing.scenarios import SCENARIOS


def lossy_run(seed: int) -> Simulation:
    simulation = Simulation(seed=seed, link=Link(loss=0.2, delay_s=0.001, jitter_s=0.002), trace=True)
    sender = simulation.add_node(rate_bytes_per_s=1e6)
    receivers = simulation.add_nodes(3, sync="start")
    sender.publish(sender.open_stream(), *numbered(200))
    assert simulation.run_until_delivered(dict.fromkeys(receivers, 200), within_s=30.0)
    return simulation


def test_the_same_seed_gives_the_same_trace_and_another_seed_another():
    first, again, other = lossy_run(7), lossy_run(7), lossy_run(8)
    assert first.trace == again.trace
    assert first.digest == again.digest
    assert first.digest != other.digest


@pytest.mark.parametrize("name", ["chaos", "several_senders", "sender_restart"])
def test_a_scenario_repeats_itself(name):
    import shoal.testing.chaos  # noqa: F401

    assert SCENARIOS[name](5).digest == SCENARIOS[name](5).digest


def test_a_simulation_may_end_on_another_thread(monkeypatch):
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    lossy_run(7)
    # Its nodes refer to it, so it ends where garbage is collected next.
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join(10)
    assert complaints == []


def test_running_in_pieces_is_running_at_once():
    def run(*stops: float) -> int:
        simulation = Simulation(seed=3, link=Link(loss=0.1, delay_s=0.001))
        sender, _ = simulation.add_nodes(2, rate_bytes_per_s=1e5)
        sender.publish(sender.open_stream(), *numbered(100))
        for stop in stops:
            simulation.run_until(stop)
        return simulation.digest

    assert run(2.0) == run(0.1, 0.15, 0.7, 2.0)


def test_time_passes_though_nothing_happens():
    simulation = Simulation(seed=1)
    simulation.run_until(5.0)
    simulation.run_for(1.5)
    assert simulation.now_s == 6.5


def test_waiting_for_messages_that_never_come_ends():
    simulation = Simulation(seed=1)
    node = simulation.add_node()
    assert not simulation.run_until_delivered({node: 1}, within_s=2.0)
    assert simulation.now_s == 2.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"segment_bytes": 3}, "segment_bytes is 3, and must be from 16 to 65400"),
        ({"segment_bytes": "many"}, "segment_bytes is 'many', and must be a whole number"),
        ({"sync": "tomorrow"}, "sync is 'tomorrow', and must be one of current, start, all"),
        ({"grtt_min_s": -1.0}, "grtt_min_s is -1, and must be a number of seconds"),
        ({"colour": "red"}, "colour is no option of a NORM session"),
        ({"rate_bytes_per_s": 0.0}, "rate_bytes_per_s is 0.0, and must be at least 1"),
    ],
)
def test_a_wrong_option_is_named(options, says):
    with pytest.raises(ValueError, match=says):
        Simulation(seed=1).add_node(**options)


def test_a_wrong_seed_is_named():
    with pytest.raises(ValueError, match="seed must be"):
        Simulation(seed=-1)


def test_a_stream_that_is_not_open_cannot_be_published_on():
    node = Simulation(seed=1).add_node()
    with pytest.raises(ValueError, match="no such stream"):
        node.publish(9, b"hello")


def test_a_stopped_node_neither_hears_nor_speaks():
    simulation = Simulation(seed=1)
    sender, receiver = simulation.add_nodes(2, rate_bytes_per_s=1e6)
    stream = sender.open_stream()
    receiver.stop()
    sender.publish(stream, b"unheard")
    simulation.run_until(1.0)
    assert receiver.delivered == 0
    sender.stop()
    sent, _ = simulation.traffic
    simulation.run_until(100.0)
    assert simulation.traffic[0] == sent


def test_a_restarted_node_is_another_instance_and_remembers_nothing():
    simulation = Simulation(seed=1)
    node = simulation.add_node()
    stream = node.open_stream()
    node.publish(stream, b"before")
    simulation.run_until(1.0)
    node.restart()
    assert node.instance == 2
    assert node.stats["segments_sent"] == 0
    node.publish(stream, b"after")
    assert [key.instance for key in node.published] == [1, 2]
