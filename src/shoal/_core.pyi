"""Hand-written stubs of the Rust extension module (`crates/pycore`)."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict

__version__: str
#: The version of the wire format that this extension speaks.
WIRE_VERSION: int

class Message:
    """A message: what was published, and who published it.

    Subscriptions give received ones; their parts are decoded when they are asked for, the body once. Programs
    make their own to test handlers. Immutable but for a body that is a list or a mapping, and shared freely
    between threads. Two are equal if topic, body and everything that was published beside them are.
    """

    def __new__(
        cls,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = False,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        redelivered: bool = False,
        sender: int = 0,
        publisher: int = 0,
        chain: int = 0,
        number: int = 0,
    ) -> Self: ...
    @property
    def topic(self) -> str:
        """Where it was published."""
    @property
    def body(self) -> Any:
        """What was published; decoded when it is first asked for."""
    @property
    def properties(self) -> dict[str, Any]:
        """Named values."""
    @property
    def headers(self) -> dict[str, Any]:
        """Header fields by the names that selectors use for them, such as `JMSPriority`."""
    @property
    def priority(self) -> int:
        """0 to 9."""
    @property
    def redelivered(self) -> bool:
        """Whether it may have been delivered before."""
    @property
    def delivery_count(self) -> int:
        """Which delivery of the message this is, from 1."""
    @property
    def trace(self) -> tuple[bytes, str] | None:
        """The trace and span it was sent in: version, trace, span and flags of W3C Trace Context in binary,
        and the trace state; none if it was sent in no trace."""

    @property
    def group(self) -> str | None:
        """Messages of one group go to one receiver, in order (JMSXGroupID); none if it is in no group."""
    @property
    def connection(self) -> int:
        """Which of its publisher's connections sent it: 0 where there is but one."""
    @property
    def _header_fields(
        self,
    ) -> tuple[str | bytes | None, str | None, str | None, int, int | None, int | None]:
        """Header fields that are read together.

        Correlation id, where answers go, type; in milliseconds when it was published, how long it might live
        and how long it was kept back.
        """
    @property
    def _properties_and_group(self) -> tuple[dict[str, Any], str | None]:
        """Its properties and its group."""
    @property
    def _left_s(self) -> float | None:
        """Seconds of its time to live that are left, if a subscription gave it."""
    @property
    def _body_kind(self) -> int:
        """What kind of body it has, as the wire numbers them, without decoding it."""
    @property
    def _delivery(self) -> tuple[int, int, int] | None:
        """Of one that a store delivered: to which consumer, its offset, the lease."""
    def ack(self, *, timeout_s: float | None = None) -> Awaitable[None]:
        """Acknowledge it: it is never delivered again.

        For messages of queues, and of durable and shared subscriptions. Waits until the acknowledgement is
        durable; with asyncio, await it. Raises what `Consumer.ack` raises.
        """
    def release(self, *, delay_s: float | None = None) -> None:
        """Give it back: it is delivered again, marked as redelivered; `delay_s` is the earliest time.

        For messages of queues, and of durable and shared subscriptions. Raises as `Consumer.release` does.
        """
    def reply(
        self, body: Any = None, *, properties: Mapping[str, Any] | None = None, more: bool = False
    ) -> Awaitable[None]:
        """Answer it, if it was sent with `request` or `request_many`; with asyncio, await it.

        `more` says that more answers of this program will follow.
        """
    @property
    def sender(self) -> int:
        """The node that sent it here."""
    @property
    def publisher(self) -> int:
        """Who published it: `Node.publisher` there; 0 if not known."""
    @property
    def timestamp(self) -> float | None:
        """When it was published, seconds since 1970 by the publisher's clock; none if not known."""
    @property
    def persistent(self) -> bool:
        """Whether stores must keep it."""
    @property
    def delivery_delay_s(self) -> float | None:
        """How long it had to be kept back when it was sent; none if not at all."""
    @property
    def message_id(self) -> str | None:
        """Its identity, the same for every reader; none if its number is not known."""
    @property
    def correlation_id(self) -> str | bytes | None:
        """What it answers or belongs to."""
    @property
    def reply_to(self) -> str | None:
        """Where answers go; a `shoal.types.QueueName` if that is a queue."""
    @property
    def type(self) -> str | None:
        """The application's name for its kind of message (JMSType)."""
    @property
    def ttl_s(self) -> float | None:
        """How long it might live when it was sent; none if for ever."""

class Bus:
    """The base class of `shoal.Bus`, which has its method `publish`: it costs no call of Python."""

    def __new__(cls, *arguments: Any, **options: Any) -> Self: ...
    def _publish_through(self, node: Node) -> None:
        """Publish through this node, from now on."""

class Bell:
    """A descriptor that can be read when one of its sources rang. May be shared between threads."""

    def __init__(self) -> None: ...
    def fileno(self) -> int: ...
    def ring(self, source: int) -> None: ...
    def take(self) -> list[int]:
        """The sources that rang since the last call."""

class Member:
    """The member of a group that a log is of. May be shared between threads."""

    def __init__(self, log: Log) -> None: ...
    def attach_bell(self, bell: Bell, source: int) -> None:
        """Ring when there is something to send, or something happened."""
    def handle_message(self, bytes: bytes) -> None:
        """Bytes came from another member."""
    def handle_timeout(self) -> float:
        """Time has passed: seconds until this is to be called again."""
    def sync(self) -> None:
        """Make what was appended durable on this member's disk."""
    def take_transmits(self) -> list[tuple[int, bytes]]:
        """What to send: members, and bytes for each."""
    def take_events(self) -> list[tuple[str, int | None, int]]:
        """What happened: `elected`, `follows` or `members`; the owner, if one is known; term."""
    @property
    def owns(self) -> bool:
        """Whether it owns the group now, and may answer and deliver."""
    @property
    def is_elected(self) -> bool:
        """Whether it was elected, and takes appends."""
    @property
    def owner(self) -> int | None:
        """The member that owns the group, as far as is known."""
    @property
    def term(self) -> int: ...
    @property
    def indexes(self) -> tuple[int, int, int, int]:
        """Of the oldest entry, the last, the last on this disk, the last that is committed."""
    @property
    def members(self) -> tuple[list[int], list[int]]:
        """Members that vote, and those that only follow. While members change, those that are left vote."""
    @property
    def progress(self) -> list[tuple[int, int]]:
        """How far each member is, if this one is the owner: member, last entry on its disk."""
    @property
    def cuts(self) -> int:
        """How often the end of the log was cut off, because an owner had appended something else."""
    @property
    def unreadable(self) -> int:
        """Messages that could not be read, or were not for this member."""
    @property
    def failure(self) -> str | None:
        """Why it stopped, if it did."""
    def transfer(self, to: int) -> None:
        """Let another member own the group."""
    def change_members(self, changes: list[tuple[str, int]]) -> None:
        """Change members, all at once: `voter`, `learner` or `none`, and which."""
    @property
    def members_at(self) -> int:
        """As of which entry the members are."""
    @property
    def offered(self) -> tuple[int | None, int, int, list[int]] | None:
        """The copy that it needs: who has it, last entry, oldest segment, lengths of segments.

        Without somebody who has it, it is of a damaged segment, which every other member has.
        """
    def scrub(self, behind: int) -> tuple[int, bool] | None:
        """Read the oldest sealed segment behind one: its number, and whether it is whole."""
    def read_part(self, segment: int, position: int, bytes_max: int) -> bytes:
        """Bytes of a segment for another member, as many as are visible."""
    def put_part(self, segment: int, position: int, bytes: bytes) -> None:
        """Put down bytes of the copy that is offered."""
    def check_part(self) -> None:
        """Read the oldest segment of the copy that was not read yet: all of it was put down."""
    def install(self) -> bool:
        """Let the copy, which is complete, become the log; False if it is not to be, now."""
    def decline(self) -> None:
        """Give the copy up: it cannot be fetched."""

class Subscription:
    """What a subscription is made of. May be shared between threads."""

    @property
    def pattern(self) -> str: ...
    @property
    def pending(self) -> int: ...
    @property
    def dropped(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def receive(self, timeout_s: float | None = None) -> Message | None: ...
    def receive_nowait(self, count_max: int = 1000) -> list[Message] | None:
        """Messages that are here already; `None` once closed and empty."""
    def hold_back(self, bytes_max: int) -> None:
        """Have messages with a delivery delay wait for their delivery time, about so many bytes of them.

        For a reader that calls `receive`, before it does.
        """
    @property
    def next_due_s(self) -> float | None:
        """Seconds until the next message that is held back is due; `None` if there is none."""
    def set_receiver(self, receiver: object) -> None:
        """Have its messages acknowledged and answered by an object. Once."""
    def mark_callback_thread(self) -> None:
        """Say that this thread runs the callback of this subscription."""
    def attach_bell(self, bell: Bell, source: int) -> None:
        """Ring `bell` as `source` when there is something to receive, or never will be."""
    def stop(self) -> None:
        """End an iteration, whatever has arrived."""
    def close(self) -> None: ...

class Node:
    """What a connection is made of. May be shared between threads."""

    def __init__(
        self,
        node: int,
        *,
        inproc: str | None = None,
        tcp: tuple[str, float, int] | None = None,
        domain: int = 0,
        group: str = ...,
        port: int = ...,
        interface: str = "auto",
        seed: int = 0,
        heartbeat_s: float = 4.0,
        missed_heartbeats_max: int = 5,
        members_max: int = 10_000,
        window_bytes: int = ...,
        cache_bytes: int = ...,
        when_full: str = "block",
        router: bool = False,
        **options: Any,
    ) -> None: ...
    def add_norm(self, **options: Any) -> int:
        """Join one more group: the link's number. The first link, if it is a group, is number 1."""
    def remove_norm(self, number: int, linger_s: float = 0.0) -> bool:
        """Leave a group, after waiting for its members; false if there is no such link."""
    def set_norm_cost(self, number: int, cost: int | None) -> bool:
        """Say what a step over a group's link costs; `None` as usual; false if there is no such link."""
    def norm_link(self, number: int) -> dict[str, Any] | None:
        """A group's link as it is now; `None` if it was left."""
    def add_tcp(
        self, names: tuple[str, int], limits: tuple[float, int], beats: tuple[float, int], window_bytes: int
    ) -> None:
        """Make TCP links possible: domain, `resume_s` and peers, heartbeats and how many may be missed."""
    @property
    def is_router(self) -> bool: ...
    @property
    def routers(self) -> list[int]:
        """The routers beside this node: each stands for all nodes behind it."""
    @property
    def node(self) -> int: ...
    @property
    def publisher(self) -> int:
        """Who publishes here: a number drawn at random when the connection was made."""
    def take_nearly_full(self) -> list[str]:
        """Patterns of subscriptions whose queues became nearly full since this was asked."""
    def message_id(self, number: int, priority: int = 4, *, topic: str = "") -> str | None:
        """The identity of a message that `publish` returned the number of, as its readers see it."""
    @property
    def members(self) -> list[int]: ...
    def set_persistently(self, publish: Callable[..., object]) -> None:
        """Have persistent and retained messages published by a function, with what `publish` was given."""
    def set_store(self, is_store: bool) -> None:
        """Say whether this node is a store, for which publishers wait however slow it is."""
    def publish(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = False,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        connection: int | None = None,
        window: int | None = None,
        timeout_s: float | None = None,
        retain: bool = False,
        held_s: float | None = None,
        waited_s: float = 0.0,
        caller: Subscription | None = None,
        trace: tuple[bytes, str] | None = None,
    ) -> Any:
        """Publish a message: its number in its chain, or 0 if it was dropped.

        Of a persistent or retained one, what the function of `set_persistently` returns. `held_s` is how
        long its publisher held it: its times count from then. `waited_s` is how long a publisher that comes
        back has waited already, `caller` the subscription whose callback
        publishes, where that has no thread of its own.
        """
    def open_subscription(
        self,
        pattern: str,
        *,
        selector: Selector | None = None,
        correlation: CorrelationFilter | None = None,
        no_local: bool = False,
        queue_bytes_max: int = ...,
        when_full: str = "block",
    ) -> Subscription: ...
    def subscribers(self, topic: str) -> list[int]:
        """The nodes that subscribe to a topic, this one among them if it does."""
    def may_want(self, topic: str) -> bool:
        """Whether a node subscribes to a topic, or may without having said so yet."""
    def attach_bell(self, bell: Bell) -> None:
        """Ring `bell` as source 0 when something changed."""
    def begin_flush(self) -> int: ...
    def network(self) -> list[tuple[int, bool, list[tuple[bool, list[int]]]]]:
        """All nodes that say where their links lead, whether each is a router, and its links."""
    def begin_sync(self) -> int:
        """Start waiting until routers and members know what was subscribed to before."""
    def poll_flush(self, flush: int) -> list[int] | None: ...
    def flush_losers(self, flush: int) -> list[int]:
        """Members that lost for good something that a flush waits for, and that none named before."""
    def flush_is_unsettled(self, flush: int) -> bool:
        """Whether paths between routers changed while a flush waited, so that it confirms nothing yet."""
    def flush_awaited(self, flush: int) -> list[int]:
        """Routers that a flush waits for."""
    def flush_behind(self, flush: int) -> list[tuple[int, list[int]]]:
        """Whom those routers wait for, as far as they said: each router, and those behind it."""
    def expect_links(self, count: int) -> None:
        """This number of links is about to begin, and there may be several ways then."""
    def has_unconfirmed(self) -> bool:
        """Whether something was published of which no flush confirmed that every member has it."""
    def end_flush(self, flush: int) -> None: ...
    def take_events(self) -> list[tuple[str, int, dict[str, Any]]] | None: ...
    def load(self) -> _Load:
        """What was counted of messages since the node began, and the processor time of its threads."""
    def stats(self) -> dict[str, int]: ...
    @property
    def rate_bytes_per_s(self) -> float | None: ...
    @property
    def round_trip_s(self) -> float | None:
        """The greatest round trip to a member of the group, as it is estimated; `None` without multicast."""
    def describe_link(self) -> tuple[str, str, int] | None:
        """Interface, own address and granted receive buffer."""
    def udp_down(self) -> str | None:
        """Why nothing goes out or comes in over `udp`, while its interface is gone."""
    def set_keys(self, keys: str, number: int | None = None) -> bool:
        """Change the keys of all links that have some, or of one. False if none has."""
    def take_socket_error(self, number: int | None = None) -> str | None:
        """The last error a socket of the first link gave, or of one, or who has another key, once."""
    def stop(self) -> None:
        """Take no more messages; what was published is still being sent."""
    def backlog(self) -> tuple[int, list[tuple[int, int]]]:
        """Bytes not sent yet, and who has not acknowledged about how many bytes."""
    def leave(self) -> None:
        """Say goodbye, without waiting for anything."""
    def has_left(self) -> bool: ...
    def shut_down(self, linger_s: float = 1.0) -> bool: ...

class RawBody:
    """A body as it stands on the wire, sent unchecked: what no encoder makes, for tests."""

    def __new__(cls, kind: int, content: bytes, detail: bytes = b"") -> Self: ...

class Tls:
    """What connections over TLS are made with; certificates are PEM. May be shared between threads."""

    def __init__(
        self,
        trusted: bytes,
        own: tuple[bytes, bytes] | None = None,
        *,
        mutual: bool = False,
        pinned: bytes | None = None,
    ) -> None: ...
    def replace(
        self,
        trusted: bytes,
        own: tuple[bytes, bytes] | None = None,
        *,
        mutual: bool = False,
        pinned: bytes | None = None,
    ) -> None:
        """Use others for connections that are made from now on."""

class Rights:
    """What one principal may do over links: rules are name, whether it allows, actions, topics."""

    def __init__(
        self,
        principal: str,
        source: str,
        rules: list[tuple[str, bool, list[str], list[str]]],
        bytes_per_s: int | None,
    ) -> None: ...
    def replace(
        self,
        principal: str,
        source: str,
        rules: list[tuple[str, bool, list[str], list[str]]],
        bytes_per_s: int | None,
    ) -> None:
        """Other rules count from now on; `TcpLinks.use_rules` has links look."""

class TcpLinks:
    """The TCP links of a node that has such. May be shared between threads."""

    def __init__(self, node: Node) -> None: ...
    def listen(
        self, host: str, port: int, connections_max: int, tls: Tls | None = None, *, asks: bool = False
    ) -> tuple[int, int]:
        """Listen at an address: the listener's number, and the port.

        With `asks`, a program that says hello there is told as news of kind `asks`, and waits for `admit`.
        """
    def dial(
        self,
        host: str,
        port: int,
        timeout_s: float,
        last: int | None = None,
        tls: Tls | None = None,
        name: str = "",
    ) -> int:
        """Begin to connect to an address, where this publisher was last: the connection's number."""
    def add_listener(self, connections_max: int, *, asks: bool = False) -> int:
        """A listener that a transport written in Python has: its number. `asks` as of `listen`."""
    def admit(self, connection: int, refused: str | None = None, rights: Rights | None = None) -> None:
        """Let a program in that is asked about, with its rights; or not, with the reason that it hears."""
    def use_rules(self) -> None:
        """Rights were replaced: links use the new ones."""
    def redirect(self, connection: int, places: str) -> None:
        """Sends the other end elsewhere, to the addresses that `places` names.

        One that was told as news of kind `asks` is refused with them; one that is linked hears them.
        """
    def adopt(
        self, address: str, identity: str, *, listener: int | None = None, last: int | None = None
    ) -> tuple[int, int] | None:
        """Make a connection that a transport carries: its number, and the descriptor of a pipe to it.

        `None` if the listener has too many.
        """
    def join(self, other: TcpLinks, last: int | None = None) -> int:
        """Make a connection with another node of this process: its number. `last` as of `dial`."""
    def identify(self, connection: int, identity: str) -> None:
        """The other end of such a connection proved its name."""
    def end(self, connection: int, why: str, refused: bool) -> None:
        """Such a connection is over; `refused` says that trying again does not help."""
    def set_cost(self, publisher: int, cost: int | None) -> bool:
        """Say what a step over the link with a publisher costs; `None` as usual; false if there is none."""
    def part(self, connection: int) -> None:
        """End a connection: goodbye is said once everything was sent."""
    def close_listener(self, listener: int) -> None:
        """Close a listener, and end its connections so."""
    def set_congestion(self, name: str, loopback: bool) -> None:
        """What decides the rate of connections made from now on, as the kernel calls it."""
    def attach_bell(self, bell: Bell) -> None:
        """Ring `bell` as source 0 when something became of a connection."""
    def take_news(self) -> list[dict[str, Any]]:
        """What became of connections since the last call."""
    def states(self) -> list[dict[str, Any]]:
        """The links as they are now."""
    def heard(self) -> dict[int, float]:
        """The nodes at the other end of open connections, and how many seconds ago each was heard.

        Heartbeats count, which the links' own thread sends, whatever Python code does there.
        """
    def listener(self, listener: int) -> tuple[int, int]:
        """Connections that a listener has, and how many it turned away because there were too many."""
    def wake(self) -> None:
        """Wake the threads that wait for the connection."""

def mark_exiting() -> None:
    """Say that the interpreter exits, on this thread."""

def is_abandoned() -> bool:
    """Whether the interpreter exits, and this thread is not the exiting one."""

def wait_for_waiting_threads(timeout_s: float) -> bool:
    """Wait until no other thread waits in a connection; false if the time was over first."""

def is_greeting_whole(said: bytes) -> bool:
    """Whether the first thing that a connection brings is a greeting that has come whole.

    Raises:
        ValueError: it is no greeting: why.
    """

def mark_forked() -> None:
    """Called in every forked child."""

class NormLink:
    """A NORM link on real sockets that carries messages in streams. May be shared between threads.

    `shoal.norm.Session` is its pleasant form.
    """

    def __init__(
        self,
        node: int,
        *,
        group: str,
        port: int,
        interface: str = "auto",
        seed: int | None = None,
        **options: Any,
    ) -> None: ...
    def send(self, body: bytes, lane: int = 0, timeout_s: float | None = None) -> None: ...
    def receive(self, timeout_s: float | None = None) -> list[tuple[str, dict[str, Any]]]: ...
    def send_data(self, content: bytes, info: bytes | None = None) -> int | None: ...
    def send_file(self, path: str | Path, info: bytes | None = None) -> int | None: ...
    def cancel_object(self, object: int) -> bool: ...
    def send_command(self, content: bytes, times: int = 1) -> bool: ...
    def request_acks(self, ack_type: int, ack_id: int, nodes: Sequence[int]) -> bool: ...
    def set_ackers(self, nodes: Sequence[int]) -> None: ...
    def request_watermark(self, object: int = 0) -> None: ...
    def wait_written(self, timeout_s: float | None = None) -> bool: ...
    def is_written(self) -> bool: ...
    def attach_bell(self, bell: Bell) -> None: ...
    def begin_close(self, linger_s: float) -> None: ...
    def has_left(self) -> bool: ...
    def set_keys(self, keys: str) -> bool:
        """Change the keys of a link that has some; false if it has none."""
    def take_socket_error(self) -> str | None:
        """The last error a socket gave, or who has another key, once."""
    def stats(self) -> dict[str, int]: ...
    def take_file_error(self) -> str | None: ...
    @property
    def rate_bytes_per_s(self) -> float | None: ...
    @property
    def grtt_s(self) -> float: ...
    def close(self, linger_s: float = 1.0) -> bool: ...

def norm_defaults() -> dict[str, Any]:
    """The options of a NORM session, each with the default of a LAN."""

def check_norm_options(
    node: int, *, group: str, port: int, interface: str = "auto", seed: int | None = None, **options: Any
) -> None:
    """Refuse what `NormLink` would refuse."""

def norm_send_bulk(
    node: int,
    bytes: int,
    message_bytes: int,
    *,
    group: str,
    port: int,
    interface: str = "lo",
    linger_s: float = 10.0,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> dict[str, Any]: ...
def norm_receive_bulk(
    node: int,
    message_bytes: int,
    *,
    group: str,
    port: int,
    interface: str = "lo",
    patience_s: float = 10.0,
    progress: Callable[[int], object] | None = None,
    **options: Any,
) -> dict[str, Any]: ...
def raw_send(
    segment_bytes: int, duration_s: float, *, group: str, port: int, interface: str = "lo"
) -> tuple[int, float]: ...
def raw_receive(
    *, group: str, port: int, interface: str = "lo", patience_s: float = 10.0
) -> tuple[int, float]: ...

class SelectorSyntaxError(ValueError):
    """A text that is no selector; its arguments are position, found, expected and the caret lines."""

    args: tuple[int, str, str, str]

class Selector:
    """A parsed selector. May be shared between threads."""

    def __init__(self, text: str) -> None: ...
    @staticmethod
    def decode(data: bytes) -> Selector: ...
    @staticmethod
    def any_of(selectors: list[Selector]) -> Selector: ...
    def encode(self) -> bytes: ...
    def names(self) -> list[str]: ...
    def matches(
        self, properties: Mapping[str, object], headers: Mapping[str, object] | None = None
    ) -> bool: ...

class CorrelationFilter:
    """A parsed correlation-ID filter. May be shared between threads."""

    def __init__(self, text: str) -> None: ...
    @staticmethod
    def decode(data: bytes) -> CorrelationFilter: ...
    def encode(self) -> bytes: ...
    def matches(self, correlation_id: str) -> bool: ...

class SelectorIndex:
    """Which of many selectors match. For one thread at a time."""

    def __init__(self, seed: int, evaluated_filters_max: int = 16) -> None: ...
    def add(self, selector: Selector, subscriber: int) -> None: ...
    def remove(self, selector: Selector, subscriber: int) -> bool: ...
    def tune(self, count: int) -> None: ...
    def matches(
        self, properties: Mapping[str, object], headers: Mapping[str, object] | None = None
    ) -> list[int]: ...
    def counters(self) -> dict[str, int]: ...
    def __len__(self) -> int: ...

class LoadPublisher:
    """Publishes messages that it encoded before, in turn, as fast as the node takes them."""

    def __init__(
        self, node: Node, messages: list[tuple[str, Mapping[str, Any] | None, str | None]], body: bytes
    ) -> None: ...
    def run(self, seconds: float) -> int: ...
    @property
    def sent(self) -> int: ...

class LoadSink:
    """Counts what subscriptions receive, and checks that the numbers of each publisher ascend."""

    def __init__(self, subscriptions: list[Subscription]) -> None: ...
    def run(self) -> None: ...
    def finish(self) -> None: ...
    @property
    def received(self) -> int: ...
    @property
    def disordered(self) -> int: ...

class SelectorBench:
    """Filters, messages and the timing loops over them. For one thread at a time."""

    def __init__(self, kind: str, count: int, rate: float, terms: int, messages: int, seed: int) -> None: ...
    def index_round(self, count: int) -> tuple[float, int]: ...
    def scan_round(self, count: int) -> tuple[float, int]: ...
    def disagreements(self, count: int) -> int: ...
    def change_round(self, count: int) -> tuple[list[int], list[int]]: ...
    def heap_bytes(self) -> int: ...
    def work_per_message(self) -> tuple[float, float]: ...

class ReedSolomon:
    """A Reed-Solomon code over GF(2^8), as NORM's fec_id 5 and 129 use it; may be shared between threads."""

    def __init__(self, source_symbols: int, parity_symbols: int, *, kernel: str | None = None) -> None: ...
    @staticmethod
    def kernels() -> list[str]:
        """The kernels of this processor, slowest first."""

    @property
    def kernel(self) -> str: ...
    @property
    def source_symbols(self) -> int: ...
    @property
    def parity_symbols(self) -> int: ...
    def encode(self, source: Sequence[bytes]) -> list[bytes]:
        """The block's parity symbols, each as long as its longest source symbol."""

    def decode(self, source: Sequence[bytes | None], parity: Sequence[bytes | None]) -> list[bytes]:
        """All source symbols; those given as `None` are recovered, zero-padded to the parity's length."""

class CodingLoad:
    """One block coded over and over, to measure a code; not for sharing between threads."""

    def __init__(self, code: ReedSolomon, symbol_bytes: int) -> None: ...
    def encode(self, blocks: int) -> None:
        """Compute all parity of the block, `blocks` times."""

    def decode(self, blocks: int) -> None:
        """Recover as many source symbols as there is parity, `blocks` times; checks the last result."""

class _Counters(TypedDict):
    received: int
    evaluated: int
    matched: int
    delivered: int
    dropped_at_source: int
    bytes_in: int
    bytes_out: int

class _LoadRow(_Counters):
    place: str
    link: int | None
    peer: int | None
    lane: str

class _Load(_Counters):
    cpu_ns: int
    rows: list[_LoadRow]

class _NodeState(TypedDict):
    instance: int
    delivered: int
    unreadable: int
    receive_bytes: int
    receive_bytes_peak: int
    receive_bytes_max: int
    rate_bytes_per_s: float | None
    busy_s: float
    busy_bytes: int
    grtt_s: float

class _DomainNodeState(TypedDict):
    publisher: int
    node: int
    backlog: int
    waits_since_s: float | None
    has_left: bool
    unreadable: int
    #: Messages that a router passed on, counted for each link; links that are not used.
    passed_messages: int
    resting_links: int
    receive_bytes_peak: int
    receive_bytes_max: int
    queue_bytes_over_peak: int
    waiting_bytes_peak: int
    #: What came over TCP and waited for readers, or for the rest of its message.
    held_bytes_peak: int
    assembly_bytes_max: int
    #: Sessions over TCP.
    tcp_links: int
    lane_bytes_max: int
    message_bytes_max: int
    lanes: int

class DomainSimulation:
    """Networks of simulated whole nodes; `shoal.testing.Domain` is its pleasant form."""

    def __new__(cls, seed: int) -> DomainSimulation: ...
    @property
    def now_s(self) -> float: ...
    @property
    def digest(self) -> int: ...
    @property
    def traffic(self) -> tuple[int, int]: ...
    def record_trace(self) -> None: ...
    def take_trace(self) -> list[tuple[float, int, int, bytes]]: ...
    def set_link(self, source: int | None, target: int | None, **link: float | bool) -> None: ...
    def reset_link(self, source: int, target: int) -> None: ...
    def inject(self, segment: int, datagram: bytes) -> None: ...
    def run_until(self, at_s: float) -> None: ...
    def add_node(
        self,
        name: int,
        node: int,
        domain: int,
        segments: list[int],
        options: dict[str, object],
        clock: tuple[float, float],
        port: tuple[float | None, float | None, int],
        wall_s: float,
    ) -> int: ...
    def restart(self, name: int, node: int, options: dict[str, object]) -> int: ...
    def lay_cable(self, one: int, two: int) -> None: ...
    def hang_up(self, name: int) -> None: ...
    def stop(self, name: int) -> None: ...
    def resume(self, name: int) -> None: ...
    def freeze(self, name: int, socket_bytes: int) -> None: ...
    def thaw(self, name: int) -> None: ...
    def jump(self, name: int, by_s: float) -> None: ...
    def set_port(self, name: int, port: tuple[float | None, float | None, int]) -> None: ...
    def set_store(self, name: int, is_store: bool) -> None: ...
    def subscribe(
        self,
        name: int,
        number: int,
        pattern: str,
        *,
        selector: Selector | None,
        no_local: bool,
        queue_bytes_max: int,
        queue_full: str,
    ) -> None: ...
    def unsubscribe(self, name: int, number: int) -> None: ...
    def set_reading(self, name: int, number: int, reading: bool) -> None: ...
    def publish(self, name: int, topic: str, bodies: list[bytes], priority: int, when_full: str) -> None: ...
    def flush(self, name: int, number: int) -> None: ...
    def leave(self, name: int) -> None: ...
    def take_published(
        self, name: int
    ) -> list[tuple[float, float, str, int, tuple[int, int, int], list[int], bytes]]: ...
    def take_read(self, name: int) -> list[tuple[float, int, str, tuple[int, int, int], int, bytes]]: ...
    def take_flushed(self, name: int) -> list[tuple[int, float, float, list[int], list[int]]]: ...
    def take_events(self, name: int) -> list[tuple[float, str, int, dict[str, object]]]: ...
    def members(self, name: int) -> list[int]: ...
    def interested(self, name: int, topic: str) -> list[int]: ...
    def state(self, name: int) -> _DomainNodeState: ...
    def stats(self, name: int) -> dict[str, int]: ...

class Simulation:
    """A network of simulated nodes; `shoal.testing.Simulation` is its pleasant form."""

    def __new__(cls, seed: int) -> Simulation: ...
    @property
    def now_s(self) -> float: ...
    @property
    def digest(self) -> int: ...
    @property
    def traffic(self) -> tuple[int, int]: ...
    def record_trace(self) -> None: ...
    def take_trace(self) -> list[tuple[float, int, int, bytes]]: ...
    def set_link(self, source: int | None, target: int | None, **link: float | bool) -> None: ...
    def reset_link(self, source: int, target: int) -> None: ...
    def add_node(
        self,
        node: int,
        options: dict[str, object],
        clock: tuple[float, float],
        port: tuple[float | None, float | None, int],
    ) -> None: ...
    def set_port(self, node: int, port: tuple[float | None, float | None, int]) -> None: ...
    def stop(self, node: int) -> None: ...
    def resume(self, node: int) -> None: ...
    def restart(self, node: int) -> None: ...
    def set_reading(self, node: int, reading: bool) -> None: ...
    def open_stream(
        self, node: int, *, cache_bytes: int, precedence: int, info: bytes, window_bytes: int | None
    ) -> int: ...
    def publish(self, node: int, stream: int, bodies: list[bytes], flush: bool) -> None: ...
    def flush(self, node: int, stream: int) -> None: ...
    def close_stream(self, node: int, stream: int) -> None: ...
    def drop_stream(self, node: int, stream: int) -> None: ...
    def send_data(self, node: int, content: bytes, info: bytes) -> int | None: ...
    def cancel_object(self, node: int, object: int) -> bool: ...
    def send_command(self, node: int, content: bytes, times: int) -> bool: ...
    def set_ackers(self, node: int, ackers: list[int]) -> None: ...
    def request_watermark(self, node: int, stream: int) -> None: ...
    def set_rate(self, node: int, rate_bytes_per_s: float | None) -> None: ...
    def leave(self, node: int) -> None: ...
    def backlog(self, node: int) -> int: ...
    def run_until(self, at_s: float) -> None: ...
    def run_until_delivered(self, wanted: list[tuple[int, int]], at_s: float) -> bool: ...
    def take_deliveries(self, node: int) -> list[tuple[float, int, int, int, bytes]]: ...
    def take_events(self, node: int) -> list[tuple[float, str, dict[str, object]]]: ...
    def stats(self, node: int) -> dict[str, int]: ...
    def state(self, node: int) -> _NodeState: ...

class ArrowBuffer:
    """Read-only memory laid out as Arrow wants it; read it by the buffer protocol."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

#: An array: length, null count, buffers (validity first), and the arrays inside it.
_ArrayParts = tuple[int, int, list[ArrowBuffer | None], list[Any]]

def columnise(
    rows: Sequence[tuple[int, int, int, int, int | None, int, bytes]],
    columns: Sequence[str],
    properties: Sequence[tuple[str, str]],
) -> tuple[int, list[_ArrayParts]]:
    """Bytes taken, and columns; a row is offset, stored, publisher, chain, number, timestamp and record."""

def encode_record(
    topic: str,
    body: Any,
    *,
    properties: Mapping[str, Any] | None = None,
    priority: int = 4,
    correlation_id: bytes | None = None,
    reply_to: str | None = None,
    type: str | None = None,
    redelivered: bool = False,
) -> bytes:
    """A message record."""

class Log:
    """A store's log. May be shared between threads; whatever waits does so without the interpreter's lock."""

    def __init__(
        self,
        path: str | Path,
        *,
        store_id: int,
        incarnation: bytes,
        holder: str = "",
        segment_bytes: int = ...,
        buffer_bytes_max: int = ...,
        state_bytes_max: int = ...,
    ) -> None:
        """Lock a directory and open the log in it, or make one with these random numbers."""
    @staticmethod
    def in_memory(*, store_id: int, incarnation: bytes, bytes_max: int, segment_bytes: int = ...) -> Log:
        """A log in memory, which has room for a number of bytes."""
    @staticmethod
    def simulated(
        disk: SimulatedDisk, *, store_id: int, incarnation: bytes, segment_bytes: int, clock_us: int
    ) -> Log:
        """A log on a simulated disk, where the caller sets the time."""
    @staticmethod
    def of_member(
        path: str | Path,
        *,
        member: int,
        founding: tuple[int, bytes, list[int], int] | None = None,
        joins: int | None = None,
        holder: str = "",
        segment_bytes: int = ...,
        buffer_bytes_max: int = ...,
        state_bytes_max: int = ...,
        election_s: float = ...,
    ) -> Log:
        """Lock a directory and open the log of a member of a group in it.

        One that has no log yet needs `founding`, what the first members agreed on (store, incarnation,
        members, microseconds since 1970), or the store that it `joins`.
        """
    @staticmethod
    def force_member(
        path: str | Path,
        *,
        member: int,
        holder: str = "",
        segment_bytes: int = ...,
        state_bytes_max: int = ...,
    ) -> tuple[int, int]:
        """Let the last disk of a group go on alone, as another member.

        Returns the offset after its last message, and when its last frame was made, microseconds since 1970.
        """
    @staticmethod
    def simulated_member(
        disk: SimulatedDisk,
        *,
        member: int,
        founding: tuple[int, bytes, list[int], int] | None,
        joins: int | None = None,
        segment_bytes: int,
        clock_us: int,
        election_s: float,
        seed: int,
    ) -> Log:
        """The log of a member on a simulated disk, where the caller sets the time."""
    def set_clock_us(self, clock_us: int) -> None:
        """From now on it is this time, microseconds since 1970."""
    @property
    def clock_us(self) -> int:
        """What time it is for the log, microseconds since 1970."""
    def append_turn(self, turn: Turn) -> tuple[int, int]:
        """Append all of a turn in one frame, and empty it: first offset, end. Durable after `sync`."""
    def chain(self, publisher: int, chain: int) -> int:
        """The highest number that is stored of a publisher's chain; 0 if none is."""
    def chain_owner(self, publisher: int, chain: int) -> int:
        """A hash of what the publisher of a chain alone knows; 0 if the chain has no owner."""
    def grants(self, reader: str) -> list[tuple[int, int, int]]:
        """What consumers of a reader were granted and is not done: first offset, end offset, lease."""
    def deliveries(self, reader: str) -> list[tuple[int, int, int]]:
        """How often messages that are not done were given out: first offset, end offset, count."""
    def readers(self, prefix: str) -> list[tuple[str, int, int, tuple[int, int], tuple[int, int], int]]:
        """Readers whose name begins so.

        Name, first offset not done, runs, messages and bytes that came, that are done, runs of messages
        delivered before.
        """
    @property
    def is_settled(self) -> bool:
        """Whether everything that was appended is durable."""
    @property
    def is_scattered(self) -> bool:
        """Whether offsets that readers are done with come in more runs than the state has room for."""
    @property
    def state_bytes(self) -> tuple[int, int]:
        """About how long the state is, and how long it may be."""
    def rows_of_chain(self, chain: tuple[int, int], start: int, bytes_max: int) -> tuple[bytes, int | None]:
        """Messages of a publisher and chain, from an offset on: rows, and where to go on."""
    @property
    def recovered(self) -> tuple[bool, int, int, float]:
        """What opening found: made anew, bytes read, bytes of a torn tail that were cut, seconds."""
    @property
    def store_id(self) -> int:
        """The store's random number, for ever."""
    @property
    def incarnation(self) -> str:
        """Which life of the store this is, 32 hexadecimal digits: another one after a restore."""
    @property
    def floor(self) -> int:
        """The offset at which history begins."""
    @property
    def end(self) -> int:
        """The offset that the next message gets."""
    @property
    def durable_end(self) -> int:
        """The offset after the last message that is durable, and so can be read."""
    @property
    def durable(self) -> tuple[int, int, int]:
        """Up to where the log is durable: segment, position in it, offset."""
    @property
    def failure(self) -> str | None:
        """Why it is full or closed, if it is."""
    @property
    def spares(self) -> tuple[int, int]:
        """Segments made in advance: how many, bytes."""
    def append(
        self,
        publisher: int,
        chain: int,
        records: Sequence[tuple[int | None, int, bytes]],
        *,
        pattern: str | None = None,
    ) -> tuple[int, int]:
        """Append records, each with its number and timestamp; the first offset and the one after the last.

        As what the recorder of a pattern appends, they raise its marks.
        """
    def marks(self) -> tuple[int, list[tuple[int, int, int, int, int]]]:
        """How far each chain is recorded: an offset up to which that is complete, and marks.

        Each is the checksum of the recorder's pattern, publisher, chain, highest number, when it was stored.
        """
    def gap(
        self,
        publisher: int,
        chain: int,
        first: int | None = None,
        last: int | None = None,
        count: int = 0,
    ) -> None:
        """Note that messages are lost."""
    def sync(self) -> int:
        """Return when everything appended before is durable, with the offset after the last message."""
    def sync_next(self, timeout_s: float) -> bool:
        """Wait until something is appended, and make it durable; false if nothing was, in time."""
    def wait_for(self, offset: int, timeout_s: float | None = None) -> int:
        """Wait until a message at `offset` or behind is durable; the offset after the last one."""
    def stage(self, id: str, rows: StagedRows) -> None:
        """Add rows to a staging, which the first of them begins."""
    def commit(self, scope: str | None, number: int, stagings: Sequence[str]) -> tuple[int, int, bool]:
        """Make stagings visible and durable: first offset, offset after the last, whether it was repeated.

        A number lower than the scope's last is a repetition of which only that is known: (-1, -1, True).
        Without a scope nothing is remembered.
        """
    def discard(self, stagings: Sequence[str]) -> int:
        """Forget stagings; how many there were."""
    def stagings(self) -> list[tuple[str, int, int, int]]:
        """Open stagings: id, rows, bytes, when the last rows came (microseconds since 1970)."""
    def scopes(self) -> list[tuple[str, int, int, int]]:
        """Every scope and its last commit: scope, number, first offset, offset after the last."""
    def forget(self, scope: str) -> bool:
        """Remember nothing of a scope any more; whether there was anything."""
    def unpublished(self) -> list[tuple[int, int]]:
        """Runs of committed rows that are durable and still to be published."""
    def set_published(self, offset: int) -> None:
        """Note that committed rows below an offset are published."""
    def put(self, key: str, value: bytes | None) -> None:
        """Keep a value under a key, or remove it."""
    def get(self, key: str) -> bytes | None:
        """The value of a key."""
    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        """Keys that begin so, and their values."""
    def rows(
        self,
        start: int,
        end: int,
        patterns: Sequence[str] = ...,
        selector: Selector | None = None,
        rows_max: int = 1000,
    ) -> list[tuple[int, int, int, int, int | None, int, bytes]]:
        """Rows one by one: offset, stored, publisher, chain, number, timestamp, record."""
    def extent(
        self,
        start: int,
        end: int,
        patterns: Sequence[str],
        selector: Selector | None = None,
        rows_max: int = ...,
        bytes_max: int = ...,
    ) -> tuple[int, int, int]:
        """Count what matches, up to a limit: offset after the last one counted, rows, bytes."""
    def split(self, start: int, end: int, patterns: Sequence[str], parts: int) -> list[tuple[int, int]]:
        """Cut a range into parts with about as many messages each."""
    def offset_at(self, time_us: int, by: str = "stored") -> int:
        """The first offset stored, or published, at a time or later; the end if there is none."""
    def topics(self, start: int, end: int, patterns: Sequence[str]) -> list[tuple[str, int, int, int]]:
        """Topics between two offsets: name, messages, first offset, last offset."""
    def gaps(
        self, start: int, end: int
    ) -> list[tuple[int, int, int, int | None, int | None, int, int, bool]]:
        """Gaps: the offset before (-1 if none), publisher, chain, first, last, count, stored, away."""
    def segments(self) -> list[dict[str, Any]]:
        """The segments, oldest first."""
    @property
    def used_bytes(self) -> int:
        """How long the segments are together."""
    def build_next_index(self) -> bool:
        """Make the next index that is missing; false if there is none."""
    def sync_stats(self) -> tuple[int, int, float, float, float]:
        """Syncs so far: how many, bytes, seconds, the longest, the last."""
    def fill_spares(self) -> None:
        """Make spare segments, if some are missing and the disk has room."""
    def trim(self, offset: int) -> tuple[int, list[int]]:
        """Let history begin at the last segment that starts by `offset`: floor, segments removed."""
    def compact(self, segment: int, topics: Sequence[str]) -> bool:
        """Write a segment anew without the messages on these topics; false if nothing of it went."""
    def seal(self) -> None:
        """Let the next message begin a new segment."""
    def segment_topics(self, segment: int) -> list[tuple[str, int, int, int, int]]:
        """The topics of a segment: name, messages, first offset, last offset, bytes."""
    def mark(self) -> None:
        """Prove that everything before was durable; worth it when the log is idle."""
    def renew(self, incarnation: bytes) -> None:
        """Begin a new incarnation: the store was restored."""
    def close(self) -> None:
        """Make everything durable, and release the directory."""

class SimulatedDisk:
    """A disk that forgets what was not synced, and fails when told. For simulations."""

    def __init__(self, seed: int) -> None: ...
    def set_faults(
        self,
        *,
        stop_at: int | None = None,
        fail_sync_at: int | None = None,
        fail_read_in: int | None = None,
        capacity_bytes: int | None = None,
    ) -> None:
        """What goes wrong from now on; steps count from here."""
    def kill(self) -> None:
        """The process was killed, and another one begins: the page cache survives."""
    def restart(self) -> None:
        """The power comes back."""
    @property
    def is_stopped(self) -> bool: ...
    @property
    def steps(self) -> int:
        """Steps since the faults were set."""
    def files(self) -> list[tuple[str, int]]:
        """Names and lengths of the files, as they are on the platters."""
    def flip(self, name: str, bit: int) -> None:
        """Flip a bit of a file, for good."""
    def cut(self, name: str, bytes: int) -> None:
        """Cut a file off."""

def check_rows(
    rows: bytes, publisher: int, chain: int, mark: int
) -> tuple[int, int, int, int, list[tuple[str, int, int]]]:
    """Look through rows of one chain that a publisher sent; those with a number above `mark` are new.

    First and last number, how many are new, bytes of the longest, and (destination, messages, bytes) of the
    new ones.
    """

def check_forwarded(rows: bytes) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Look through rows of any publishers that another store forwarded.

    Bytes of the longest, and (publisher, chain, first number, last number) of rows that follow each other
    with numbers that grow.
    """

def sift_forwarded(
    rows: bytes, known: Sequence[tuple[int, int, Sequence[tuple[int, int]]]]
) -> tuple[bytes, int, list[tuple[str, int, int]]]:
    """Of rows that another store forwarded those that are not known.

    What is known of a publisher's chain are runs of numbers, each from after the first up to and with the
    second. Returns rows, how many, and (destination, messages, bytes).
    """

def heard_rows(subscription: Subscription) -> bytes | None:
    """Take what a subscription has, as rows; none if it has nothing. For its only reader."""

class Hearing:
    """What a store heard on the bus so far. For one thread at a time."""

    def __init__(self, unless: Sequence[str] = ()) -> None:
        """Topics of `unless` come into the log on another way."""
    def sift(
        self, log: Log, rows: bytes
    ) -> tuple[bytes, list[tuple[str, int, int]], list[tuple[int, int, int]]]:
        """Take in rows, and return what is new of them.

        The rows, where they go (destination, messages, bytes), and how far their chains are (publisher,
        chain, number).
        """

class Turn:
    """Messages and changes of a log's state that become durable together. For one thread at a time."""

    def __init__(self) -> None: ...
    def push_rows(self, rows: bytes, mark: int, unpublished: str | None = None) -> None:
        """Take rows over whose number is above `mark`; they were checked.

        The store publishes those whose destination does not begin with `unpublished`, if that is given.
        """
    def push_forwarded(self, rows: bytes, unpublished: str | None = None) -> None:
        """Take rows over that another store forwarded, all of them; publish as `push_rows` does."""
    def push_heard(self, rows: bytes, without: Sequence[str]) -> None:
        """Take rows over that a store heard, but for those to some destinations."""
    def chain(
        self, publisher: int, chain: int, number: int, stored_us: int, kept: bool, owner: int = 0
    ) -> None:
        """A chain is stored up to this number, with the rows. One that is kept is never forgotten."""
    def came(self, reader: str, messages: int, bytes: int) -> None:
        """This number of messages and bytes of the rows are for a reader."""
    def done(
        self,
        reader: str,
        messages: int,
        bytes: int,
        runs: Sequence[tuple[int, int]],
        *,
        with_rows: bool = False,
    ) -> None:
        """A reader is done with these runs, each from the first up to before the second."""
    def delivered(self, reader: str, first: int, end: int, count: int, due_us: int) -> None:
        """Messages from an offset up to before another were given out, and are not again before a time."""
    def granted(self, reader: str, first: int, end: int, lease: int) -> None:
        """Messages from an offset up to before another are granted to a consumer, under a lease."""
    def grant_rows(self, reader: str, first: int, end: int, lease: int) -> None:
        """A consumer gets rows of this turn, from one up to before another, as soon as they are durable."""
    def revoked(self, reader: str, first: int, end: int) -> None:
        """Messages from an offset up to before another are granted to no consumer."""
    def lease_over(self, reader: str, lease: int) -> None:
        """A consumer has nothing any more that it was granted under a lease."""
    def forget(self, reader: str) -> None:
        """Nothing is known of a reader any more."""
    def put(self, key: str, value: bytes | None, *, with_rows: bool = False) -> None:
        """Keep a value under a key, or remove it."""
    def push_moved(
        self,
        log: Log,
        messages: Sequence[tuple[int, int]],
        topic: str,
        properties: Sequence[tuple[str, str]],
    ) -> list[tuple[int, int]]:
        """Take messages over from the log to another destination; offset and bytes of those it found."""
    def drop_rows(self) -> None:
        """There was no room for the rows: what belongs to them goes, too."""
    @property
    def is_empty(self) -> bool: ...
    @property
    def may_wait(self) -> bool:
        """Whether it has nothing but what readers are done with or granted, and need not be durable now."""
    @property
    def rows(self) -> int:
        """How many rows it has."""
    @property
    def bytes(self) -> int:
        """Bytes of its rows."""

class Backlog:
    """What a queue or a subscription still has to deliver. For one thread at a time."""

    def __init__(
        self,
        log: Log,
        reader: str,
        *,
        patterns: Sequence[str],
        selector: Selector | None = None,
        unless: Sequence[int] = (),
        window: int = ...,
        by_priority: bool = True,
    ) -> None: ...
    def attach(self, consumer: int, selector: Selector | None = None) -> None:
        """A consumer begins, perhaps with a selector of its own."""
    def detach(self, consumer: int, unseen: Sequence[tuple[int, int]], now_us: int) -> list[tuple[int, int]]:
        """A consumer ends: offset and deliveries of what it had and has seen."""
    def abandon(self, consumer: int, lease: int, now_us: int) -> list[tuple[int, int]]:
        """A consumer is gone without a word: offset and hand-overs of what it said that it handed over."""
    def hand_over(self, consumer: int, runs: Sequence[tuple[int, int]]) -> None:
        """A consumer handed what it has of these runs to its program."""
    def transfer(
        self, source: int, target: int, runs: Sequence[tuple[int, int]]
    ) -> tuple[list[tuple[int, int]], int, int]:
        """Take what a consumer has of these runs out of its hold, for a commit: runs, messages, bytes."""
    def granted(self, lease: int) -> list[tuple[int, int]]:
        """What a consumer that is absent was granted under a lease, as runs with both ends included."""
    def absolve(self, lease: int) -> None:
        """A consumer that was absent said what it handed over: the rest was not, under its lease."""
    def presume(self, first: int, end: int) -> list[tuple[int, int]]:
        """Programs may have received messages of a range: runs of those not known as delivered."""
    def delivery_of(self, offset: int) -> int:
        """Which hand-over of a message comes next; 0 if it may have been handed over before."""
    def leave_out(self, publisher: int) -> None:
        """One more publisher whose messages are not wanted, from here on."""
    def scan(self, now_us: int, rows_max: int, keep: bool) -> bool:
        """Read on; whether there is more to read now."""
    def look_ahead(self, now_us: int, rows_max: int) -> bool:
        """Look behind a full window for messages of priorities 5 to 9; whether there is more to look at."""
    def measure(self, now_us: int) -> tuple[int, int, int]:
        """Messages that are not done, their bytes, and how many lie behind the window; reads all of them."""
    def take(
        self, consumer: int, now_us: int, messages_max: int, bytes_max: int, *, oldest: bool = False
    ) -> tuple[
        list[
            tuple[int, bytes, list[tuple[int, int]], list[tuple[int, int]], int, int, list[tuple[int, int]]]
        ],
        bool,
    ]:
        """Give a consumer messages, or only some of the oldest, and say whether there is more to look at.

        Each batch: offset of the first, rows, (offset, deliveries) where that is not once, (offset,
        microseconds) where a message has a time to live, messages, bytes, and runs of what is granted, each
        from an offset up to before another.
        """
    def take_these(self, consumer: int, runs: Sequence[tuple[int, int]], now_us: int) -> int:
        """Give a consumer these runs of offsets, as far as it may have them; how many."""
    def set_aside(self, consumer: int, now_us: int, messages_max: int, bytes_max: int) -> tuple[int, bool]:
        """Set messages aside for a consumer, unread: how many, and whether there is more to look at."""
    def shown(
        self, start: int, now_us: int, selector: Selector | None, messages_max: int, runs_max: int
    ) -> tuple[list[tuple[int, int]], int | None]:
        """Which messages are there, from an offset on: runs of offsets, where to go on."""
    def browse(
        self,
        start: int,
        now_us: int,
        selector: Selector | None,
        messages_max: int,
        bytes_max: int,
        priority: int,
    ) -> tuple[int, bytes, int | None, int | None]:
        """Messages of a priority that are there, from an offset on: first offset, rows, where to go on.

        If there are no more, the next lower priority of which there are some. What consumers only have ready
        is there.
        """
    def has(self, consumer: int, runs: Sequence[tuple[int, int]]) -> int:
        """How many of these runs a consumer has."""
    def acknowledge(
        self, consumer: int, runs: Sequence[tuple[int, int]]
    ) -> tuple[list[tuple[int, int]], int, int]:
        """A consumer acknowledges what it has of these runs: runs done now, messages, bytes."""
    def weigh(self, consumer: int, runs: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], int, int]:
        """What acknowledging these runs would come to; changes nothing."""
    def seize(self, consumer: int, offsets: Sequence[int]) -> None:
        """A consumer gets these, though it did not ask, if no other has them."""
    def give_back(
        self, consumer: int, runs: Sequence[tuple[int, int]], seen: bool, due_us: int, now_us: int
    ) -> list[tuple[int, int]]:
        """A consumer gives back what it has of these runs: offset and deliveries of what it has seen."""
    def runs_of(self, counted: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
        """Messages, each with how often it was given out, as runs: first, end, how often."""
    def finish(self, offsets: Sequence[int]) -> tuple[list[tuple[int, int]], int, int]:
        """These are done, with any holder: runs done now, messages, bytes."""
    def wake(self, now_us: int) -> list[int]:
        """It is so late: returns what expired, which is to be finished."""
    @property
    def next_wake_us(self) -> int | None: ...
    def untaken(self, selector: Selector | None, count_max: int) -> list[int]:
        """Offsets of messages without a holder that match, of those that were read."""
    def pass_to(self, offset: int) -> None:
        """Everything below an offset is of no concern."""
    @property
    def pin(self) -> int:
        """The lowest offset that is still needed."""
    @property
    def scanned(self) -> int:
        """The offset up to which the log was read."""
    @property
    def is_low(self) -> bool:
        """Whether it is time to read more."""
    @property
    def counts(self) -> tuple[int, int, int]:
        """Messages that are ready, waiting and taken, as far as they were read."""
    @property
    def lost(self) -> int:
        """Messages that retention removed before they were delivered, or that could not be read."""

class Lanes:
    """The recorders of a log, one for each pattern, and what they know to be in it."""

    def __init__(self, log: Log, patterns: Sequence[str]) -> None:
        """Read in the log how far each chain is recorded. Once, before anything is recorded."""

class Recorder:
    """Appends what a subscription receives to a log. For one thread at a time."""

    def __init__(
        self,
        log: Log,
        subscription: Subscription,
        *,
        unless: Sequence[str] = ...,
        skip_node: int | None = None,
        lanes: Lanes | None = None,
        stored: Sequence[str] = (),
        at: int = 0,
    ) -> None:
        """Leave out topics of `unless`, which another program records, and what a node published.

        As the recorder of pattern `at` of `lanes`, leave out what an earlier pattern matches and what is in
        the log already, and note what was missed while nobody recorded.
        """
    def run(self, seconds: float) -> bool:
        """Record for this time; false once the subscription is closed and everything it had is appended.

        What a full disk refuses is kept, and tried first by the next call.
        """
    def skip(self, seconds: float) -> None:
        """Throw away for this time what makes the subscription's senders wait: a gap once there is room."""
    @property
    def recorded(self) -> tuple[int, int]:
        """Messages and bytes recorded so far."""
    @property
    def repeated(self) -> int:
        """Messages that came, and were recorded before."""

class HistoryScan:
    """A range of a log on its way into columns."""

    def __init__(
        self,
        log: Log,
        start: int,
        end: int,
        patterns: Sequence[str],
        selector: Selector | None,
        columns: Sequence[str],
        properties: Sequence[tuple[str, str]],
    ) -> None: ...
    def next(
        self, rows_max: int, bytes_max: int, large: bool = False
    ) -> tuple[int, list[_ArrayParts]] | None:
        """The next rows, up to so many, or until they take so many bytes; none at the end.

        One that alone is longer comes only if `large` says so; otherwise there are 0 rows.
        """

class StagedRows:
    """A batch of messages to be staged, from Arrow columns; see `shoal.history.incoming`."""

    def __init__(
        self,
        *,
        timestamp_us: int,
        rows: int,
        default_topic: str | None = None,
        topic: _TextColumn | None = None,
        body: _TextColumn | None = None,
        body_is_text: bool = False,
        body_kind: _TextColumn | None = None,
        priority: _NumberColumn | None = None,
        ttl_ms: _NumberColumn | None = None,
        correlation_id: _TextColumn | None = None,
        type: _TextColumn | None = None,
        reply_to: _TextColumn | None = None,
        properties: tuple[Any, Any, int, _TextColumn, _TextColumn] | None = None,
        typed: Sequence[tuple[str, str, Any]] | None = None,
    ) -> None: ...
    @property
    def count(self) -> int:
        """How many rows there are."""
    @property
    def bytes(self) -> int:
        """Bytes they take in the log."""

#: Validity, offsets, data, index of the first value; and the same without offsets.
_TextColumn = tuple[Any, Any, Any, int]
_NumberColumn = tuple[Any, Any, int]

def match_topics(patterns: Sequence[str], topics: Sequence[str]) -> list[str]:
    """Those of the topics that match one of the patterns."""

def verify_log(path: str | Path, holder: str) -> dict[str, Any]:
    """Read every frame of a log that no program has open; what there is, and what is damaged."""

def publish_rows(
    log: Log,
    node: Node,
    start: int,
    end: int,
    rows_max: int,
    redelivered_before: int,
    timeout_s: float,
) -> tuple[int, str | None]:
    """Publish rows of a log, in order, under the identity that history gives them.

    Returns the offset after the last one that is out, and why the next one can never be, if it cannot.
    """

class RowsBuilder:
    """Rows of one publisher and chain on their way to a store. May be shared between threads."""

    def __init__(self, publisher: int, chain: int, next: int = 1, *, part_bytes: int = ...) -> None: ...
    @property
    def next(self) -> int:
        """The number that the next row gets."""
    @property
    def waiting_bytes(self) -> int:
        """Bytes that wait to be taken, at the most; 0 if there are no rows."""
    def add(
        self,
        topic: str,
        body: Any = None,
        *,
        properties: Mapping[str, Any] | None = None,
        priority: int = 4,
        ttl_s: float | None = None,
        correlation_id: str | bytes | None = None,
        reply_to: str | None = None,
        type: str | None = None,
        persistent: bool = False,
        delivery_delay_s: float | None = None,
        timestamp: float | None = None,
        group: str | None = None,
        connection: int | None = None,
        bytes_max: int | None = None,
        node: Node | None = None,
        log: Log | None = None,
        timeout_s: float | None = None,
    ) -> int:
        """Add a message, and return its number.

        With `node` it is published there first, under the same identity; with `log` it is appended there, and
        does not wait to be taken.
        """
    def take(self) -> tuple[bytes, int, int] | None:
        """The first rows that wait, about `part_bytes`, and the numbers of the first and the last.

        Those with a time to live or a delivery delay say how long they waited here.
        """

def pass_on(
    node: Node, rows: bytes, timeout_s: float | None = None, *, redelivered: bool = False, age_s: float = 0.0
) -> None:
    """Publish rows for live subscribers, under the identity they have in the store; queues have none.

    A reader of those that are `redelivered` does not read them again. They waited for `age_s` more than
    they say.
    """

def read_rows(
    rows: bytes,
    first: int = 0,
    *,
    consumer: int = 0,
    lease: int = 0,
    counts: dict[int, int] | None = None,
    receiver: object = None,
) -> list[Message]:
    """Rows as messages; `counts` says which delivery it is where it is not the first, by offset."""

def offsets_of(messages: list[Message]) -> list[int]:
    """The offsets of messages that a store delivered."""

def split_rows(rows: bytes) -> list[tuple[int, bytes]]:
    """Each row by itself, with its number."""

def forward_rows(
    log: Log, start: int, end: int, patterns: Sequence[str], rows_max: int, bytes_max: int, now_us: int
) -> tuple[bytes, int, int, int, int]:
    """Persistent messages of a log that match patterns, for the next store; a transaction is never cut.

    The rows, the offset after the last one looked at, how many rows, messages passed and their bytes.
    Messages that expired are passed by. A time to live counts how long a message was held here.
    """

def age_rows(rows: bytes, age_s: float) -> bytes:
    """Rows that waited for a number of seconds more than they say."""

def take_rows(log: Log, start: int, end: int, rows_max: int, bytes_max: int) -> tuple[bytes, int, int]:
    """Rows of a log from an offset on: the rows, the offset after the last one, how many there are.

    They say how long the log had them, where that counts.
    """
