"""What a NORM session can be told."""

import dataclasses
import ipaddress
import os
from dataclasses import dataclass
from typing import Literal, Self, TypedDict, Unpack

from shoal.config.checks import unknown_option
from shoal.config.keys import check_key
from shoal.config.sending import CACHE_BYTES_MAX, Congestion, Sending
from shoal.errors import ConfigError

#: Beside the default group of connections, which speak a protocol of their own on top.
DEFAULT_GROUP = "239.192.74.2"
DEFAULT_PORT = 7474

Fec = Literal["reed_solomon_8", "small_block", "no_code"]
Feedback = Literal["multicast", "unicast", "unicast_acks"]
Nacking = Literal["full", "info_only", "none"]
Repair = Literal["at_once", "aggregated"]
Sync = Literal["current", "start", "all"]

_NODE_MAX = 0xFFFF_FFFE
#: The longest round trip that RFC 5740 can express.
_GRTT_MAX_S = 1000
#: A quarter of the numbers that objects have.
_OBJECTS_MAX = 16_384
#: What is left of a datagram when NORM's headers are in it.
_SEGMENT_BYTES_MAX = 65_400
#: Numbers and their bounds.
_RANGES: dict[str, tuple[float, float | None]] = {
    "port": (1, 65_535),
    "listen_port": (1, 65_535),
    "node": (1, _NODE_MAX),
    "instance": (0, 65_535),
    "seed": (0, (1 << 64) - 1),
    "burst_bytes_max": (0, 65_507),
    "burst_segments_max": (1, 64),
    "segment_bytes": (64, _SEGMENT_BYTES_MAX),
    "interleave_blocks": (1, 64),
    "grtt_min_s": (1e-6, _GRTT_MAX_S),
    "grtt_max_s": (1e-6, _GRTT_MAX_S),
    "backoff_factor": (0, 15),
    "group_size": (1, 500_000_000),
    "robust_factor": (1, 1000),
    "probe_interval_s": (1e-3, None),
    "acker_patience_s": (0, 1e9),
    "lanes": (0, 16),
    "cache_bytes": (65_536, CACHE_BYTES_MAX),
    "send_objects_max": (1, _OBJECTS_MAX),
    "send_cache_bytes_max": (0, 1 << 40),
    "object_window_bytes": (65_536, 1 << 40),
    "receive_window_bytes": (65_536, None),
    "receive_bytes_max": (65_536, 1 << 40),
    "receive_buffer_bytes": (4096, (1 << 31) - 1),
    "senders_max": (1, 1 << 20),
    "streams_per_sender_max": (1, 65_535),
    "objects_per_sender_max": (1, _OBJECTS_MAX),
    "object_bytes_max": (1, 1 << 40),
    "object_idle_after_s": (1e-3, 1e9),
    "sender_idle_after_s": (1e-3, 1e9),
    "message_bytes_max": (1, (1 << 28) - 1),
    "drop_received": (0, 1),
}


class EngineOptions(TypedDict, total=False):
    """What the engine itself can be told, of a real session and of a simulated node alike."""

    rate_bytes_per_s: float | None
    rate_min_bytes_per_s: float
    congestion: Congestion
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
class NormConfig(Sending):
    """One NORM session (RFC 5740). Sizes are in bytes, times in seconds."""

    #: Multicast group, or the address of the one other end; IPv4 or IPv6.
    group: str = DEFAULT_GROUP
    #: UDP port of the group, or of the other end.
    port: int = DEFAULT_PORT
    #: A network interface by name or address, or `auto`.
    interface: str = "auto"
    #: Between two ends: the port to listen on, if it is not `port`.
    listen_port: int | None = None
    #: Our node id, which acknowledgements name; `None` chooses one at random.
    node: int | None = None
    #: Distinguishes this run of a sender from its earlier ones; `None` chooses one at random.
    instance: int | None = None
    #: Everything random in the protocol follows from it; `None` chooses one at random.
    seed: int | None = None

    #: The rate to send at, or the most that rate control may choose; `None` is without limit.
    rate_bytes_per_s: float | None = None
    #: The least rate that rate control may choose, whatever receivers report.
    rate_min_bytes_per_s: float = 0.0
    #: What decides the rate: `fixed`, `nack_driven`, `norm_cc`, which shares a path as TCP does, or
    #: `delivery`, for a long path to one other end that loses packets.
    congestion: Congestion = "fixed"
    #: Bytes handed to the kernel in one call.
    burst_bytes_max: int = 65_000
    #: Datagrams handed to the kernel in one call.
    burst_segments_max: int = 64
    #: Data in one datagram; `None` is as much as a packet of the interface takes, and not more than 8 KB.
    segment_bytes: int | None = 1400

    #: The FEC scheme: fec_id 5, 129 or 0.
    fec: Fec = "reed_solomon_8"
    #: Segments of a block, 255 together with its parity.
    block_symbols: int = 64
    #: Parity that a block can have; 0 repairs with the lost segments themselves.
    parity_symbols: int = 0
    #: How many of them follow each block unasked; the others answer requests for repair.
    auto_parity: int = 0
    #: Blocks that are sent in turn, so that a burst of loss takes a little of each. Needs parity.
    interleave_blocks: int = 1

    #: Repair when the first receiver asks, or after collecting requests (RFC 5740 section 5.4).
    repair: Repair = "at_once"
    #: The group's round-trip time until it is measured.
    grtt_initial_s: float = 0.01
    #: The least that is taken for it.
    grtt_min_s: float = 0.0001
    #: The most that is taken for it.
    grtt_max_s: float = 15.0
    #: K: receivers back off up to K round-trip times before they ask for repair.
    backoff_factor: int = 4
    #: The group's size, as far as known; it spreads the back-off.
    group_size: int = 10
    #: How often a command that may be lost is repeated.
    robust_factor: int = 20
    #: How often round-trip times are probed while data flows.
    probe_interval_s: float = 0.1
    #: How often they are probed at least.
    probe_interval_max_s: float = 30.0

    #: The nodes whose acknowledgements `flush`, `close` and `window_bytes` wait for.
    ackers: tuple[int, ...] = ()
    #: An acker that gets nowhere for so long, or holds others back for so long, is no longer waited for.
    acker_patience_s: float = 0.5

    #: Streams of messages to send, the most urgent first; 0 is enough for files and objects.
    lanes: int = 1
    #: What each of them keeps for repair.
    cache_bytes: int = 16 << 20
    #: How far each may be ahead of the slowest acker; `None` does not wait for them.
    window_bytes: int | None = None
    #: NORM_INFO of the streams.
    info: bytes = b""
    #: Objects and files kept for sending and repair, at the most.
    send_objects_max: int = 16_384
    #: The memory that objects kept for sending and repair take, at the most.
    send_cache_bytes_max: int = 64 << 20
    #: How far objects and files may be ahead of the slowest acker.
    object_window_bytes: int = 4 << 20

    #: Whether to receive at all.
    receive: bool = True
    #: Whether to receive objects and files; streams are received in any case.
    receive_objects: bool = True
    #: Where receivers send their feedback.
    feedback: Feedback = "multicast"
    #: What a receiver that joins late asks for: nothing older, the stream it hears, or all that is kept.
    sync: Sync = "current"
    #: What a receiver asks for when something is missing.
    nacking: Nacking = "full"
    #: How far ahead of the reader one stream is buffered.
    receive_window_bytes: int = 16 << 20
    #: What all streams and objects together are buffered.
    receive_bytes_max: int = 512 << 20
    #: What to ask the kernel for.
    receive_buffer_bytes: int = 8 << 20
    #: Senders that are listened to at once.
    senders_max: int = 1024
    #: Streams of each that are listened to at once.
    streams_per_sender_max: int = 16
    #: From the oldest incomplete object of a sender to its newest there are at most so many.
    objects_per_sender_max: int = 16_384
    #: The longest object of bytes that is taken; files may be longer.
    object_bytes_max: int = 128 << 20
    #: An object of which nothing came for so long is given up.
    object_idle_after_s: float = 60.0
    #: A sender silent for so long may be forgotten to make room for another.
    sender_idle_after_s: float = 60.0
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
        for field, (least, most) in _RANGES.items():
            self.check_range(field, least, most)
        self._check_address()
        self.check_rate()
        self.check_parity()
        self._check_fec()
        self._check_times()
        if self.window_bytes is not None:
            fine = 1 <= self.window_bytes <= self.cache_bytes
            self.check("window_bytes", fine, "from 1 to cache_bytes, or None")
        fine = self.receive_window_bytes <= self.receive_bytes_max
        self.check("receive_window_bytes", fine, "at most receive_bytes_max")
        if self.segment_bytes is not None:
            self.check("info", len(self.info) <= self.segment_bytes, "no longer than segment_bytes")
        self.check("info", not self.info or self.lanes > 0, "left out without lanes, whose it is")
        self._check_ackers()
        self.check("key_file", self.key is None or self.key_file is None, "left out beside key")
        if self.key is not None:
            check_key(self.key)
        if self.files_directory is not None:
            fine = isinstance(self.files_directory, str | os.PathLike)
            self.check("files_directory", fine, "a path, or None")

    def _check_address(self) -> None:
        try:
            address = ipaddress.ip_address(self.group)
        except ValueError:
            raise ConfigError(
                f"group is {self.group!r}, and must be an IP address such as {DEFAULT_GROUP}"
            ) from None
        fine = self.listen_port is None or not address.is_multicast
        self.check("listen_port", fine, "left out on a multicast group, on whose port everybody listens")
        fine = self.congestion != "delivery" or not address.is_multicast
        self.check(
            "congestion", fine, "fixed, nack_driven or norm_cc on a multicast group: it is for two ends"
        )

    def _check_fec(self) -> None:
        fine = self.parity_symbols == 0 or self.fec != "no_code"
        self.check("parity_symbols", fine, "0 with fec='no_code', which has none")
        fine = self.interleave_blocks == 1 or self.parity_symbols > 0
        self.check("interleave_blocks", fine, "1 without parity_symbols, which interleaving is for")

    def _check_times(self) -> None:
        self.check("grtt_min_s", self.grtt_min_s <= self.grtt_max_s, "at most grtt_max_s")
        fine = self.grtt_min_s <= self.grtt_initial_s <= self.grtt_max_s
        self.check("grtt_initial_s", fine, "from grtt_min_s to grtt_max_s")
        fine = self.probe_interval_s <= self.probe_interval_max_s <= 1e9
        self.check("probe_interval_max_s", fine, "from probe_interval_s to 1e9")

    def _check_ackers(self) -> None:
        wanted = f"ids of other nodes, from 1 to {_NODE_MAX}"
        fine = isinstance(self.ackers, tuple | list | set | frozenset) and all(
            isinstance(node, int) and 1 <= node <= _NODE_MAX and node != self.node for node in self.ackers
        )
        self.check("ackers", fine, wanted)
        object.__setattr__(self, "ackers", tuple(sorted(set(self.ackers))))

    def with_options(self, **options: Unpack[NormOptions]) -> Self:
        """This configuration with some of its fields changed."""
        fields = {field.name for field in dataclasses.fields(self)}
        for name in options:
            if name not in fields:
                raise unknown_option(name, fields)
        return dataclasses.replace(self, **options)
