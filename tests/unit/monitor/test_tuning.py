"""iBus's tuning procedure, over measurements that a test makes up, and over a simulated network."""

from collections.abc import Callable

from shoal.bus.statistics import Statistics, statistics_of
from shoal.monitor.tuning import Setting, Step, delays, plan, walk
from shoal.testing import Link, Port, Simulation, numbered


def shares(*found: float) -> Callable[[Setting], Statistics]:
    """Measures these shares, one after the other."""
    left = iter(found)
    return lambda _: Statistics(datagrams_sent=1000, retransmit_requests=round(1000 * next(left)))


def transcript(steps: list[Step]) -> list[str]:
    return [str(step) for step in steps]


def test_a_fifth_is_borne_as_long_as_nothing_was_changed() -> None:
    (step,) = walk(shares(0.20))
    assert (step.good, step.ends, step.setting.options) == (True, True, {})
    assert str(step) == "SD 0 ms: 200 of 1000 datagrams asked for again (20.0%): good"


def test_ibus_s_steps_are_those_of_its_guide() -> None:
    steps = list(walk(shares(0.25, 0.22, 0.15, 0.11, 0.10), ibus=True))
    assert transcript(steps) == [
        "SD 0 ms: 250 of 1000 datagrams asked for again (25.0%): more than 20%, send more slowly",
        "SD 1 ms: 220 of 1000 datagrams asked for again (22.0%): more than 10%, send more slowly",
        "SD 2 ms: 150 of 1000 datagrams asked for again (15.0%): more than 10%, send more slowly",
        "SD 3 ms: 110 of 1000 datagrams asked for again (11.0%): more than 10%, send more slowly",
        "SD 4 ms: 100 of 1000 datagrams asked for again (10.0%): good",
    ]
    assert steps[-1].setting.options == {"send_delay_s": 0.004}


def test_at_ten_milliseconds_epochs_become_shorter_and_then_the_hardware_is_at_fault() -> None:
    steps = list(walk(shares(*[0.5] * 12), ibus=True))
    assert [step.setting.send_delay_s for step in steps][-3:] == [0.009, 0.010, 0.005]
    assert steps[-2].then == "too much at the longest delay, try shorter epochs"
    last = steps[-1]
    assert last.setting == Setting(0.005, 50)
    assert (last.good, last.ends) == (False, True)
    assert last.then == "the network card, a switch or a router is at fault"
    good = list(walk(shares(*[0.5] * 11, 0.05), ibus=True))[-1]
    assert good.good
    assert good.setting.options == {"send_delay_s": 0.005, "epoch_messages": 50}


def test_our_own_steps_begin_at_ten_microseconds_and_double() -> None:
    found = list(delays(ibus=False))
    assert found[:3] == [0.000_01, 0.000_02, 0.000_04]
    assert found[-2:] == [0.005_12, 0.010]
    assert len(plan(ibus=False)) == len(found) + 2


def simulated(setting: Setting) -> Statistics:
    """A receiver that takes a megabyte a second and queues 30 kB, and a sender without a window."""
    simulation = Simulation(seed=5, link=Link(delay_s=0.0005))
    sender = simulation.add_node(**setting.options)
    receiver = simulation.add_node(
        sync="start", port=Port(ingress_bytes_per_s=1e6, ingress_queue_bytes=30_000)
    )
    sender.set_ackers([receiver])
    sender.publish(sender.open_stream(), *numbered(600, size=1_390))
    simulation.run_until_delivered({receiver: 600}, within_s=120)
    return statistics_of(sender.stats, 600, 0.0)


def test_a_slow_receiver_of_a_simulated_network_is_found_and_suited() -> None:
    steps = list(walk(simulated))
    assert steps[0].statistics.retransmit_share > 0.2, transcript(steps)
    assert steps[-1].good, transcript(steps)
    # A datagram takes it 1.4 ms: half of that is too fast.
    assert 0.000_7 < steps[-1].setting.send_delay_s <= 0.002_56
    # The same seed gives the same transcript.
    assert transcript(list(walk(simulated))) == transcript(steps)
