"""What a NORM session can be told."""

import dataclasses
import itertools
import os
from dataclasses import dataclass
from typing import Any, Literal, Self, TypedDict, Unpack

from shoal import _core
from shoal.config.checks import Checked, is_whole, unknown_option
from shoal.config.keys import check_key

#: Beside the default group of connections, which speak a protocol of their own on top.
DEFAULT_GROUP = "239.192.74.2"
DEFAULT_PORT = 7474

Congestion = Literal["fixed", "nack_driven", "norm_cc", "delivery"]
Fec = Literal["reed_solomon_8", "small_block", "no_code"]
Feedback = Literal["multicast", "unicast", "unicast_acks"]
Nacking = Literal["full", "info_only", "none"]
Repair = Literal["at_once", "aggregated"]
Sync = Literal["current", "start", "all"]

#: The engine's options with the defaults that it has for a LAN. What they may be is for the engine to say.
_LAN: dict[str, Any] = _core.norm_defaults()


class EngineOptions(TypedDict, total=False):
    """What the engine itself can be told, of a real session and of a simulated node alike."""

    rate_bytes_per_s: float | None
    rate_min_bytes_per_s: float
    congestion: Congestion
    send_delay_s: float
    epoch_messages: int | None
    burst_bytes_max: int
    burst_segments_max: int
    fec: Fec
    block_symbols: int
    parity_symbols: int
    auto_parity: int
    interleave_blocks: int
    repair: Repair
    grtt_initial_s: float
    grtt_min_s: float
    grtt_max_s: float
    backoff_factor: int
    group_size: int
    robust_factor: int
    probe_interval_s: float
    probe_interval_max_s: float
    acker_patience_s: float
    send_objects_max: int
    send_cache_bytes_max: int
    object_window_bytes: int
    receive: bool
    receive_objects: bool
    feedback: Feedback
    sync: Sync
    nacking: Nacking
    receive_window_bytes: int
    receive_bytes_max: int
    senders_max: int
    streams_per_sender_max: int
    objects_per_sender_max: int
    object_bytes_max: int
    object_idle_after_s: float
    sender_idle_after_s: float


class NormOptions(EngineOptions, total=False):
    """The keywords of `shoal.norm.Session`; `NormConfig` says what each means."""

    group: str
    port: int
    interface: str
    listen_port: int | None
    multicast_ttl: int
    node: int | None
    instance: int | None
    seed: int | None
    segment_bytes: int | None
    ackers: tuple[int, ...]
    lanes: int
    cache_bytes: int
    window_bytes: int | None
    info: bytes
    receive_buffer_bytes: int
    message_bytes_max: int
    files_directory: str | os.PathLike[str] | None
    drop_received: float
    key: str | None
    key_file: str | os.PathLike[str] | None


@dataclass(frozen=True, kw_only=True)
class NormConfig(Checked):
    """One NORM session (RFC 5740). Sizes are in bytes, times in seconds."""

    #: Multicast group, or the address of the one other end; IPv4 or IPv6.
    group: str = DEFAULT_GROUP
    #: UDP port of the group, or of the other end.
    port: int = DEFAULT_PORT
    #: A network interface by name or address, or `auto`.
    interface: str = "auto"
    #: Between two ends: the port to listen on, if it is not `port`.
    listen_port: int | None = None
    #: One more than the routers that multicast may pass: 1 stays in the local network.
    multicast_ttl: int = 1
    #: Our node id, which acknowledgements name; `None` chooses one at random.
    node: int | None = None
    #: Distinguishes this run of a sender from its earlier ones; `None` chooses one at random.
    instance: int | None = None
    #: Everything random in the protocol follows from it; `None` chooses one at random.
    seed: int | None = None

    #: The rate to send at, or the most that rate control may choose; `None` is without limit.
    rate_bytes_per_s: float | None = _LAN["rate_bytes_per_s"]
    #: The least rate that rate control may choose, whatever receivers report.
    rate_min_bytes_per_s: float = _LAN["rate_min_bytes_per_s"]
    #: What decides the rate: `fixed`, `nack_driven`, `norm_cc`, which shares a path as TCP does, or
    #: `delivery`, for a long path to one other end that loses packets.
    congestion: Congestion = _LAN["congestion"]
    #: The least time from one datagram of data to the next; 0 delays nothing.
    send_delay_s: float = _LAN["send_delay_s"]
    #: Messages of a stream after which ackers are asked; `None` asks after an eighth of `window_bytes`.
    epoch_messages: int | None = _LAN["epoch_messages"]
    #: Bytes handed to the kernel in one call.
    burst_bytes_max: int = _LAN["burst_bytes_max"]
    #: Datagrams handed to the kernel in one call.
    burst_segments_max: int = _LAN["burst_segments_max"]
    #: Data in one datagram; `None` is as much as a packet of the interface takes, and not more than 8 KB.
    segment_bytes: int | None = _LAN["segment_bytes"]

    #: The FEC scheme: fec_id 5, 129 or 0.
    fec: Fec = _LAN["fec"]
    #: Segments of a block, 255 together with its parity.
    block_symbols: int = _LAN["block_symbols"]
    #: Parity that a block can have; 0 repairs with the lost segments themselves.
    parity_symbols: int = _LAN["parity_symbols"]
    #: How many of them follow each block unasked; the others answer requests for repair.
    auto_parity: int = _LAN["auto_parity"]
    #: Blocks that are sent in turn, so that a burst of loss takes a little of each. Needs parity.
    interleave_blocks: int = _LAN["interleave_blocks"]

    #: Repair when the first receiver asks, or after collecting requests (RFC 5740 section 5.4).
    repair: Repair = _LAN["repair"]
    #: The group's round-trip time until it is measured.
    grtt_initial_s: float = _LAN["grtt_initial_s"]
    #: The least that is taken for it.
    grtt_min_s: float = _LAN["grtt_min_s"]
    #: The most that is taken for it.
    grtt_max_s: float = _LAN["grtt_max_s"]
    #: K: receivers back off up to K round-trip times before they ask for repair.
    backoff_factor: int = _LAN["backoff_factor"]
    #: The group's size, as far as known; it spreads the back-off.
    group_size: int = _LAN["group_size"]
    #: How often a command that may be lost is repeated.
    robust_factor: int = _LAN["robust_factor"]
    #: How often round-trip times are probed while data flows.
    probe_interval_s: float = _LAN["probe_interval_s"]
    #: How often they are probed at least.
    probe_interval_max_s: float = _LAN["probe_interval_max_s"]

    #: The nodes whose acknowledgements `flush`, `close` and `window_bytes` wait for.
    ackers: tuple[int, ...] = ()
    #: The sender no longer waits for an acker that makes no progress, or holds others back, for this time.
    acker_patience_s: float = _LAN["acker_patience_s"]

    #: Streams of messages to send, the most urgent first; 0 is enough for files and objects.
    lanes: int = 1
    #: What each of them keeps for repair.
    cache_bytes: int = 16 << 20
    #: How far each may be ahead of the slowest acker; `None` does not wait for them.
    window_bytes: int | None = None
    #: NORM_INFO of the streams.
    info: bytes = b""
    #: Objects and files kept for sending and repair, at the most.
    send_objects_max: int = _LAN["send_objects_max"]
    #: The memory that objects kept for sending and repair take, at the most.
    send_cache_bytes_max: int = _LAN["send_cache_bytes_max"]
    #: How far objects and files may be ahead of the slowest acker.
    object_window_bytes: int = _LAN["object_window_bytes"]

    #: Whether to receive at all.
    receive: bool = _LAN["receive"]
    #: Whether to receive objects and files; streams are received in any case.
    receive_objects: bool = _LAN["receive_objects"]
    #: Where receivers send their feedback.
    feedback: Feedback = _LAN["feedback"]
    #: What a receiver that joins late asks for: nothing older, the stream it hears, or all that is kept.
    sync: Sync = _LAN["sync"]
    #: What a receiver asks for when something is missing.
    nacking: Nacking = _LAN["nacking"]
    #: How far ahead of the reader one stream is buffered.
    receive_window_bytes: int = _LAN["receive_window_bytes"]
    #: What all streams and objects together are buffered.
    receive_bytes_max: int = _LAN["receive_bytes_max"]
    #: What to ask the kernel for.
    receive_buffer_bytes: int = 8 << 20
    #: Senders that are listened to at once.
    senders_max: int = _LAN["senders_max"]
    #: Streams of each that are listened to at once.
    streams_per_sender_max: int = _LAN["streams_per_sender_max"]
    #: From the oldest incomplete object of a sender to its newest there are at most this many.
    objects_per_sender_max: int = _LAN["objects_per_sender_max"]
    #: The longest object of bytes that is taken; files may be longer.
    object_bytes_max: int = _LAN["object_bytes_max"]
    #: An object without a new segment for this time is given up.
    object_idle_after_s: float = _LAN["object_idle_after_s"]
    #: A sender that is silent for this time may be forgotten to make room for another.
    sender_idle_after_s: float = _LAN["sender_idle_after_s"]
    #: The longest message of a stream, sent or received.
    message_bytes_max: int = 128 << 20
    #: Where received files go, an existing directory; without it their parts come as events.
    files_directory: str | os.PathLike[str] | None = None
    #: Share of received datagrams to throw away, to see repair at work.
    drop_received: float = 0.0
    #: The key that all members share, as `shoal keys new` makes it: every datagram is encrypted and
    #: authenticated, and nothing but Shoal understands it.
    key: str | None = dataclasses.field(default=None, repr=False)
    #: A file that only its owner can read, with a key in each line: the first encrypts, all of them decrypt.
    #: `SHOAL_KEY_FILE` names one where neither is given.
    key_file: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        self.check_types()
        fine = isinstance(self.ackers, tuple | list | set | frozenset) and all(map(is_whole, self.ackers))
        self.check("ackers", fine, "ids of other nodes")
        object.__setattr__(self, "ackers", tuple(sorted(set(self.ackers))))
        self.check("key_file", self.key is None or self.key_file is None, "left out beside key")
        if self.key is not None:
            check_key(self.key)
        if self.files_directory is not None:
            fine = isinstance(self.files_directory, str | os.PathLike)
            self.check("files_directory", fine, "a path, or None")
        # A node that is drawn later can be any but an acker, and files are looked for later.
        spare = next(node for node in itertools.count(1) if node not in self.ackers)
        given = link_options(self) | {"files_directory": None}
        drawn = {"node": spare, "instance": 0, "seed": 0}
        given |= {name: value for name, value in drawn.items() if given[name] is None}
        _core.check_norm_options(**given)

    def with_options(self, **options: Unpack[NormOptions]) -> Self:
        """This configuration with some of its fields changed."""
        fields = {field.name for field in dataclasses.fields(self)}
        for name in options:
            if name not in fields:
                raise unknown_option(name, fields)
        return dataclasses.replace(self, **options)


def link_options(config: NormConfig) -> dict[str, Any]:
    """What a session tells its link, but for the key, which has another form there."""
    fields = dataclasses.fields(config)
    return {field.name: getattr(config, field.name) for field in fields if not field.name.startswith("key")}
