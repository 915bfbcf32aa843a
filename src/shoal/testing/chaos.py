"""A situation by chance: weather, nodes and mishaps all follow from the seed."""

from __future__ import annotations

import random
from typing import Literal

from shoal.testing.checkers import check_all, complete, numbered, objects_complete
from shoal.testing.faults import Clock, Link
from shoal.testing.history import History, ObjectKey, StreamKey
from shoal.testing.scenarios import scenario
from shoal.testing.simulation import Node, NodeOptions, Simulation

STEPS = 8
# Rate control that begins slowly may take minutes for what was published by then.
SETTLE_S = 900.0


@scenario
def chaos(simulation: Simulation) -> None:
    """Send through random faults, end them, and check that every node that stayed has everything."""
    _Chaos(simulation, random.Random(simulation.seed)).run()


class _Chaos:
    """The run: who is there, who stands still, and what was published."""

    def __init__(self, simulation: Simulation, draw: random.Random) -> None:
        self.simulation = simulation
        self.draw = draw
        self.published = 0
        self.streams: dict[Node, list[int]] = {}
        self.steady: list[Node] = []
        self.frozen: list[Node] = []

    def run(self) -> None:
        self.simulation.set_link(self.weather())
        options = self.common_options()
        for _ in range(self.draw.randint(1, 3)):
            sender = self.add(options)
            self.streams[sender] = [sender.open_stream() for _ in range(self.draw.randint(1, 2))]
        self.steady = [*self.streams, *(self.add(options) for _ in range(self.draw.randint(1, 6)))]
        mishaps = [self.publish, self.publish, self.partition, self.heal, self.freeze, self.thaw, self.turn]
        mishaps += [self.join_late, self.restart_sender]
        mishaps += [self.send_objects, self.send_objects, self.cancel_object]
        mishaps += [self.send_command, self.change_ackers]
        if self.draw.random() < 0.5:
            for sender in self.streams:
                self.list_ackers(sender)
        for _ in range(STEPS):
            self.draw.choice((self.publish, self.publish, self.send_objects))()
            self.draw.choice(mishaps)()
            self.simulation.run_for(self.draw.uniform(0.01, 0.5))
        self.settle()
        self.check()

    def weather(self) -> Link:
        draw = self.draw
        bursts = draw.random() < 0.3
        return Link(
            loss=draw.choice((0.0, draw.uniform(0.0, 0.3))),
            burst_begins=0.01 if bursts else 0.0,
            burst_ends=draw.uniform(0.05, 0.5) if bursts else 0.0,
            run_loss=draw.choice((0.0, 0.0, draw.uniform(0.0, 0.1))),
            duplication=draw.choice((0.0, draw.uniform(0.0, 0.2))),
            reordering=draw.choice((0.0, draw.uniform(0.0, 0.2))),
            delay_s=draw.choice((0.0, 0.0005, 0.005, 0.03)),
            jitter_s=draw.choice((0.0, 0.001, 0.02)),
        )

    def common_options(self) -> NodeOptions:
        draw = self.draw
        fec: Literal["no_code", "reed_solomon_8", "small_block"]
        fec = draw.choice(("no_code", "reed_solomon_8", "small_block"))
        block_symbols = draw.choice((1, 7, 64, 200))
        parity = 0 if fec == "no_code" or block_symbols == 1 else draw.choice((0, 0, 2, 20))
        return NodeOptions(
            # A node that joins at the start of a stream joins at the first object it hears of.
            sync="all",
            rate_bytes_per_s=draw.choice((1e5, 1e6, 1e7)),
            congestion=draw.choice(("fixed", "fixed", "nack_driven", "norm_cc")),
            segment_bytes=draw.choice((200, 600, 1400)),
            block_symbols=block_symbols,
            fec=fec,
            parity_symbols=parity,
            auto_parity=draw.choice((0, parity // 2, parity)),
            interleave_blocks=draw.choice((1, 1, 4)) if parity else 1,
            repair=draw.choice(("at_once", "aggregated")),
            feedback=draw.choice(("multicast", "unicast")),
            backoff_factor=draw.choice((0, 1, 4, 6)),
            group_size=draw.choice((1, 10, 1000)),
            send_objects_max=draw.choice((256, 256, 4)),
            object_window_bytes=draw.choice((4 << 20, 10_000)),
            grtt_initial_s=draw.choice((0.001, 0.01, 0.1)),
        )

    def add(self, options: NodeOptions) -> Node:
        clock = Clock(offset_s=self.draw.uniform(0, 1e6), skew=self.draw.uniform(-0.01, 0.01))
        return self.simulation.add_node(clock=clock, **options)

    # --- mishaps ---

    def publish(self) -> None:
        sender = self.draw.choice(list(self.streams))
        count = self.draw.randint(1, 60)
        size = self.draw.choice((10, 100, 1_000, 5_000))
        bodies = numbered(count, size=size, first=self.published)
        self.published += count
        sender.publish(self.draw.choice(self.streams[sender]), *bodies, flush=self.draw.random() < 0.7)

    def send_objects(self) -> None:
        sender = self.draw.choice(list(self.streams))
        for _ in range(self.draw.randint(1, 6)):
            size = self.draw.choice((1, 199, 200, 1_400, 5_000, 30_000))
            info = self.draw.choice((b"", b"small", self.draw.randbytes(200)))
            number = sender.send_data(self.draw.randbytes(size), info=info)
            if number is not None and self.draw.random() < 0.5:
                sender.request_watermark(number)

    def cancel_object(self) -> None:
        sender = self.draw.choice(list(self.streams))
        kept = [key.object for key in self.live_objects() if key.sender == sender.id]
        if kept:
            sender.cancel_object(self.draw.choice(kept))

    def send_command(self) -> None:
        sender = self.draw.choice(list(self.streams))
        sender.send_command(self.draw.randbytes(20), times=self.draw.choice((1, 3)))

    def change_ackers(self) -> None:
        sender = self.draw.choice(list(self.streams))
        if self.draw.random() < 0.3:
            sender.set_ackers([])
        else:
            self.list_ackers(sender)

    def list_ackers(self, sender: Node) -> None:
        # Announcing ends as soon as the ackers have everything, so no other node is sure of the end.
        sender.set_ackers(node for node in self.steady if node is not sender)

    def partition(self) -> None:
        away = self.draw.sample(self.steady, self.draw.randint(1, len(self.steady)))
        rest = [node for node in self.simulation.nodes.values() if node not in away]
        ones, others = (away, rest) if self.draw.random() < 0.5 else (rest, away)
        self.simulation.cut(ones, others, both_ways=self.draw.random() < 0.5)

    def heal(self) -> None:
        self.simulation.heal()

    def turn(self) -> None:
        self.simulation.set_link(self.weather())

    def freeze(self) -> None:
        node = self.draw.choice(self.steady)
        if node not in self.frozen:
            node.stop()
            self.frozen.append(node)

    def thaw(self) -> None:
        for node in self.frozen:
            node.resume()
        self.frozen.clear()

    def join_late(self) -> None:
        self.add(NodeOptions(sync=self.draw.choice(("current", "start", "all"))))

    def restart_sender(self) -> None:
        sender = self.draw.choice(list(self.streams))
        sender.restart()
        # What it acknowledged it has forgotten; a node that is believed to have everything gets no report.
        for other in self.streams:
            other.set_ackers([])
        self.frozen = [node for node in self.frozen if node is not sender]

    # --- the end ---

    def settle(self) -> None:
        """End all faults; what was published by then must arrive, though nothing follows it."""
        self.thaw()
        self.simulation.end_loss()
        for sender, streams in self.streams.items():
            for stream in streams:
                sender.flush(stream)
        self.send_last_objects()
        self.simulation.run_for(1.0)
        self.simulation.run_until_holds(self.check_complete, within_s=SETTLE_S)

    def send_last_objects(self) -> None:
        """Send one more object after others, from which nodes that were away learn that there were any."""
        deadline_s = self.simulation.now_s + SETTLE_S
        waiting = [node for node in self.streams if any(key.sender == node.id for key in self.live_objects())]
        while waiting := [sender for sender in waiting if sender.send_data(b"the last one") is None]:
            assert self.simulation.now_s < deadline_s, f"seed {self.simulation.seed}: {waiting} have no room"
            self.simulation.run_for(1.0)

    def live_streams(self) -> list[StreamKey]:
        """Streams of senders as they are now, that carried something."""
        return [
            key
            for sender, streams in self.streams.items()
            for key in (StreamKey(sender.id, sender.instance, stream) for stream in streams)
            if key in sender.published
        ]

    def live_objects(self) -> list[ObjectKey]:
        """Objects of senders as they are now."""
        return [key for sender in self.streams for key in sender.objects if key.instance == sender.instance]

    def check_complete(self, history: History) -> None:
        steady = [node.id for node in self.steady]
        complete(*steady, streams=self.live_streams())(history)
        objects_complete(*steady, objects=self.live_objects())(history)

    def check(self) -> None:
        check_all(self.simulation.history(), self.check_complete)
