"""What a connection can be told, by URL or by keyword."""

import dataclasses
import hashlib
import ipaddress
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_origin
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal import _core
from shoal.config.checks import WHOLE, Checked, unknown_option
from shoal.config.fingerprints import fingerprint_bytes
from shoal.config.keys import check_key
from shoal.config.norm import Congestion
from shoal.config.profile import Profile
from shoal.config.profile import load as load_profile
from shoal.errors import ConfigError
from shoal.link import transport
from shoal.link.address import HOSTS, LOOPBACK, Target, target_of

#: Default group; a domain other than the default one gets a group of its own beside it.
DEFAULT_GROUP = "239.192.74.1"
#: The same without repair: the two must not hear each other.
DEFAULT_UDP_GROUP = "239.192.74.2"
#: Expedited forwarding, assured forwarding 4.1 and best effort.
DEFAULT_MARKS = "46:6,34:4,0:0"
#: Not assigned by IANA.
DEFAULT_PORT = 7474
DEFAULT_DOMAIN = "default"
#: Where a registry listens unless it is told.
REGISTRY_PORT = 7480

#: What publishing does when members take no more.
WhenFull = Literal["block", "drop", "error"]
#: What publishing does about a member that gets nowhere for `slow_after_s` while others have room.
WhenSlow = Literal["expel", "wait"]
#: For as long as it lives: only heartbeats end a wait of this many seconds.
FOR_EVER_S = 1e9
#: What a connection does where multicast does not work.
WhenNoMulticast = Literal["error", "tcp"]
#: What a subscription does when its reader falls behind.
QueueFull = Literal["block", "drop_new", "drop_old"]
_SCHEMES = ("norm", "udp", *transport.SCHEMES, "locate", "inproc")
#: What URLs look like.
_LOOKS = (
    "norm://, udp://, tcp://host:port, tls://host:port, ws://host:port, wss://host:port, "
    "locate://registry:port/domain or inproc://name"
)
#: A host and a port without a scheme.
_PLACE = re.compile(r"[\w.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
#: Whose URLs people have at hand.
_OTHERS = {
    **dict.fromkeys(("redis", "rediss"), "Redis"),
    **dict.fromkeys(("amqp", "amqps"), "AMQP brokers"),
    **dict.fromkeys(("mqtt", "mqtts"), "MQTT brokers"),
    "nats": "NATS servers",
    "kafka": "Kafka",
    "ipc": "ZeroMQ",
    "epgm": "ZeroMQ",
}
#: Longer than a program waits, and more than a machine has.
SECONDS_MAX, MISSED_MAX, ASSEMBLY_BYTES_MAX = 1e9, 1_000_000, 1 << 40
CONNECTIONS_MAX, TCP_WINDOW_BYTES_MAX, COST_MAX = 100_000, 1 << 28, 1_000_000
#: What a connection without a network can be told.
_INPROC_FIELDS = ("scheme", "domain", "when_full", "slow_after_s", "when_slow", "message_bytes_max")
#: What only one with links to single programs can be told, and what else it can; and what TLS needs.
_LINK_ONLY = (
    "resume_s",
    "connect_timeout_s",
    "required",
    "reconnect_max_s",
    "connections_max",
    "tcp_congestion",
)
_PLACES = ("host", "path", "listen")
_TLS_FIELDS = ("tls_ca", "tls_cert", "tls_key", "tls_name", "tls_fingerprint")
#: What only a connection by registries can be told.
_LOCATE_ONLY = ("transport", "registry_ca", "registry_token_file")
LINK_FIELDS = (
    *_INPROC_FIELDS,
    "port",
    "heartbeat_s",
    "missed_heartbeats_max",
    "window_bytes",
    "assembly_bytes_max",
    "router",
    "cost",
    "seeds",
    "host",
    "path",
    *_LINK_ONLY,
    *_TLS_FIELDS,
)
#: What one without repair can be told.
_UDP_FIELDS = (
    "scheme",
    "domain",
    "group",
    "host",
    "listen",
    "port",
    "multicast_ttl",
    "mark",
    "marks",
    "interface",
    "when_full",
    "heartbeat_s",
    "missed_heartbeats_max",
    "segment_bytes",
    "rate_bytes_per_s",
    "receive_buffer_bytes",
    "message_bytes_max",
    "assembly_bytes_max",
    "connections_max",
)
#: Options of the engine of a NORM link.
_NORM_FIELDS = (
    "listen_port",
    "segment_bytes",
    "window_bytes",
    "cache_bytes",
    "receive_window_bytes",
    "receive_buffer_bytes",
    "rate_bytes_per_s",
    "congestion",
    "send_delay_s",
    "epoch_messages",
    "multicast_ttl",
    "rate_min_bytes_per_s",
    "parity_symbols",
    "auto_parity",
    "block_symbols",
    "message_bytes_max",
    "backoff_factor",
    "drop_received",
)
#: Data in one datagram of `udp`, unless an option says otherwise.
UDP_SEGMENT_BYTES = 1400


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Checked):
    """One connection. Sizes are in bytes, times in seconds."""

    #: How to reach others: `norm` (reliable multicast), `udp` (best effort), `tcp`, `tls`, `ws`, `wss`, a
    #: scheme that `shoal.link.register` knows, or `inproc` (this process alone).
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
    #: Over `udp`: the same, instead of a group.
    host: str | None = None
    #: Over `udp` with a host: let others connect to it, instead of connecting; `shoal.listen` says so.
    listen: bool = False
    #: The path of a `ws://` or `wss://` URL, or of a link of your own.
    path: str | None = None
    #: One more than the routers that multicast may pass: 1 stays in the local network.
    multicast_ttl: int = 1
    #: Whether datagrams are marked by priority class, for switches (DSCP) and the queues of this machine
    #: (SO_PRIORITY).
    mark: bool = False
    #: With `mark`: DSCP (0 to 63) and SO_PRIORITY (0 to 6) of priorities 7 to 9, 4 to 6 and 0 to 3.
    marks: str = DEFAULT_MARKS
    #: A network interface by name or address, or `auto`.
    interface: str = "auto"
    #: What publishing does when the send buffer is full.
    when_full: WhenFull = "block"
    #: How often to say that we are here (TI).
    heartbeat_s: float = 4.0
    #: After how many missed heartbeats a node counts as dead (MH).
    missed_heartbeats_max: int = 5
    #: A member that makes no progress for this time no longer holds publishers back.
    slow_after_s: float = 0.5
    #: What then: `expel` goes on without it, with a loss report; `wait` holds publishers back while it lives.
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
    #: The least time from one datagram of data to the next (SD); 0 delays nothing.
    send_delay_s: float = 0.0
    #: Messages after which members are asked for acknowledgement (ES); `None` asks after an eighth of the
    #: window.
    epoch_messages: int | None = None
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
    #: What a step over its link costs, or over each that it makes at first: routers take the cheapest way.
    #: `None` is 1 for a group and 2 for a link with one program.
    cost: int | None = None
    #: Over TCP: how long a link whose connection is gone is kept for another connection to go on with.
    resume_s: float = 10.0
    #: Over TCP: how long an attempt to connect may take.
    connect_timeout_s: float = 5.0
    #: Over TCP: whether `connect` raises `LinkError` if the first attempt fails. Otherwise it goes
    #: on trying in the background.
    required: bool = False
    #: Over TCP: the longest wait between two attempts to connect; the first is 0.05 s, each twice the last.
    reconnect_max_s: float = 30.0
    #: Over TCP: how many connections a listener has at the most, and links a node; others are turned away.
    connections_max: int = 1000
    #: Over TCP and TLS: what decides the rate, as the kernel calls it, such as `bbr` or `cubic`. `auto` asks
    #: for `bbr` where the other end is on another machine and the kernel has it, `system` asks for nothing.
    tcp_congestion: str = "auto"
    #: Over TLS: a file with the certificates of the authorities that sign those of others (PEM); the system's
    #: if not given. If it is given, programs that connect to a listener have to show a certificate, too.
    tls_ca: str | None = None
    #: Over TLS: a file with our certificate, which every listener needs.
    tls_cert: str | None = None
    #: Over TLS: a file with the key of our certificate.
    tls_key: str | None = None
    #: Over TLS: the name that the certificate of the other end must have; the URL's host if not given.
    tls_name: str | None = None
    #: Over TLS: the SHA-256 fingerprint of the one certificate that the other end may have, by any signer
    #: and whatever its name.
    tls_fingerprint: str | None = None
    #: Over `locate`: how to connect to the daemon that a registry chooses, such as `tls`; any way otherwise.
    transport: str | None = None
    #: Over `locate`: a file with the authority of the registries' certificates; in a URL, `ca`.
    registry_ca: str | None = None
    #: Over `locate`: a file with the token to show them; in a URL, `token_file`. `SHOAL_TOKEN_FILE` names one
    #: where nothing else does.
    registry_token_file: str | None = None
    #: What to do where multicast does not work: `error` raises, `tcp` connects to the seeds, or lets the
    #: programs of this machine meet. It is `tcp` where `connect` is given no URL.
    when_no_multicast: WhenNoMulticast = "error"
    #: Where to connect by TCP then, or beside the URL's host: `host`, `host:port` or URLs, with commas
    #: between. `SHOAL_SEEDS` names some where nothing else does.
    seeds: str | None = None

    def __post_init__(self) -> None:
        if self.scheme not in _SCHEMES and not transport.is_registered(self.scheme):
            other = _OTHERS.get(self.scheme)
            hint = f"Shoal does not speak with {other}. Use" if other else "use"
            raise ConfigError(f"unknown scheme {self.scheme!r}: {hint} {_LOOKS}")
        self._check_scheme()
        self.check_types()
        self.check("tls_cert", (self.tls_cert is None) == (self.tls_key is None), "given beside tls_key")
        if self.tls_fingerprint is not None:
            fingerprint_bytes(self.tls_fingerprint)
            self.check("tls_ca", self.tls_ca is None, "left out beside tls_fingerprint")
        self.check("domain", bool(self.domain) and len(self.domain) <= 255, "a name of 1 to 255 characters")
        self.check_range("port", 0 if self.has_links else 1, 65535)
        self.check_range("cost", 1, COST_MAX)
        self.check_range("resume_s", 0, SECONDS_MAX)
        self.check_range("connections_max", 1, CONNECTIONS_MAX)
        self.check(
            "tcp_congestion", 0 < len(self.tcp_congestion) < 16, "auto, system or a name of 1 to 15 letters"
        )
        for field in ("heartbeat_s", "slow_after_s", "connect_timeout_s", "reconnect_max_s"):
            fine = 0 < getattr(self, field) <= SECONDS_MAX
            self.check(field, fine, f"more than 0, and at most {SECONDS_MAX:,.0f}")
        self.check_range("missed_heartbeats_max", 1, MISSED_MAX)
        self.check_range("segment_bytes", 64, 65_000)
        self.check_range("window_bytes", 65_536, TCP_WINDOW_BYTES_MAX if self.has_links else None)
        self.check_range("receive_window_bytes", 65_536)
        self.check_range("receive_buffer_bytes", 65_536)
        self.check(
            "assembly_bytes_max",
            self.message_bytes_max <= self.assembly_bytes_max <= ASSEMBLY_BYTES_MAX,
            f"at least message_bytes_max, and at most {ASSEMBLY_BYTES_MAX}",
        )
        self.check("marks", self.mark or self.marks == DEFAULT_MARKS, "left out unless mark is true")
        self.class_marks()
        self.check("key_file", self.key is None or self.key_file is None, "left out beside key")
        if self.key is not None:
            check_key(self.key)
        if self.group is not None:
            self._check_group(self.group)
        self._check_norm()
        if self.scheme == "udp":
            self.check("host", self.host is None or self.group is None, "left out beside group")
            self.check("listen", not self.listen or self.host is not None, "given beside host")
        if self.scheme == "norm" and self.seeds is not None and self.when_no_multicast == "error":
            raise ConfigError("seeds means nothing on norm:// unless when_no_multicast is 'tcp': say so")
        if self.scheme == "locate":
            self._check_locate()
        self.seed_targets()

    def _check_locate(self) -> None:
        wanted = (
            f"a list of registries, such as reg:{REGISTRY_PORT} or reg1:{REGISTRY_PORT},reg2:{REGISTRY_PORT}"
        )
        places = [place.strip() for place in (self.host or "").split(",")]
        fine = all(re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d{1,5})?", place) for place in places)
        self.check("host", bool(self.host) and fine, wanted)
        self.check("transport", self.transport in (None, *transport.SCHEMES), ", ".join(transport.SCHEMES))

    def _check_norm(self) -> None:
        """Ask the engine what its options may be; where they mean nothing they have their defaults."""
        options = {name: getattr(self, name) for name in _NORM_FIELDS}
        if self.has_links:
            del options["window_bytes"]
        _core.check_norm_options(1, group=self.group_address(), port=DEFAULT_PORT, **options)

    def _check_scheme(self) -> None:
        """Refuse options that mean nothing there."""
        known = {
            "inproc": _INPROC_FIELDS,
            "udp": _UDP_FIELDS,
            "locate": (*LINK_FIELDS, *_LOCATE_ONLY),
        }.get(self.scheme, LINK_FIELDS if self.has_links else None)
        for field in dataclasses.fields(self):
            # A router has such links beside its group, and TCP may have to stand in for it.
            has_some = self.router or self.when_no_multicast == "tcp"
            links = () if has_some else (*_LINK_ONLY, *_TLS_FIELDS)
            others = (*_PLACES, *_LOCATE_ONLY, *links)
            means = field.name not in others if known is None else field.name in known
            if means or getattr(self, field.name) == field.default:
                continue
            if field.name in _LOCATE_ONLY:
                raise ConfigError(f"{field.name} means nothing on {self.scheme}://: it is for locate://")
            if known is None:
                also = "" if field.name in _PLACES else ", or for a router, which may have such links"
                raise ConfigError(f"{field.name} means nothing on norm://: it is for tcp:// and such{also}")
            network = {"inproc": "has no network", "udp": "repairs nothing"}.get(
                self.scheme, "has no multicast"
            )
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
        repairs = self.scheme != "udp"
        if self.domain == DEFAULT_DOMAIN:
            return DEFAULT_GROUP if repairs else DEFAULT_UDP_GROUP
        # Organisation-local scope; the default's own address is left out.
        number = int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[:4], "big") % 65_000
        return f"239.{192 if repairs else 193}.{76 + number // 500}.{1 + number % 250}"

    @property
    def has_links(self) -> bool:
        """Whether it is made of links with single programs."""
        return self.scheme not in ("norm", "udp", "inproc")

    def seed_targets(self) -> tuple[Target, ...]:
        """The seeds, one by one."""
        named = [seed.strip() for seed in (self.seeds or "").split(",")]
        found = [target_of(seed if "://" in seed else f"tcp://{seed}", self.port) for seed in named if seed]
        for target in found:
            if target.scheme not in transport.SCHEMES and not transport.is_registered(target.scheme):
                raise ConfigError(f"seeds has {target.url!r}, which is not the URL of a link: use host:port")
        return tuple(found)

    def meeting_port(self) -> int:
        """Where on this machine programs of the domain meet that have no multicast."""
        if self.domain == DEFAULT_DOMAIN or self.port != DEFAULT_PORT:
            return self.port
        # Domains do not meet at one place; below what systems give out themselves.
        return 17_475 + int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[:4], "big") % 10_000

    def target(self) -> Target:
        """Where its first link leads, or where it listens."""
        if self.scheme == "locate":
            return Target("locate", self.host or "", 0, f"/{self.domain}")
        host = self.host or (LOOPBACK if self.scheme in HOSTS else "")
        port = self.port if self.scheme in HOSTS or self.port != DEFAULT_PORT else 0
        return Target(self.scheme, host, port, self.path or "")

    def where(self) -> str:
        """Where it leads, as a URL without options."""
        if self.scheme == "inproc":
            return f"inproc://{self.domain}"
        if self.has_links:
            return self.target().url
        place = self.host or self.group_address()
        address = f"[{place}]" if ":" in place else place
        return f"{self.scheme}://{address}:{self.port}"

    @property
    def is_unicast(self) -> bool:
        """Whether it is NORM between two ends."""
        return self.group is not None and not ipaddress.ip_address(self.group).is_multicast

    def class_marks(self) -> list[tuple[int, int]] | None:
        """DSCP and SO_PRIORITY of priorities 7 to 9, 4 to 6 and 0 to 3; `None` if nothing is marked."""
        found = re.fullmatch(",".join([r"(\d{1,2}):(\d)"] * 3), self.marks)
        numbers = [int(text) for text in found.groups()] if found else []
        pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
        fine = bool(pairs) and all(dscp <= 63 and priority <= 6 for dscp, priority in pairs)
        self.check("marks", fine, f"DSCP:priority (up to 63:6) of three classes, such as {DEFAULT_MARKS}")
        return pairs if self.mark else None

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
    multicast_ttl: int
    mark: bool
    marks: str
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
    send_delay_s: float
    epoch_messages: int | None
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
    cost: int | None
    resume_s: float
    connect_timeout_s: float
    required: bool
    reconnect_max_s: float
    connections_max: int
    tcp_congestion: str
    path: str | None
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_name: str | None
    tls_fingerprint: str | None
    transport: str | None
    registry_ca: str | None
    registry_token_file: str | None
    listen: bool
    when_no_multicast: WhenNoMulticast
    seeds: str | None


_FIELDS = {field.name: field for field in dataclasses.fields(ConnectionConfig)}


def parse_url(url: str | None, **keywords: Any) -> ConnectionConfig:
    """The configuration that a URL and keywords describe together; a keyword may not contradict the URL."""
    options = _options_of(url or "norm://")
    profile = _profile_of(options, keywords)
    for name, value in keywords.items():
        if name not in _FIELDS:
            raise unknown_option(name, _FIELDS)
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name} is {options[name]!r} in the URL and {value!r} as an argument: give one"
            )
        options[name] = value
    if profile is None:
        return ConnectionConfig(**options)
    for name in profile.options:
        if name not in _FIELDS:
            raise ConfigError(f"profile {profile.name!r}: {unknown_option(name, _FIELDS)}")
    try:
        return ConnectionConfig(**{**profile.options, **options})
    except ConfigError as error:
        raise ConfigError(f"with profile {profile.name!r}: {error}") from None


def _profile_of(options: dict[str, Any], keywords: dict[str, Any]) -> Profile | None:
    """The profile that the URL or a keyword names, taken out of both."""
    named = {given.pop("profile") for given in (options, keywords) if "profile" in given}
    if len(named) > 1:
        raise ConfigError(f"profile is {' and '.join(map(repr, sorted(named)))}: give one")
    return load_profile(named.pop()) if named else None


def resolve(
    url: str | None, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ConnectionConfig:
    """The configuration that `connect` was asked for.

    Without a URL `SHOAL_URL` in the environment takes its place; `SHOAL_DOMAIN` is the domain where neither
    the URL nor a keyword names one, and `SHOAL_SEEDS` the seeds where they can be used.
    """
    if url is not None and not isinstance(url, str):
        raise TypeError(
            f"url is {url!r}, and must be a str such as 'norm://', 'tcp://host:port' or 'inproc://name', "
            "or None"
        )
    options = dict(options)
    url = url or environment.get("SHOAL_URL")
    if not url:
        url = "norm://"
        if "scheme" not in options:
            options.setdefault("when_no_multicast", "tcp")
    domain = environment.get("SHOAL_DOMAIN")
    if domain and "domain" not in options and "domain" not in _options_of(url):
        options["domain"] = domain
    config = parse_url(url, **options)
    seeds = environment.get("SHOAL_SEEDS")
    if seeds and config.seeds is None and (config.has_links or config.when_no_multicast == "tcp"):
        config = dataclasses.replace(config, seeds=seeds)
    return config


def resolve_listening(
    url: str, options: Mapping[str, Any], environment: Mapping[str, str] = os.environ
) -> ConnectionConfig:
    """The configuration that `listen` was asked for."""
    if urlsplit(url).scheme == "udp":
        options = {**options, "listen": True}
    config = resolve(url, options, environment)
    if not config.has_links and config.scheme != "udp":
        raise ConfigError(f"{url!r} cannot be listened at: use tcp://address:port")
    if config.required:
        raise ConfigError("required is for connect, which reaches another program: listen waits for others")
    return config


#: Options of `locate://` by their names in a URL.
_LOCATE_NAMES = {"ca": "registry_ca", "token_file": "registry_token_file"}


def _options_of(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if not parts.scheme or "://" not in url:
        hint = f"did you mean 'tcp://{url}'?" if _PLACE.fullmatch(url) else f"it must look like {_LOOKS}"
        raise ConfigError(f"{url!r} is not a URL: {hint}")
    options: dict[str, Any] = {"scheme": parts.scheme}
    if parts.scheme == "inproc":
        if parts.netloc:
            options["domain"] = parts.netloc
    elif parts.scheme == "locate":
        options["host"] = parts.netloc or None
        if parts.path not in ("", "/"):
            options["domain"] = unquote(parts.path[1:])
    elif parts.netloc:
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r}: {error}") from None
        if parts.scheme == "norm" or (parts.scheme == "udp" and _is_group(host)):
            options["group"] = host
        elif host is not None:
            options["host"] = host
        if port is not None:
            options["port"] = port
    if parts.path not in ("", "/") and parts.scheme != "locate":
        if parts.scheme in ("norm", "udp", "inproc", "tcp", "tls"):
            raise ConfigError(f"{url!r} has a path, {parts.path!r}, which means nothing here")
        options["path"] = unquote(parts.path)
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        name = _LOCATE_NAMES.get(name, name) if parts.scheme == "locate" else name
        if name in options:
            raise ConfigError(f"{name} appears twice in {url!r}: give it once")
        options[name] = _value_of(name, text)
    return options


def _is_group(host: str | None) -> bool:
    try:
        return host is None or ipaddress.ip_address(host).is_multicast
    except ValueError:
        return False


def _value_of(name: str, text: str) -> Any:
    field = _FIELDS.get(name)
    if name == "profile":
        return text
    if name == "key":
        raise ConfigError(
            "a key does not belong into a URL, which others see: use key_file, or key as an argument"
        )
    if field is None or name == "scheme":
        raise unknown_option(name, _FIELDS.keys() - {"scheme", "key"}, " in the URL")
    if field.type in (str, str | None) or get_origin(field.type) is Literal:
        return text
    if field.type is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"{name} is {text!r} in the URL, and must be true or false")
        return text == "true"
    kind = int if field.type in WHOLE else float
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r} in the URL, and must be a number") from None
