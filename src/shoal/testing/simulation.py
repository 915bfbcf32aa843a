"""N nodes, one virtual clock, one seed: the same seed and the same calls give the same run, byte for byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Unpack

from shoal import _core
from shoal.config.norm import EngineOptions
from shoal.testing.checkers import Checker, CheckError
from shoal.testing.faults import Clock, Link, Port
from shoal.testing.history import (
    Datagram,
    Delivery,
    Event,
    History,
    NodeRecord,
    ObjectKey,
    SentObject,
    StreamKey,
)


class NodeOptions(EngineOptions, total=False):
    """Options of a node; defaults are those of a LAN."""

    instance: int
    seed: int
    segment_bytes: int
    send_streams_max: int


class Simulation:
    """A simulated network. Nothing happens except inside its `run_*` methods and the calls on its nodes."""

    def __init__(
        self, *, seed: int, link: Link | None = None, trace: bool = False, repeat: str | None = None
    ) -> None:
        """Make an empty network.

        `repeat` is the command that does this run again; failed checks quote it.
        """
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {seed}")
        self.seed = seed
        self.repeat = repeat or f"Simulation(seed={seed})"
        self.nodes: dict[int, Node] = {}
        self._core = _core.Simulation(seed)
        self._link = Link()
        self._trace: list[Datagram] = []
        if trace:
            self._core.record_trace()
        if link is not None:
            self.set_link(link)

    # --- the network ---

    @property
    def now_s(self) -> float:
        """The virtual time."""
        return self._core.now_s

    @property
    def digest(self) -> int:
        """A number that differs as soon as one datagram arrived differently."""
        return self._core.digest

    @property
    def traffic(self) -> tuple[int, int]:
        """Datagrams sent, and how many of their copies on the way to each receiver were lost."""
        return self._core.traffic

    @property
    def trace(self) -> Sequence[Datagram]:
        """Every datagram that arrived, if `trace` was asked for."""
        self._trace.extend(Datagram(*entry) for entry in self._core.take_trace())
        return self._trace

    def set_link(self, link: Link, *, source: Node | None = None, target: Node | None = None) -> None:
        """Set what happens to datagrams, everywhere or from `source` to `target` only."""
        if source is None and target is None:
            self._link = link
        source_id = None if source is None else source.id
        target_id = None if target is None else target.id
        self._core.set_link(source_id, target_id, **asdict(link))

    def cut(self, sources: Iterable[Node], targets: Iterable[Node], *, both_ways: bool = False) -> None:
        """Let nothing from `sources` reach `targets`; with `both_ways` neither the other way round."""
        ones, others = list(sources), list(targets)
        for source in ones:
            for target in others:
                if source is not target:
                    self.set_link(replace(self._link, cut=True), source=source, target=target)
        if both_ways:
            self.cut(others, ones)

    def heal(self) -> None:
        """End every partition and every link of its own: all have the common link again."""
        for source in self.nodes:
            for target in self.nodes:
                self._core.reset_link(source, target)

    def end_loss(self) -> None:
        """End every partition and every loss, and keep delays as they are."""
        self.heal()
        self.set_link(self._link.without_loss())

    def add_node(
        self, *, clock: Clock | None = None, port: Port | None = None, **options: Unpack[NodeOptions]
    ) -> Node:
        """Add a node, which is up at once; while the simulation runs this is a late joiner."""
        node = Node(self, len(self.nodes) + 1)
        clock = clock or Clock()
        self._core.add_node(node.id, dict(options), (clock.offset_s, clock.skew), _port(port or Port()))
        self.nodes[node.id] = node
        return node

    def add_nodes(self, count: int, **options: Unpack[NodeOptions]) -> list[Node]:
        """Add several nodes that are alike."""
        return [self.add_node(**options) for _ in range(count)]

    # --- running ---

    def run_until(self, at_s: float) -> None:
        """Let time pass until `at_s`."""
        self._core.run_until(at_s)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self._core.run_until(self.now_s + seconds)

    def run_until_delivered(self, wanted: Mapping[Node, int], *, within_s: float) -> bool:
        """Let time pass until each node has received its messages; false if that takes too long."""
        counts = [(node.id, count) for node, count in wanted.items()]
        return self._core.run_until_delivered(counts, self.now_s + within_s)

    def run_until_holds(self, checker: Checker, *, within_s: float, step_s: float = 1.0) -> bool:
        """Let time pass in steps until a checker finds nothing wrong; false if that takes too long."""
        deadline_s = self.now_s + within_s
        while True:
            try:
                checker(self.history())
            except CheckError:
                if self.now_s >= deadline_s:
                    return False
                self.run_for(step_s)
            else:
                return True

    # --- what happened ---

    def history(self) -> History:
        """Everything that happened so far, for the checkers."""
        published = {key: bodies for node in self.nodes.values() for key, bodies in node.published.items()}
        objects = {key: sent for node in self.nodes.values() for key, sent in node.objects.items()}
        released = {key: at_s for node in self.nodes.values() for key, at_s in node.released.items()}
        return History(
            seed=self.seed,
            repeat=self.repeat,
            published=published,
            objects=objects,
            released=released,
            commands={node.id: tuple(node.commands) for node in self.nodes.values()},
            nodes={node.id: node.record() for node in self.nodes.values()},
        )


class Node:
    """A member of the simulated group: it may send, and it receives from every other node."""

    def __init__(self, simulation: Simulation, node: int) -> None:
        self.id = node
        self.published: dict[StreamKey, list[bytes]] = defaultdict(list)
        self.objects: dict[ObjectKey, SentObject] = {}
        self.commands: list[bytes] = []
        self._simulation = simulation
        self._core = simulation._core
        self._deliveries: list[Delivery] = []
        self._events: list[Event] = []
        self._life_begins = (0, 0)
        self._released_before: dict[ObjectKey, float] = {}
        self._started_at_s = simulation.now_s

    def __repr__(self) -> str:
        return f"<Node {self.id}>"

    # --- sending ---

    @property
    def instance(self) -> int:
        """Which run of this node it is; a restart counts it up."""
        return self._core.state(self.id)["instance"]

    def open_stream(
        self,
        *,
        cache_bytes: int = 16 << 20,
        precedence: int = 0,
        info: bytes = b"",
        window_bytes: int | None = None,
    ) -> int:
        """Open a stream to send on, and return its number."""
        return self._core.open_stream(
            self.id, cache_bytes=cache_bytes, precedence=precedence, info=info, window_bytes=window_bytes
        )

    def publish(self, stream: int, *bodies: bytes, flush: bool = True) -> None:
        """Queue messages; with `flush` the last does not wait for its segment to fill."""
        self._core.publish(self.id, stream, list(bodies), flush)
        self.published[StreamKey(self.id, self.instance, stream)].extend(bodies)

    def flush(self, stream: int) -> None:
        """Send what was published without waiting for the segment to fill."""
        self._core.flush(self.id, stream)

    def close_stream(self, stream: int) -> None:
        """End a stream once its messages are written."""
        self._core.close_stream(self.id, stream)

    def drop_stream(self, stream: int) -> None:
        """Forget a stream at once; repair requests for it are refused."""
        self._core.drop_stream(self.id, stream)

    def send_data(self, content: bytes, *, info: bytes = b"") -> int | None:
        """Send bytes as a NORM_OBJECT_DATA and return its number, or None if there is no room for it now."""
        number = self._core.send_data(self.id, content, info)
        if number is not None:
            self.objects[ObjectKey(self.id, self.instance, number)] = SentObject(
                self._simulation.now_s, content, info
            )
        return number

    def cancel_object(self, number: int) -> bool:
        """Forget an object at once; repair requests for it are refused. False if it is not kept."""
        return self._core.cancel_object(self.id, number)

    def send_command(self, content: bytes, *, times: int = 1) -> bool:
        """Say something with NORM_CMD(APPLICATION), unrepaired. False if the last one is still repeated."""
        taken = self._core.send_command(self.id, content, times)
        if taken:
            self.commands.append(content)
        return taken

    def set_ackers(self, ackers: Iterable[Node]) -> None:
        """Set whose acknowledgements windows and watermarks wait for."""
        self._core.set_ackers(self.id, [acker.id for acker in ackers])

    def request_watermark(self, number: int) -> None:
        """Ask the ackers to confirm an object, or all that is written of a stream.

        The event `watermark_done` tells the outcome.
        """
        self._core.request_watermark(self.id, number)

    def set_rate(self, rate_bytes_per_s: float | None) -> None:
        """Change the rate to send at; None is as fast as the port allows."""
        self._core.set_rate(self.id, rate_bytes_per_s)

    def leave(self) -> None:
        """Say goodbye to the group."""
        self._core.leave(self.id)

    @property
    def backlog(self) -> int:
        """Messages that wait because the engine takes no more."""
        return self._core.backlog(self.id)

    # --- faults ---

    def stop(self) -> None:
        """Freeze: nothing is sent, what arrives is lost."""
        self._core.stop(self.id)

    def resume(self) -> None:
        """Go on after `stop`, remembering everything."""
        self._core.resume(self.id)

    def restart(self) -> None:
        """Start over as a new instance that remembers nothing; its streams are open again, and empty."""
        self._released_before = self.released
        self._life_begins = (len(self.deliveries), len(self.events))
        self._started_at_s = self._simulation.now_s
        self._core.restart(self.id)

    def set_reading(self, reading: bool) -> None:
        """Stop or start reading what arrives, as a slow application would."""
        self._core.set_reading(self.id, reading)

    def set_port(self, port: Port) -> None:
        """Exchange its cable."""
        self._core.set_port(self.id, _port(port))

    # --- what happened ---

    @property
    def delivered(self) -> int:
        """How many messages its application received."""
        return self._core.state(self.id)["delivered"]

    @property
    def deliveries(self) -> Sequence[Delivery]:
        """The messages its application received."""
        for at_s, sender, instance, stream, body in self._core.take_deliveries(self.id):
            self._deliveries.append(Delivery(at_s, StreamKey(sender, instance, stream), body))
        return self._deliveries

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of what it received, in order."""
        return [delivery.body for delivery in self.deliveries]

    @property
    def events(self) -> Sequence[Event]:
        """What its engine told, except about reading and writing."""
        self._events.extend(Event(*event) for event in self._core.take_events(self.id))
        return self._events

    def events_of(self, kind: str) -> list[Event]:
        """Its events of one kind."""
        return [event for event in self.events if event.kind == kind]

    @property
    def released(self) -> dict[ObjectKey, float]:
        """When it let go of objects of its own, in all its lives."""
        present = self.events[self._life_begins[1] :]
        letting_go = [event for event in present if event.kind == "object_released"]
        keys = (ObjectKey(self.id, self.instance, int(str(event.fields["stream"]))) for event in letting_go)
        return self._released_before | dict(zip(keys, (event.at_s for event in letting_go), strict=True))

    @property
    def stats(self) -> Mapping[str, int]:
        """Counters of its present instance."""
        return self._core.stats(self.id)

    @property
    def grtt_s(self) -> float:
        """Its estimate of the group's greatest round-trip time."""
        return self._core.state(self.id)["grtt_s"]

    def record(self) -> NodeRecord:
        """Everything it did and saw since it last started: it may rightly receive again what it forgot."""
        deliveries_from, events_from = self._life_begins
        state = self._core.state(self.id)
        return NodeRecord(
            instance=state["instance"],
            started_at_s=self._started_at_s,
            deliveries=tuple(self.deliveries[deliveries_from:]),
            events=tuple(self.events[events_from:]),
            stats=self.stats,
            unreadable=state["unreadable"],
            receive_bytes_peak=state["receive_bytes_peak"],
            receive_bytes_max=state["receive_bytes_max"],
            rate_bytes_per_s=state["rate_bytes_per_s"],
            busy_s=state["busy_s"],
            busy_bytes=state["busy_bytes"],
        )


def _port(port: Port) -> tuple[float | None, float | None, int]:
    return (port.egress_bytes_per_s, port.ingress_bytes_per_s, port.ingress_queue_bytes)
