"""What a connection can be told, by URL or by keyword."""

import dataclasses
import hashlib
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict
from urllib.parse import parse_qsl, urlsplit

from shoal.config.checks import WHOLE, unknown_option
from shoal.config.keys import check_key
from shoal.config.sending import CACHE_BYTES_MAX, Congestion, Sending
from shoal.errors import ConfigError

#: Default group; a domain other than the default one gets a group of its own beside it.
DEFAULT_GROUP = "239.192.74.1"
#: Not assigned by IANA.
DEFAULT_PORT = 7474
DEFAULT_DOMAIN = "default"

#: All receive buffers of a node together.
RECEIVE_BYTES_MAX = 512 << 20

#: What publishing does when members take no more.
WhenFull = Literal["block", "drop", "error"]
#: What publishing does about a member that gets nowhere for `slow_after_s` while others have room.
WhenSlow = Literal["expel", "wait"]
#: For as long as it lives: heartbeats alone end a wait of so many seconds.
FOR_EVER_S = 1e9
#: What a subscription does when its reader falls behind.
QueueFull = Literal["block", "drop_new", "drop_old"]
_SCHEMES = ("norm", "tcp", "inproc")
_LATER_SCHEMES = ("udp", "tls", "locate")
#: Longer than anybody waits, and more than anybody has.
SECONDS_MAX, MISSED_MAX, ASSEMBLY_BYTES_MAX = 1e9, 1_000_000, 1 << 40
CONNECTIONS_MAX, TCP_WINDOW_BYTES_MAX = 100_000, 1 << 28
#: What a connection without a network can be told.
_INPROC_FIELDS = ("scheme", "domain", "when_full", "slow_after_s", "when_slow", "message_bytes_max")
#: What only one over TCP can be told, and what else it can.
_TCP_ONLY = ("host", "resume_s", "connect_timeout_s", "reconnect_max_s", "connections_max")
_TCP_FIELDS = (
    *_INPROC_FIELDS,
    "port",
    "heartbeat_s",
    "missed_heartbeats_max",
    "window_bytes",
    "assembly_bytes_max",
    "router",
    *_TCP_ONLY,
)


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Sending):
    """One connection. Sizes are in bytes, times in seconds."""

    #: How to reach others: `norm` (reliable multicast), `tcp` or `inproc` (this process alone).
    scheme: str = "norm"
    #: The set of nodes to talk to; it chooses the group unless `group` is given. For `inproc`, its name.
    domain: str = DEFAULT_DOMAIN
    #: Multicast group, IPv4 or IPv6, or the address of the one other end; by default derived from the domain.
    group: str | None = None
    #: UDP port of the group, or TCP port of the other end; 0 listens on a free one.
    port: int = DEFAULT_PORT
    #: Between two ends by NORM: the port to listen on, if it is not `port`.
    listen_port: int | None = None
    #: Over TCP: the name or address of the other end, or the address to listen at; this machine if not given.
    host: str | None = None
    #: A network interface by name or address, or `auto`.
    interface: str = "auto"
    #: What publishing does when the send buffer is full.
    when_full: WhenFull = "block"
    #: How often to say that we are here (TI).
    heartbeat_s: float = 4.0
    #: After how many missed heartbeats a node counts as dead (MH).
    missed_heartbeats_max: int = 5
    #: A member that gets nowhere for so long no longer holds publishers back.
    slow_after_s: float = 0.5
    #: What then: `expel` tells it and goes on without it, `wait` holds everybody back while it lives.
    when_slow: WhenSlow = "expel"
    #: Data in one datagram; `None` is as much as a packet of the interface takes, and not more than 8 KB.
    segment_bytes: int | None = None
    #: Sent ahead of the slowest member, at the most.
    window_bytes: int = 1 << 20
    #: Kept for repair, per priority class.
    cache_bytes: int = 4 << 20
    #: Buffered ahead of the reader, per sender and priority class.
    receive_window_bytes: int = 4 << 20
    #: What to ask the kernel for.
    receive_buffer_bytes: int = 8 << 20
    #: The rate to send at; `None` is as fast as members take it.
    rate_bytes_per_s: float | None = None
    #: What decides the rate: `fixed` is `rate_bytes_per_s` and the members' window alone; with `nack_driven`,
    #: `norm_cc`, which shares a path as TCP does, and `delivery`, for a long path to one other end that loses
    #: packets, `rate_bytes_per_s` is the most.
    congestion: Congestion = "fixed"
    #: The least rate that rate control may choose.
    rate_min_bytes_per_s: float = 0.0
    #: Reed-Solomon parity that a block of segments can have; 0 repairs with the lost segments themselves.
    parity_symbols: int = 0
    #: How many of them follow each block unasked, against loss that would take a round trip to repair.
    auto_parity: int = 0
    #: Segments of a block, 255 together with its parity.
    block_symbols: int = 64
    #: The longest message.
    message_bytes_max: int = 128 << 20
    #: Parts of messages whose end has not come yet, of all senders together; beyond it messages are lost, and
    #: `Unreadable` tells of it.
    assembly_bytes_max: int = 256 << 20
    #: Back-off factor K of NORM's repair requests: 0 suits few members, 4 many.
    backoff_factor: int = 1
    #: The key that all members share, as `shoal keys new` makes it: every datagram is encrypted and
    #: authenticated.
    key: str | None = dataclasses.field(default=None, repr=False)
    #: A file that only its owner can read, with a key in each line: the first encrypts, all of them decrypt.
    #: `SHOAL_KEY_FILE` names one where neither is given.
    key_file: str | None = None
    #: Share of received datagrams to throw away, to try a program under loss.
    drop_received: float = 0.0
    #: Whether what comes over one link is passed on to the others that want it. `Bus.connect` and
    #: `Bus.listen` make more links.
    router: bool = False
    #: Over TCP: how long a link whose connection is gone is kept for another connection to go on with.
    resume_s: float = 10.0
    #: Over TCP: how long an attempt to connect may take.
    connect_timeout_s: float = 5.0
    #: Over TCP: the longest wait between two attempts to connect; the first is 0.05 s, each twice the last.
    reconnect_max_s: float = 30.0
    #: Over TCP: how many connections a listener has at the most, and links a node; others are turned away.
    connections_max: int = 1000

    def __post_init__(self) -> None:
        if self.scheme in _LATER_SCHEMES:
            raise ConfigError(
                f"the scheme {self.scheme}:// is not available yet: use norm://, tcp://host:port or inproc://name"
            )
        if self.scheme not in _SCHEMES:
            raise ConfigError(
                f"unknown scheme {self.scheme!r}: use norm://, tcp://host:port or inproc://name"
            )
        self._check_scheme()
        self.check_types()
        self.check("domain", bool(self.domain) and len(self.domain) <= 255, "a name of 1 to 255 characters")
        self.check_range("port", 0 if self.scheme == "tcp" else 1, 65535)
        self.check_range("listen_port", 1, 65535)
        self.check_range("drop_received", 0, 1)
        self.check_range("resume_s", 0, SECONDS_MAX)
        self.check_range("connections_max", 1, CONNECTIONS_MAX)
        for field in ("heartbeat_s", "slow_after_s", "connect_timeout_s", "reconnect_max_s"):
            fine = 0 < getattr(self, field) <= SECONDS_MAX
            self.check(field, fine, f"more than 0, and at most {SECONDS_MAX:,.0f}")
        self.check_range("missed_heartbeats_max", 1, MISSED_MAX)
        self.check_range("segment_bytes", 64, 65_000)
        self.check_range("backoff_factor", 0, 15)
        self.check_range("window_bytes", 65_536)
        self.check_range("cache_bytes", 65_536, CACHE_BYTES_MAX)
        self.check_range("receive_window_bytes", 65_536, RECEIVE_BYTES_MAX)
        self.check_range("receive_buffer_bytes", 65_536, (1 << 31) - 1)
        if self.scheme == "tcp":
            self.check_range("window_bytes", 65_536, TCP_WINDOW_BYTES_MAX)
        else:
            self.check("window_bytes", self.window_bytes <= self.cache_bytes, "at most cache_bytes")
        self.check_range("message_bytes_max", 1, (1 << 28) - 1)
        self.check(
            "assembly_bytes_max",
            self.message_bytes_max <= self.assembly_bytes_max <= ASSEMBLY_BYTES_MAX,
            f"at least message_bytes_max, and at most {ASSEMBLY_BYTES_MAX}",
        )
        self.check("key_file", self.key is None or self.key_file is None, "left out beside key")
        if self.key is not None:
            check_key(self.key)
        self.check_rate()
        self.check_parity()
        if self.group is not None:
            self._check_group(self.group)
        if not self.is_unicast:
            self.check("listen_port", self.listen_port is None, "left out on a multicast group")
            fine = self.congestion != "delivery"
            self.check("congestion", fine, "fixed, nack_driven or norm_cc on a multicast group")

    def _check_scheme(self) -> None:
        """Refuse options that mean nothing there."""
        known = {"inproc": _INPROC_FIELDS, "tcp": _TCP_FIELDS}.get(self.scheme)
        for field in dataclasses.fields(self):
            means = field.name not in _TCP_ONLY if known is None else field.name in known
            if means or getattr(self, field.name) == field.default:
                continue
            if known is None:
                raise ConfigError(f"{field.name} means nothing on norm://: it is for tcp:// alone")
            network = "has no network" if self.scheme == "inproc" else "has no multicast"
            raise ConfigError(
                f"{field.name} means nothing on {self.scheme}://, which {network}: leave it out "
                f"(what counts there is {', '.join(known[1:])})"
            )

    def _check_group(self, group: str) -> None:
        try:
            address = ipaddress.ip_address(group)
        except ValueError:
            raise ConfigError(
                f"group is {group!r}, and must be an IP address such as {DEFAULT_GROUP}"
            ) from None
        fine = not address.is_unspecified and address != ipaddress.ip_address("255.255.255.255")
        self.check("group", fine, "a multicast address, 224.0.0.0/4 or ff00::/8, or that of the other end")

    def group_address(self) -> str:
        """The group: as given, or derived from the domain."""
        if self.group is not None:
            return self.group
        if self.domain == DEFAULT_DOMAIN:
            return DEFAULT_GROUP
        # Organisation-local scope; the default's own address is left out.
        number = int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[:4], "big") % 65_000
        return f"239.192.{76 + number // 500}.{1 + number % 250}"

    @property
    def is_unicast(self) -> bool:
        """Whether it is NORM between two ends."""
        return self.group is not None and not ipaddress.ip_address(self.group).is_multicast

    def patience_s(self) -> float:
        """How long a member that gets nowhere may hold publishers back."""
        return FOR_EVER_S if self.when_slow == "wait" else self.slow_after_s

    def domain_number(self) -> int:
        """What tells the domain's nodes from those of another one that happens to have the same group."""
        return int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[4:12], "big")


class ConnectionOptions(TypedDict, total=False):
    """The keywords of `connect`; `ConnectionConfig` says what each means."""

    scheme: str
    domain: str
    group: str | None
    port: int
    listen_port: int | None
    host: str | None
    interface: str
    when_full: WhenFull
    heartbeat_s: float
    missed_heartbeats_max: int
    slow_after_s: float
    when_slow: WhenSlow
    segment_bytes: int | None
    window_bytes: int
    cache_bytes: int
    receive_window_bytes: int
    receive_buffer_bytes: int
    rate_bytes_per_s: float | None
    congestion: Congestion
    rate_min_bytes_per_s: float
    parity_symbols: int
    auto_parity: int
    block_symbols: int
    message_bytes_max: int
    assembly_bytes_max: int
    backoff_factor: int
    key: str | None
    key_file: str | None
    drop_received: float
    router: bool
    resume_s: float
    connect_timeout_s: float
    reconnect_max_s: float
    connections_max: int


_FIELDS = {field.name: field for field in dataclasses.fields(ConnectionConfig)}


def parse_url(url: str | None, **keywords: Any) -> ConnectionConfig:
    """The configuration that a URL and keywords describe together; a keyword may not contradict the URL."""
    options = _options_of(url or "norm://")
    for name, value in keywords.items():
        if name not in _FIELDS:
            raise unknown_option(name, _FIELDS)
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name} is {options[name]!r} in the URL and {value!r} as an argument: give one"
            )
        options[name] = value
    return ConnectionConfig(**options)


def resolve(
    url: str | None, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ConnectionConfig:
    """The configuration that `connect` was asked for.

    Without a URL `SHOAL_URL` in the environment takes its place; `SHOAL_DOMAIN` is the domain where neither
    the URL nor a keyword names one.
    """
    if url is not None and not isinstance(url, str):
        raise TypeError(
            f"url is {url!r}, and must be a str such as 'norm://', 'tcp://host:port' or 'inproc://name', "
            "or None"
        )
    url = url or environment.get("SHOAL_URL") or "norm://"
    options = dict(options)
    domain = environment.get("SHOAL_DOMAIN")
    if domain and "domain" not in options and "domain" not in _options_of(url):
        options["domain"] = domain
    return parse_url(url, **options)


def resolve_listening(url: str, options: Mapping[str, Any]) -> ConnectionConfig:
    """The configuration that `listen` was asked for."""
    config = resolve(url, options)
    if config.scheme != "tcp":
        raise ConfigError(f"{url!r} cannot be listened at: use tcp://address:port")
    return config


def _options_of(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if not parts.scheme or "://" not in url:
        raise ConfigError(
            f"{url!r} is not a URL: it must look like norm://, tcp://host:port or inproc://name"
        )
    options: dict[str, Any] = {"scheme": parts.scheme}
    if parts.scheme == "inproc":
        if parts.netloc:
            options["domain"] = parts.netloc
    elif parts.netloc:
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r}: {error}") from None
        if host is not None or parts.scheme != "tcp":
            options["host" if parts.scheme == "tcp" else "group"] = host
        if port is not None:
            options["port"] = port
    if parts.path not in ("", "/"):
        raise ConfigError(f"{url!r} has a path, {parts.path!r}, which means nothing here")
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name in options:
            raise ConfigError(f"{name} appears twice in {url!r}: give it once")
        options[name] = _value_of(name, text)
    return options


def _value_of(name: str, text: str) -> Any:
    field = _FIELDS.get(name)
    if name == "key":
        raise ConfigError(
            "a key does not belong into a URL, which others see: use key_file, or key as an argument"
        )
    if field is None or name == "scheme":
        raise unknown_option(name, _FIELDS.keys() - {"scheme", "key"}, " in the URL")
    if field.type is str or name in ("group", "host", "when_full", "when_slow", "congestion", "key_file"):
        return text
    kind = int if field.type in WHOLE else float
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r} in the URL, and must be a number") from None
