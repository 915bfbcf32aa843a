"""A simulated domain: whole nodes, as `shoal.connect` makes them, with one clock and one seed.

What decides in a node — hub, membership, interest, NORM — is the engine that runs in a program. Only sockets,
threads and clocks are simulated. Two runs with one seed and the same calls do the same, byte for byte.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Literal, TypedDict, Unpack

from shoal import _core
from shoal.selector import Selector
from shoal.testing.domain_history import (
    DomainHistory,
    Flush,
    Happening,
    Life,
    MessageKey,
    Published,
    Reading,
    SubscriptionRecord,
)
from shoal.testing.domain_topology import Topology
from shoal.testing.faults import Clock, Link, Port
from shoal.testing.history import Datagram

#: What calendars show when a simulation starts, unless told otherwise: seconds since 1970.
EPOCH_S = 1_700_000_000.0


class BusOptions(TypedDict, total=False):
    """Options of a node; defaults are those of `shoal.connect`, but for shorter heartbeats."""

    heartbeat_s: float
    missed_heartbeats_max: int
    slow_after_s: float
    window_bytes: int
    cache_bytes: int
    lane_bytes_max: int
    message_bytes_max: int
    assembly_bytes_max: int
    rate_bytes_per_s: float | None
    segment_bytes: int
    backoff_factor: int
    grtt_initial_s: float
    receive_window_bytes: int
    receive_bytes_max: int
    senders_max: int
    sender_idle_after_s: float
    #: How long a session over TCP waits for another connection.
    resume_s: float
    #: Whether it passes on what it hears on one network to others.
    router: bool


DEFAULTS = BusOptions(
    heartbeat_s=0.5,
    missed_heartbeats_max=5,
    slow_after_s=0.5,
    window_bytes=256 << 10,
    cache_bytes=1 << 20,
    lane_bytes_max=256 << 10,
    message_bytes_max=1 << 20,
    assembly_bytes_max=4 << 20,
    backoff_factor=1,
    resume_s=5.0,
    router=False,
)


class Domain:
    """Simulated nodes. Nothing happens except inside its `run_*` methods and the calls on its nodes."""

    def __init__(
        self,
        *,
        seed: int,
        link: Link | None = None,
        trace: bool = False,
        repeat: str | None = None,
        strict: bool = False,
    ) -> None:
        """Make an empty domain.

        `repeat` is the command that does this run again; failed checks quote it. With `strict` its history
        asks the checkers of routers for more.
        """
        if not 0 <= seed < 1 << 64:
            raise ValueError(f"seed must be from 0 to 2**64 - 1, not {seed}")
        self.seed = seed
        self.repeat = repeat or f"Domain(seed={seed})"
        self.nodes: dict[int, Node] = {}
        #: Which nodes can reach each other.
        self.topology = Topology()
        self._strict = strict
        self._draw = random.Random(seed)
        self._core = _core.DomainSimulation(seed)
        self._link = Link()
        self._lossless = True
        self._trace: list[Datagram] = []
        if trace:
            self.record_trace()
        self.set_link(link or Link(delay_s=0.0005))

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

    def record_trace(self) -> None:
        """Keep every datagram that arrives from now on, for `trace`."""
        self._core.record_trace()

    def take_trace(self) -> list[Datagram]:
        """Every datagram that arrived since the last time."""
        taken, self._trace = [*self.trace], []
        return taken

    def inject(self, datagram: bytes, *, segment: int = 0) -> None:
        """Send a datagram to every node on a network, from no node."""
        self._core.inject(segment, datagram)

    def set_link(self, link: Link, *, source: Node | None = None, target: Node | None = None) -> None:
        """Set what happens to datagrams, everywhere or from `source` to `target` only."""
        if source is None and target is None:
            self._link = link
        self._lossless &= link.is_lossless
        source_name = None if source is None else source.name
        target_name = None if target is None else target.name
        self._core.set_link(source_name, target_name, **asdict(link))
        if source_name is not None and target_name is not None:
            self.topology.set_cut(source_name, target_name, link.cut)

    def cut(self, sources: Iterable[Node], targets: Iterable[Node], *, both_ways: bool = True) -> None:
        """Let nothing from `sources` reach `targets`; with `both_ways` neither the other way round."""
        ones, others = list(sources), list(targets)
        for source in ones:
            for target in others:
                if source is not target:
                    self.set_link(replace(self._link, cut=True), source=source, target=target)
        if both_ways:
            self.cut(others, ones, both_ways=False)

    def heal(self) -> None:
        """End every partition: all have the common link again."""
        self.topology.heal()
        for source in self.nodes:
            for target in self.nodes:
                self._core.reset_link(source, target)

    def end_faults(self) -> None:
        """End every partition, every loss and every pause."""
        self.heal()
        self.set_link(self._link.without_loss())
        for node in self.nodes.values():
            node.go_on()

    def add_node(
        self,
        *,
        node: int | None = None,
        domain: int = 7,
        segments: Sequence[int] = (0,),
        clock: Clock | None = None,
        port: Port | None = None,
        wall_s: float = EPOCH_S,
        **options: Unpack[BusOptions],
    ) -> Node:
        """Add a node, which is up at once, with a link to each of some networks.

        Its node id is drawn at random unless given; two nodes may be given the same one.
        """
        made = Node(self, len(self.nodes) + 1, BusOptions(**{**DEFAULTS, **options}))
        clock = clock or Clock()
        made.begin(
            node or self.draw_node_id(),
            lambda node_id: self._core.add_node(
                made.name,
                node_id,
                domain,
                list(segments),
                dict(made.options),
                (clock.offset_s, clock.skew),
                _port(port or Port()),
                wall_s,
            ),
        )
        self.nodes[made.name] = made
        router = bool(made.options.get("router"))
        self.topology.add(made.name, domain=domain, segments=segments, router=router)
        return made

    def add_nodes(self, count: int, **options: Unpack[BusOptions]) -> list[Node]:
        """Add several nodes that are alike."""
        return [self.add_node(**options) for _ in range(count)]

    def lay_cable(self, one: Node, two: Node) -> None:
        """Join two nodes by TCP: the first one connects, again and again."""
        self._core.lay_cable(one.name, two.name)
        self.topology.join(one.name, two.name)

    def draw_node_id(self) -> int:
        """A random node id that no node has."""
        taken = {id_ for node in self.nodes.values() for id_ in node.life.nodes}
        while (drawn := self._draw.randrange(1, 0xFFFF_FFFF)) in taken:
            pass
        return drawn

    # --- running ---

    def run_until(self, at_s: float) -> None:
        """Let time pass until `at_s`."""
        self.topology.note(self.now_s)
        self._core.run_until(at_s)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        self.run_until(self.now_s + seconds)

    def run_until_true(self, holds: Callable[[], bool], *, within_s: float, step_s: float = 0.25) -> bool:
        """Let time pass in steps until something holds; false if that takes too long."""
        deadline_s = self.now_s + within_s
        while not holds():
            if self.now_s >= deadline_s:
                return False
            self.run_for(step_s)
        return True

    def everybody_knows_everybody(self) -> bool:
        """Whether each running node has all others as members, and no others."""
        for node in self.nodes.values():
            node.collect()
        running = {node.life.node for node in self.nodes.values() if node.life.end == "running"}
        return all(
            set(node.members) == running - {node.life.node}
            for node in self.nodes.values()
            if node.life.end == "running"
        )

    # --- what happened ---

    def history(self) -> DomainHistory:
        """Everything that happened so far, for the checkers."""
        lives = [life for node in self.nodes.values() for life in node.lives()]
        return DomainHistory(
            seed=self.seed,
            repeat=self.repeat,
            lives=lives,
            lossless=self._lossless,
            topology=self.topology,
            strict=self._strict,
        )


class Subscription:
    """A subscription of a simulated node, which is read as messages come."""

    def __init__(self, node: Node, record: SubscriptionRecord) -> None:
        self.node = node
        self.record = record

    @property
    def bodies(self) -> list[bytes]:
        """What was read, in order."""
        self.node.collect()
        return [reading.body for reading in self.record.readings]

    @property
    def readings(self) -> Sequence[Reading]:
        """What was read, in order, and when."""
        self.node.collect()
        return self.record.readings

    def set_reading(self, reading: bool) -> None:
        """Stop or start reading, as a slow application would."""
        self.record.always_read &= reading
        self.node.core.set_reading(self.node.name, self.record.number, reading)

    def close(self) -> None:
        """Unsubscribe."""
        if self.record.ended_s is None and self.node.life.end == "running":
            self.node.core.unsubscribe(self.node.name, self.record.number)
            self.record.ended_s = self.node.domain.now_s


class Node:
    """A node of a simulated domain, and the program that uses it."""

    def __init__(self, domain: Domain, name: int, options: BusOptions) -> None:
        self.domain = domain
        self.name = name
        self.options = options
        self.core = domain._core
        self.life = Life(name=name, node=0, publisher=0, began_s=domain.now_s)
        self._past: list[Life] = []
        self._paused_at_s: float | None = None
        self._numbers = 0

    def __repr__(self) -> str:
        return f"<Node {self.name}>"

    # --- its life ---

    def begin(self, node: int, start: Callable[[int], int]) -> None:
        """Begin a life; `start` makes the node with an id and returns its publisher id."""
        publisher = start(node)
        router = bool(self.options.get("router"))
        self.life = Life(
            name=self.name, node=node, publisher=publisher, began_s=self.domain.now_s, router=router
        )
        self.domain.topology.set_up(self.name, True)

    def leave(self) -> None:
        """Say goodbye, whatever was not acknowledged yet."""
        self.collect()
        self.core.leave(self.name)
        self._end("left")

    def close(self, *, within_s: float = 30.0) -> bool:
        """Flush, then leave; false if some node lacked a message by then."""
        flushed = self.flush(within_s=within_s)
        self.leave()
        return flushed is not None and not flushed.silent and not flushed.losers

    def crash(self, *, hangs_up: bool = False) -> None:
        """Be gone without a word; with `hangs_up` its machine closes its connections, as when killed."""
        self.core.stop(self.name)
        if hangs_up:
            self.core.hang_up(self.name)
        # It had a last turn.
        self.collect()
        self._end("crashed")

    def restart(self, *, node: int | None = None) -> None:
        """Start over with nothing but its options, under a new node id unless one is given."""
        if self.life.end == "running":
            self.crash()
        self._past.append(self.life)
        self._paused_at_s = None
        self.begin(
            node or self.domain.draw_node_id(),
            lambda node_id: self.core.restart(self.name, node_id, dict(self.options)),
        )

    def _end(self, end: Literal["left", "crashed"]) -> None:
        self.life.end, self.life.ended_s = end, self.domain.now_s
        self.domain.topology.set_up(self.name, False)
        for record in self.life.subscriptions.values():
            if record.ended_s is None:
                record.ended_s = self.domain.now_s

    def pause(self, *, socket_bytes: int | None = None) -> None:
        """Stand still, as a stopped process does: its socket takes some bytes of what arrives, or none."""
        if self._paused_at_s is None and self.life.end == "running":
            self._paused_at_s = self.domain.now_s
            self.domain.topology.set_up(self.name, False)
            if socket_bytes is None:
                self.core.stop(self.name)
            else:
                self.core.freeze(self.name, socket_bytes)

    def go_on(self) -> None:
        """Go on after `pause`, remembering everything."""
        if self._paused_at_s is not None and self.life.end == "running":
            self.life.pauses.append((self._paused_at_s, self.domain.now_s))
            self.core.thaw(self.name)
            self.domain.topology.set_up(self.name, True)
        self._paused_at_s = None

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return self._paused_at_s is not None

    def jump(self, seconds: float) -> None:
        """Let its calendar jump, as when a person sets it; the clock that engines use does not."""
        self.core.jump(self.name, seconds)

    def set_port(self, port: Port) -> None:
        """Exchange its cable."""
        self.core.set_port(self.name, _port(port))

    def set_store(self, is_store: bool = True) -> None:
        """Be a store, for which publishers wait however slow it is; or be none any more."""
        self.core.set_store(self.name, is_store)

    # --- what a program does ---

    def publish(
        self,
        topic: str,
        *bodies: bytes,
        priority: int = 4,
        when_full: Literal["block", "drop", "error"] = "block",
    ) -> None:
        """Publish messages, each once those before it are published."""
        self.core.publish(self.name, topic, list(bodies), priority, when_full)

    def subscribe(
        self,
        pattern: str,
        *,
        selector: str | None = None,
        accepts: Callable[[Published], bool] | None = None,
        no_local: bool = False,
        queue_bytes_max: int = 256 << 10,
        queue_full: Literal["block", "drop_new", "drop_old"] = "block",
    ) -> Subscription:
        """Subscribe; `accepts` says in Python what `selector` says, for the checkers."""
        if (selector is None) != (accepts is None):
            raise ValueError("selector and accepts say the same and must be given together")
        self._numbers += 1
        record = SubscriptionRecord(
            number=self._numbers,
            pattern=pattern,
            began_s=self.domain.now_s,
            accepts=accepts,
            no_local=no_local,
            keeps_all=queue_full == "block",
        )
        self.core.subscribe(
            self.name,
            record.number,
            pattern,
            selector=None if selector is None else Selector(selector).core,
            no_local=no_local,
            queue_bytes_max=queue_bytes_max,
            queue_full=queue_full,
        )
        self.life.subscriptions[record.number] = record
        return Subscription(self, record)

    def begin_flush(self) -> int:
        """Start to wait until every member has everything published so far; the number of the flush."""
        self._numbers += 1
        self.core.flush(self.name, self._numbers)
        return self._numbers

    def flush(self, *, within_s: float = 30.0) -> Flush | None:
        """Let time pass until every member has everything published so far; `None` if that takes too long."""
        number = self.begin_flush()

        def ended() -> list[Flush]:
            self.collect()
            return [flush for flush in self.life.flushes if flush.number == number]

        self.domain.run_until_true(lambda: bool(ended()), within_s=within_s, step_s=0.01)
        return next(iter(ended()), None)

    # --- what happened ---

    @property
    def members(self) -> list[int]:
        """Ids of the members it knows."""
        return self.core.members(self.name)

    def interested(self, topic: str) -> list[int]:
        """Ids of the members that want a topic, as far as it knows."""
        return self.core.interested(self.name, topic)

    @property
    def state(self) -> _core._DomainNodeState:
        """What it holds, and the most it ever held."""
        return self.core.state(self.name)

    @property
    def stats(self) -> dict[str, int]:
        """What its links counted, added up."""
        return self.core.stats(self.name)

    @property
    def happenings(self) -> Sequence[Happening]:
        """What it told its program in this life."""
        self.collect()
        return self.life.happenings

    def collect(self) -> None:
        """Take over what happened since the last time."""
        life = self.life
        if life.end == "crashed":
            return
        if (node := self.state["node"]) != life.node:
            life.nodes_before.append(life.node)
            life.node = node
        for at_s, number, topic, key, timestamp_us, body in self.core.take_read(self.name):
            reading = Reading(at_s, topic, MessageKey(*key), timestamp_us, body)
            life.subscriptions[number].readings.append(reading)
        life.happenings.extend(Happening(*event) for event in self.core.take_events(self.name))
        life.flushes.extend(Flush(*flush) for flush in self.core.take_flushed(self.name))
        # Last, so that nothing is known to be read that is not known to be published.
        for at_s, waited_s, topic, priority, key, wanted_by, body in self.core.take_published(self.name):
            life.published.append(
                Published(at_s, waited_s, topic, priority, MessageKey(*key), tuple(wanted_by), body)
            )

    def lives(self) -> Iterator[Life]:
        """All its lives, the present one last."""
        self.collect()
        self.life.state = self.state
        yield from self._past
        yield self.life


@contextmanager
def paused(node: Node, *, socket_bytes: int | None = None) -> Iterator[Node]:
    """Let a node stand still for a while."""
    node.pause(socket_bytes=socket_bytes)
    try:
        yield node
    finally:
        node.go_on()


def _port(port: Port) -> tuple[float | None, float | None, int]:
    return (port.egress_bytes_per_s, port.ingress_bytes_per_s, port.ingress_queue_bytes)
