"""Named situations, each a function of a seed that runs one and checks it.

A scenario returns its finished simulation, so that a test can look further. `SCENARIOS` has them by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Unpack

from shoal.testing.checkers import (
    check_all,
    complete,
    converges,
    nacks_bounded,
    never_idle,
    numbered,
)
from shoal.testing.faults import Clock, Link, Port
from shoal.testing.history import Datagram
from shoal.testing.simulation import Node, NodeOptions, Simulation

LAN = Link(delay_s=0.0005)
RATE = 1e6


@dataclass(frozen=True)
class Scenario:
    """A situation with a name: called with a seed, it runs and checks itself."""

    name: str
    play: Callable[[Simulation], None]

    def __call__(self, seed: int) -> Simulation:
        """Run with a seed, and return the finished simulation."""
        simulation = self.prepare(seed)
        self.play(simulation)
        return simulation

    def prepare(self, seed: int, *, trace: bool = False) -> Simulation:
        """Make the empty simulation that `play` wants; its failures say how to repeat the run."""
        return Simulation(seed=seed, link=LAN, trace=trace, repeat=self.repeat_command(seed))

    def repeat_command(self, seed: int) -> str:
        """The command that runs this scenario again with a seed."""
        return f"python -m shoal.testing.search --scenario {self.name} --seed {seed}"

    @property
    def summary(self) -> str:
        """What it is about, in a sentence."""
        return (self.play.__doc__ or "").partition("\n")[0]


class Run(Protocol):
    """A simulation, of whatever."""

    @property
    def now_s(self) -> float:
        """The virtual time."""
        ...

    @property
    def digest(self) -> int:
        """A number that differs as soon as one datagram arrived differently."""
        ...

    @property
    def trace(self) -> Sequence[Datagram]:
        """Every datagram that arrived, if that was asked for."""
        ...


class AnyScenario(Protocol):
    """A situation with a name, of sessions or of whole nodes."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def summary(self) -> str:
        """What it is about, in a sentence."""
        ...

    @property
    def play(self) -> Callable[[Any], None]:
        """Runs it in a simulation that `prepare` made."""
        ...

    def __call__(self, seed: int) -> Run:
        """Run with a seed, and return the finished simulation."""
        ...

    def prepare(self, seed: int, *, trace: bool = False) -> Run:
        """Make the empty simulation that `play` wants."""
        ...

    def repeat_command(self, seed: int) -> str:
        """The command that runs it again with a seed."""
        ...


SCENARIOS: dict[str, AnyScenario] = {}


def scenario(play: Callable[[Simulation], None]) -> Scenario:
    """Make a scenario of a function, and register it under the function's name."""
    made = Scenario(play.__name__, play)
    SCENARIOS[made.name] = made
    return made


def transfer(
    simulation: Simulation,
    *,
    receivers: int = 3,
    messages: int = 1_000,
    size: int = 300,
    within_s: float = 120.0,
    **options: Unpack[NodeOptions],
) -> tuple[Node, list[Node]]:
    """Send numbered messages from one node to others until they have them; return sender and receivers."""
    options = {"rate_bytes_per_s": RATE, "sync": "start", **options}
    sender = simulation.add_node(**options)
    others = simulation.add_nodes(receivers, **options)
    sender.publish(sender.open_stream(), *numbered(messages, size=size))
    simulation.run_until_delivered(dict.fromkeys(others, messages), within_s=within_s)
    return sender, others


def ids(nodes: list[Node]) -> list[int]:
    """Their ids, as checkers want them."""
    return [node.id for node in nodes]


def _check_complete(simulation: Simulation, receivers: list[Node]) -> None:
    check_all(
        simulation.history(), complete(*ids(receivers)), never_idle(share=0.9), nacks_bounded(per_repair=2.0)
    )


# --- loss ---


@scenario
def lossless(simulation: Simulation) -> None:
    """Nothing is lost, and no node asks for anything."""
    sender, receivers = transfer(simulation)
    _check_complete(simulation, receivers)
    assert sender.stats["repairs_sent"] == 0


@scenario
def loss_5(simulation: Simulation) -> None:
    """One datagram in twenty is lost."""
    simulation.set_link(Link(loss=0.05, delay_s=0.0005))
    _check_complete(simulation, transfer(simulation)[1])


@scenario
def loss_20(simulation: Simulation) -> None:
    """One datagram in five is lost."""
    simulation.set_link(Link(loss=0.2, delay_s=0.0005))
    _check_complete(simulation, transfer(simulation)[1])


@scenario
def loss_30(simulation: Simulation) -> None:
    """Nearly one datagram in three is lost."""
    simulation.set_link(Link(loss=0.3, delay_s=0.0005))
    _check_complete(simulation, transfer(simulation)[1])


@scenario
def burst_loss(simulation: Simulation) -> None:
    """Twenty datagrams in a row are lost, now and then."""
    simulation.set_link(Link(burst_begins=0.01, burst_ends=0.05, delay_s=0.0005))
    # A burst ends after a number of datagrams, and in the end there are only two in half a minute.
    _check_complete(simulation, transfer(simulation, within_s=3_600.0)[1])


@scenario
def lost_runs(simulation: Simulation) -> None:
    """Everything a sender hands over at once is lost at once, now and then; parity brings it back unasked."""
    simulation.set_link(Link(run_loss=0.01, delay_s=0.0005))
    options: NodeOptions = {"parity_symbols": 16, "auto_parity": 10, "interleave_blocks": 16}
    options["rate_bytes_per_s"] = 1e8
    sender, receivers = transfer(simulation, receivers=2, messages=3_000, size=1_000, **options)
    check_all(simulation.history(), complete(*ids(receivers)), nacks_bounded(per_repair=2.0))
    recovered = sum(receiver.stats["segments_recovered"] for receiver in receivers)
    assert sender.stats["repairs_sent"] <= max(recovered, 60), f"seed {simulation.seed}: parity did not help"


@scenario
def loss_that_ends(simulation: Simulation) -> None:
    """After a second nothing is lost any more, and soon no node misses anything."""
    simulation.set_link(Link(loss=0.4, delay_s=0.0005))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    receivers = simulation.add_nodes(5, sync="start")
    sender.publish(sender.open_stream(), *numbered(800, size=500))
    simulation.run_until(1.0)
    simulation.end_loss()
    calm_at_s = simulation.now_s
    simulation.run_until_delivered(dict.fromkeys(receivers, 800), within_s=30.0)
    converged = converges(*ids(receivers), calm_at_s=calm_at_s, within_s=1.0)
    check_all(simulation.history(), converged)


# --- other weather ---


@scenario
def duplication_and_reordering(simulation: Simulation) -> None:
    """Datagrams come twice, late, and in another order."""
    simulation.set_link(Link(duplication=0.2, reordering=0.2, loss=0.02, delay_s=0.002, jitter_s=0.001))
    receivers = transfer(simulation)[1]
    check_all(simulation.history(), complete(*ids(receivers)))


@scenario
def jitter(simulation: Simulation) -> None:
    """Every datagram takes another time."""
    simulation.set_link(Link(delay_s=0.002, jitter_s=0.02, loss=0.02))
    _check_complete(simulation, transfer(simulation)[1])


@scenario
def narrow_receiver(simulation: Simulation) -> None:
    """One receiver's cable takes less than is sent for a while, and its queue overflows."""
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    slow = simulation.add_node(
        sync="start", port=Port(ingress_bytes_per_s=0.7 * RATE, ingress_queue_bytes=50_000)
    )
    quick = simulation.add_node(sync="start")
    sender.publish(sender.open_stream(), *numbered(1_000, size=500))
    simulation.run_until_delivered({slow: 1_000, quick: 1_000}, within_s=60.0)
    check_all(simulation.history(), complete(slow.id, quick.id))


@scenario
def narrow_sender(simulation: Simulation) -> None:
    """The sender's own cable is slower than its rate."""
    sender = simulation.add_node(rate_bytes_per_s=RATE, port=Port(egress_bytes_per_s=RATE / 2))
    receiver = simulation.add_node(sync="start")
    sender.publish(sender.open_stream(), *numbered(1_000))
    simulation.run_until_delivered({receiver: 1_000}, within_s=30.0)
    check_all(simulation.history(), complete(receiver.id))


@scenario
def clock_skew(simulation: Simulation) -> None:
    """Clocks show other times and run at other speeds, up to a fifth wrong."""
    simulation.set_link(Link(loss=0.1, delay_s=0.002))
    sender = simulation.add_node(rate_bytes_per_s=RATE, clock=Clock(offset_s=5e6, skew=0.2))
    receivers = [
        simulation.add_node(sync="start", clock=Clock(offset_s=offset_s, skew=skew))
        for offset_s, skew in ((0.0, -0.2), (3e7, 0.1), (17.0, -0.01))
    ]
    sender.publish(sender.open_stream(), *numbered(1_000))
    simulation.run_until_delivered(dict.fromkeys(receivers, 1_000), within_s=60.0)
    check_all(simulation.history(), complete(*ids(receivers)))


@scenario
def grtt_too_small(simulation: Simulation) -> None:
    """The sender starts with a hundredth of the true round-trip time, and learns."""
    simulation.set_link(Link(loss=0.05, delay_s=0.02))
    sender, receivers = transfer(simulation, grtt_initial_s=0.0004, messages=3_000)
    check_all(simulation.history(), complete(*ids(receivers)))
    assert sender.grtt_s > 0.02, f"it still believes in {sender.grtt_s} s"


@scenario
def grtt_too_large(simulation: Simulation) -> None:
    """The sender starts with a hundred times the true round-trip time, and learns."""
    simulation.set_link(Link(loss=0.05, delay_s=0.005))
    sender, receivers = transfer(simulation, grtt_initial_s=1.0, messages=3_000)
    for second in range(5):
        sender.publish(0, *numbered(1, first=3_000 + second))
        simulation.run_for(1.0)
    simulation.run_until_delivered(dict.fromkeys(receivers, 3_005), within_s=30.0)
    check_all(simulation.history(), complete(*ids(receivers)))
    assert sender.grtt_s < 0.05, f"it still believes in {sender.grtt_s} s"


# --- partitions, restarts, late joiners ---


@scenario
def one_way_partition(simulation: Simulation) -> None:
    """A receiver can hear but not be heard; once it is, it gets what it missed."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    mute, well = simulation.add_nodes(2, sync="start")
    simulation.cut([mute], [sender, well])
    sender.publish(sender.open_stream(), *numbered(2_000))
    simulation.run_until(2.0)
    assert mute.delivered < 2_000, "loss without repair"
    simulation.heal()
    simulation.run_until_delivered({mute: 2_000, well: 2_000}, within_s=60.0)
    check_all(simulation.history(), converges(mute.id, well.id, calm_at_s=2.0, within_s=10.0))


@scenario
def partition(simulation: Simulation) -> None:
    """A receiver is cut off both ways for a while, and then gets what it missed."""
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    away, well = simulation.add_nodes(2, sync="start")
    stream = sender.open_stream()
    sender.publish(stream, *numbered(500))
    simulation.run_until(0.02)
    simulation.cut([away], [sender, well], both_ways=True)
    simulation.run_until(0.5)
    sender.publish(stream, *numbered(100, first=500))
    simulation.run_until(1.0)
    simulation.heal()
    sender.publish(stream, *numbered(100, first=600))
    simulation.run_until_delivered({away: 700, well: 700}, within_s=60.0)
    check_all(simulation.history(), converges(away.id, well.id, calm_at_s=1.0, within_s=2.0))


@scenario
def sender_restart(simulation: Simulation) -> None:
    """A sender dies and comes back as another instance; receivers follow it."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    receivers = simulation.add_nodes(3, sync="start")
    stream = sender.open_stream()
    sender.publish(stream, *numbered(300))
    simulation.run_until_delivered(dict.fromkeys(receivers, 300), within_s=30.0)
    sender.stop()
    simulation.run_for(1.0)
    sender.restart()
    sender.publish(stream, *numbered(300, first=1_000))
    simulation.run_until_delivered(dict.fromkeys(receivers, 600), within_s=30.0)
    check_all(simulation.history(), complete(*ids(receivers)))
    for receiver in receivers:
        assert [event.fields["instance"] for event in receiver.events_of("sender_gone")] == [1]


@scenario
def receiver_restart(simulation: Simulation) -> None:
    """A receiver that starts over and asks for the start gets all that the sender still has."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    forgetful, well = simulation.add_nodes(2, sync="start")
    stream = sender.open_stream()
    sender.publish(stream, *numbered(300))
    simulation.run_until_delivered({forgetful: 300, well: 300}, within_s=30.0)
    forgetful.restart()
    sender.publish(stream, *numbered(100, first=300))
    simulation.run_until_delivered({forgetful: 700, well: 400}, within_s=30.0)
    check_all(simulation.history(), complete(forgetful.id, well.id))
    assert forgetful.bodies == numbered(300) + numbered(400)


@scenario
def frozen_receiver(simulation: Simulation) -> None:
    """A receiver stands still until everything was sent, remembers what it had, and catches up."""
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    frozen = simulation.add_node(sync="start")
    stream = sender.open_stream()
    sender.publish(stream, *numbered(3_000))
    simulation.run_until(0.2)
    frozen.stop()
    simulation.run_for(10.0)
    assert sender.backlog == 0, "the sender must be through"
    frozen.resume()
    simulation.run_until_delivered({frozen: 3_000}, within_s=40.0)
    check_all(simulation.history(), complete(frozen.id))


def _late_join(
    simulation: Simulation, sync: Literal["current", "start", "all"]
) -> tuple[Node, Node, list[int]]:
    """Two streams, of which the first is over when a node joins; sender, joiner, streams."""
    simulation.set_link(Link(loss=0.05, delay_s=0.001))
    schemes: list[Literal["no_code", "reed_solomon_8", "small_block"]]
    schemes = ["no_code", "reed_solomon_8", "small_block"]
    sender = simulation.add_node(rate_bytes_per_s=RATE, fec=schemes[simulation.seed % 3])
    witness = simulation.add_node(sync="start")
    old, new = sender.open_stream(), sender.open_stream()
    sender.publish(old, *numbered(100))
    simulation.run_until_delivered({witness: 100}, within_s=30.0)
    # Until then the old stream's last segment is announced, and a node that hears that counts as present.
    simulation.run_for(3.0)
    sender.publish(new, *numbered(500, size=500))
    simulation.run_until(simulation.now_s + 0.1)
    joiner = simulation.add_node(sync=sync)
    simulation.run_until_delivered({witness: 600}, within_s=30.0)
    simulation.run_for(3.0)
    check_all(simulation.history(), complete(witness.id))
    return sender, joiner, [old, new]


def _received(joiner: Node, stream: int) -> list[bytes]:
    return [delivery.body for delivery in joiner.deliveries if delivery.stream.stream == stream]


@scenario
def late_join_current(simulation: Simulation) -> None:
    """A late joiner that wants the present gets the rest of the stream, from a whole message on."""
    _, joiner, (old, new) = _late_join(simulation, "current")
    got = _received(joiner, new)
    assert not _received(joiner, old)
    assert 0 < len(got) < 500, f"seed {simulation.seed}: {len(got)} messages"
    assert got == numbered(500, size=500)[-len(got) :]


@scenario
def late_join_start(simulation: Simulation) -> None:
    """A late joiner that wants the start gets all of the stream it hears."""
    _, joiner, (_, new) = _late_join(simulation, "start")
    assert _received(joiner, new) == numbered(500, size=500), f"seed {simulation.seed}"


@scenario
def late_join_all(simulation: Simulation) -> None:
    """A late joiner that wants everything gets the stream that was over, too."""
    _, joiner, (old, new) = _late_join(simulation, "all")
    assert _received(joiner, new) == numbered(500, size=500), f"seed {simulation.seed}"
    assert _received(joiner, old) == numbered(100), f"seed {simulation.seed}"


# --- senders, streams, feedback ---


@scenario
def several_senders(simulation: Simulation) -> None:
    """Every node sends to all others at once."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    nodes = simulation.add_nodes(5, rate_bytes_per_s=RATE, sync="start")
    for node in nodes:
        node.publish(node.open_stream(), *numbered(300, first=1_000 * node.id))
    simulation.run_until_delivered(dict.fromkeys(nodes, 4 * 300), within_s=60.0)
    check_all(simulation.history(), complete(*ids(nodes)))


@scenario
def several_streams(simulation: Simulation) -> None:
    """Streams of one sender do not wait for each other, and each keeps its order."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    receivers = simulation.add_nodes(3, sync="all")
    for precedence in (2, 0, 1):
        stream = sender.open_stream(precedence=precedence, info=f"class {precedence}".encode())
        sender.publish(stream, *numbered(300, first=1_000 * precedence))
        sender.close_stream(stream)
    simulation.run_until_delivered(dict.fromkeys(receivers, 900), within_s=60.0)
    simulation.run_for(2.0)
    check_all(simulation.history(), complete(*ids(receivers)))
    for receiver in receivers:
        infos = {event.fields["content"] for event in receiver.events_of("info")}
        assert infos == {b"class 0", b"class 1", b"class 2"}, f"seed {simulation.seed}: {infos}"
        reasons = [event.fields["reason"] for event in receiver.events_of("stream_closed")]
        assert reasons == ["ended"] * 3, f"seed {simulation.seed}: {reasons}"


@scenario
def unicast_feedback(simulation: Simulation) -> None:
    """Receivers ask the sender alone."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    receivers = transfer(simulation, receivers=8, feedback="unicast")[1]
    check_all(simulation.history(), complete(*ids(receivers)), never_idle(share=0.9))


@scenario
def aggregated_repair(simulation: Simulation) -> None:
    """The sender collects requests before it repairs."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    _check_complete(simulation, transfer(simulation, receivers=8, repair="aggregated")[1])


@scenario
def every_fec_scheme(simulation: Simulation) -> None:
    """Positions have another form in each FEC scheme; nodes of all three share a group."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    senders = [
        simulation.add_node(rate_bytes_per_s=RATE, fec="no_code", sync="start"),
        simulation.add_node(rate_bytes_per_s=RATE, fec="reed_solomon_8", sync="start"),
        simulation.add_node(rate_bytes_per_s=RATE, fec="small_block", sync="start"),
    ]
    for sender in senders:
        sender.publish(sender.open_stream(), *numbered(300, first=1_000 * sender.id))
    simulation.run_until_delivered(dict.fromkeys(senders, 600), within_s=60.0)
    check_all(simulation.history(), complete(*ids(senders)))


# --- bounds ---


@scenario
def slow_reader(simulation: Simulation) -> None:
    """A reader that pauses holds the sender back by its window, and then gets everything."""
    window_bytes = 100_000
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    slow, quick = simulation.add_nodes(2, sync="start", receive_window_bytes=400_000)
    stream = sender.open_stream(window_bytes=window_bytes)
    sender.set_ackers([slow, quick])
    slow.set_reading(False)
    sender.publish(stream, *numbered(3_000, size=300))
    simulation.run_until(0.5)
    slow.set_reading(True)
    simulation.run_until_delivered({slow: 3_000, quick: 3_000}, within_s=60.0)
    check_all(simulation.history(), complete(slow.id, quick.id))
    assert not slow.events_of("gap")


@scenario
def squelch(simulation: Simulation) -> None:
    """A receiver was away for longer than the sender's cache reaches: it hears so, and goes on in order."""
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    away = simulation.add_node(sync="start")
    stream = sender.open_stream(cache_bytes=100_000)
    sender.publish(stream, *numbered(100, size=500))
    simulation.run_until_delivered({away: 100}, within_s=10.0)
    simulation.cut([sender], [away], both_ways=True)
    sender.publish(stream, *numbered(1_000, size=500, first=100))
    simulation.run_for(2.0)
    simulation.heal()
    sender.publish(stream, *numbered(200, size=500, first=1_100))
    simulation.run_for(5.0)
    check_all(simulation.history())
    [gap] = away.events_of("gap")
    assert int(str(gap.fields["segments"])) > 100, f"seed {simulation.seed}: {gap}"
    assert away.bodies[:100] == numbered(100, size=500)
    assert away.bodies[-200:] == numbered(200, size=500, first=1_100), f"seed {simulation.seed}"


@scenario
def watermark(simulation: Simulation) -> None:
    """A watermark names who has everything, and who does not answer."""
    simulation.set_link(Link(loss=0.1, delay_s=0.001))
    sender = simulation.add_node(rate_bytes_per_s=RATE)
    receivers = simulation.add_nodes(3, sync="start")
    dead = simulation.add_node(sync="start")
    dead.stop()
    sender.set_ackers([*receivers, dead])
    stream = sender.open_stream()
    sender.publish(stream, *numbered(300))
    sender.request_watermark(stream)
    simulation.run_until(2.0)
    check_all(simulation.history(), complete(*ids(receivers)))
    [done] = sender.events_of("watermark_done")
    assert done.fields["acked"] == ids(receivers), f"seed {simulation.seed}: {done}"
    assert done.fields["silent"] == [dead.id], f"seed {simulation.seed}: {done}"
