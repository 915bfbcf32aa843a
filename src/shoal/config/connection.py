"""What a connection can be told."""

import dataclasses
import hashlib
import ipaddress
import re
from dataclasses import dataclass
from typing import Literal, TypedDict

from shoal import _core
from shoal.config import schemes
from shoal.config.checks import Checked
from shoal.config.fingerprints import fingerprint_bytes
from shoal.config.keys import check_key
from shoal.config.norm import Congestion
from shoal.config.option import On, check_ranges, option, options_of
from shoal.config.target import HOSTS, LOOPBACK, Target, check_host, target_of
from shoal.errors import ConfigError

#: Default group; a domain other than the default one gets a group of its own beside it.
DEFAULT_GROUP = "239.192.74.1"
#: The same without repair: the two must not hear each other.
DEFAULT_UDP_GROUP = "239.192.74.2"
#: Expedited forwarding, assured forwarding 4.1 and best effort.
DEFAULT_MARKS = "46:6,34:4,0:0"
#: Not assigned by IANA.
DEFAULT_PORT = 7474
DEFAULT_DOMAIN = "default"
#: Where a registry listens by default.
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
_SCHEMES = ("norm", "udp", *schemes.SCHEMES, "locate", "inproc")
#: What URLs look like.
LOOKS = (
    "norm://, udp://, tcp://host:port, tls://host:port, ws://host:port, wss://host:port, "
    "locate://registry:port/domain or inproc://name"
)
#: The kernel lets a socket join 20 (igmp_max_memberships).
GROUPS_MAX = 16
#: How far the addresses of groups are from that of their domain, whose neighbours are other domains.
_GROUPS_AWAY = 2 << 16
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
#: What an option is for: links with single programs, any network, where nothing is lost, and everything.
_LINKS = On.LINKS | On.LOCATE
_NETWORK = On.NORM | On.UDP | _LINKS
_RELIABLE = On.NORM | _LINKS | On.INPROC
_ANY = _NETWORK | On.INPROC
#: Data in one datagram of `udp`, unless an option says otherwise.
UDP_SEGMENT_BYTES = 1400


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Checked):
    """One connection. Sizes are in bytes, times in seconds."""

    #: How to reach others: `norm` (reliable multicast), `udp` (best effort), `tcp`, `tls`, `ws`, `wss`, a
    #: scheme that `shoal.link.register` knows, or `inproc` (this process alone).
    scheme: str = option("norm", _ANY)
    #: The set of nodes to talk to; it chooses the group unless `group` is given. For `inproc`, its name.
    domain: str = option(DEFAULT_DOMAIN, _ANY)
    #: Multicast group, IPv4 or IPv6, or the address of the one other end; by default derived from the domain.
    group: str | None = option(None, On.NORM | On.UDP)
    #: UDP port of the group, or TCP port of the other end; 0 listens on a free one.
    port: int = option(DEFAULT_PORT, _NETWORK)
    #: Between two ends by NORM: the port to listen on, if it is not `port`.
    listen_port: int | None = option(None, On.NORM, engine=True)
    #: Over TCP: the name or address of the other end, or the address to listen at; this machine if not given.
    #: Over `udp`: the same, instead of a group.
    host: str | None = option(None, On.UDP | _LINKS)
    #: Over `udp` with a host: let others connect to it, instead of connecting; `shoal.listen` says so.
    listen: bool = option(False, On.UDP)
    #: The path of a `ws://` or `wss://` URL, or of a link of your own.
    path: str | None = option(None, _LINKS)
    #: One more than the routers that multicast may pass: 1 stays in the local network.
    multicast_ttl: int = option(1, On.NORM | On.UDP, engine=True)
    #: Multicast groups beside the domain's own, up to 16, over which topics are spread by their first level.
    #: A node receives the groups of its subscriptions. All nodes of a domain have the same number.
    groups: int = option(0, On.NORM, least=0, most=GROUPS_MAX)
    #: With `groups`: first levels of topics whose group is not drawn but chosen, such as `fx=3,orders=0`. All
    #: nodes of a domain choose the same.
    assigned_groups: str | None = option(None, On.NORM)
    #: Whether datagrams are marked by priority class, for switches (DSCP) and the queues of this machine
    #: (SO_PRIORITY).
    mark: bool = option(False, On.NORM | On.UDP)
    #: With `mark`: DSCP (0 to 63) and SO_PRIORITY (0 to 6) of priorities 7 to 9, 4 to 6 and 0 to 3.
    marks: str = option(DEFAULT_MARKS, On.NORM | On.UDP)
    #: A network interface by name or address, or `auto`.
    interface: str = option("auto", On.NORM | On.UDP)
    #: What publishing does when the send buffer is full.
    when_full: WhenFull = option("block", _ANY)
    #: How often to say that we are here (TI).
    heartbeat_s: float = option(4.0, _NETWORK, above=0, most=SECONDS_MAX)
    #: After how many missed heartbeats a node counts as dead (MH).
    missed_heartbeats_max: int = option(5, _NETWORK, least=1, most=MISSED_MAX)
    #: A member that makes no progress for this time no longer holds publishers back.
    slow_after_s: float = option(0.5, _RELIABLE, above=0, most=SECONDS_MAX)
    #: What then: `expel` goes on without it, with a loss report; `wait` holds publishers back while it lives.
    when_slow: WhenSlow = option("expel", _RELIABLE)
    #: Data in one datagram; `None` is as much as a packet of the interface takes, and not more than 8 KB.
    segment_bytes: int | None = option(None, On.NORM | On.UDP, engine=True, least=64, most=65_000)
    #: Sent ahead of the slowest member, at the most.
    window_bytes: int = option(1 << 20, On.NORM | _LINKS, engine=True)
    #: Kept for repair, per priority class.
    cache_bytes: int = option(4 << 20, On.NORM, engine=True)
    #: Buffered ahead of the reader, per sender and priority class.
    receive_window_bytes: int = option(4 << 20, On.NORM, engine=True, least=65_536)
    #: What to ask the kernel for.
    receive_buffer_bytes: int = option(8 << 20, On.NORM | On.UDP, engine=True, least=65_536)
    #: The rate to send at; `None` is as fast as members take it.
    rate_bytes_per_s: float | None = option(None, On.NORM | On.UDP, engine=True)
    #: What decides the rate: `fixed` is `rate_bytes_per_s` and the members' window alone; with `nack_driven`,
    #: `norm_cc`, which shares a path as TCP does, and `delivery`, for a long path to one other end that loses
    #: packets, `rate_bytes_per_s` is the most.
    congestion: Congestion = option("fixed", On.NORM, engine=True)
    #: The least time from one datagram of data to the next (SD); 0 delays nothing.
    send_delay_s: float = option(0.0, On.NORM, engine=True)
    #: Messages after which members are asked for acknowledgement (ES); `None` asks after an eighth of the
    #: window.
    epoch_messages: int | None = option(None, On.NORM, engine=True)
    #: The least rate that rate control may choose.
    rate_min_bytes_per_s: float = option(0.0, On.NORM, engine=True)
    #: Reed-Solomon parity that a block of segments can have; 0 repairs with the lost segments themselves.
    parity_symbols: int = option(0, On.NORM, engine=True)
    #: How many of them follow each block unasked, against loss that would take a round trip to repair.
    auto_parity: int = option(0, On.NORM, engine=True)
    #: Segments of a block, 255 together with its parity.
    block_symbols: int = option(64, On.NORM, engine=True)
    #: The longest message.
    message_bytes_max: int = option(128 << 20, _ANY, engine=True)
    #: Parts of messages whose end has not come yet, of all senders together; beyond it messages are lost, and
    #: `Unreadable` tells of it.
    assembly_bytes_max: int = option(256 << 20, _NETWORK)
    #: Back-off factor K of NORM's repair requests: 0 suits few members, 4 many.
    backoff_factor: int = option(1, On.NORM, engine=True)
    #: The key that all members share, as `shoal keys new` makes it: every datagram is encrypted and
    #: authenticated.
    key: str | None = option(None, On.NORM, repr=False)
    #: A file that only its owner can read, with a key in each line: the first encrypts, all of them decrypt.
    #: `SHOAL_KEY_FILE` names one where neither is given.
    key_file: str | None = option(None, On.NORM)
    #: Share of received datagrams to throw away, to try a program under loss.
    drop_received: float = option(0.0, On.NORM, engine=True)
    #: Whether what comes over one link is passed on to the others that want it. `Bus.connect` and
    #: `Bus.listen` make more links.
    router: bool = option(False, On.NORM | _LINKS)
    #: What a step over its link costs, or over each that it makes at first: routers take the cheapest way.
    #: `None` is 1 for a group and 2 for a link with one program.
    cost: int | None = option(None, On.NORM | _LINKS, least=1, most=COST_MAX)
    #: Over TCP: how long a link whose connection is gone is kept for another connection to go on with.
    resume_s: float = option(10.0, _LINKS | On.BESIDE, least=0, most=SECONDS_MAX)
    #: Over TCP: how long an attempt to connect may take.
    connect_timeout_s: float = option(5.0, _LINKS | On.BESIDE, above=0, most=SECONDS_MAX)
    #: Over TCP: whether `connect` raises `LinkError` if the first attempt fails. Otherwise it goes
    #: on trying in the background.
    required: bool = option(False, _LINKS | On.BESIDE)
    #: Over TCP: the longest wait between two attempts to connect; the first is 0.05 s, each twice the last.
    reconnect_max_s: float = option(30.0, _LINKS | On.BESIDE, above=0, most=SECONDS_MAX)
    #: Over TCP: how many connections a listener has at the most, and links a node; others are turned away.
    connections_max: int = option(1000, On.UDP | _LINKS | On.BESIDE, least=1, most=CONNECTIONS_MAX)
    #: Over TCP and TLS: what decides the rate, as the kernel calls it, such as `bbr` or `cubic`. `auto` asks
    #: for `bbr` where the other end is on another machine and the kernel has it, `system` asks for nothing.
    tcp_congestion: str = option("auto", _LINKS | On.BESIDE)
    #: Over TLS: a file with the certificates of the authorities that sign those of others (PEM); the system's
    #: if not given. If it is given, programs that connect to a listener have to show a certificate, too.
    tls_ca: str | None = option(None, _LINKS | On.BESIDE)
    #: Over TLS: a file with our certificate, which every listener needs.
    tls_cert: str | None = option(None, _LINKS | On.BESIDE)
    #: Over TLS: a file with the key of our certificate.
    tls_key: str | None = option(None, _LINKS | On.BESIDE)
    #: Over TLS: the name that the certificate of the other end must have; the URL's host if not given.
    tls_name: str | None = option(None, _LINKS | On.BESIDE)
    #: Over TLS: the SHA-256 fingerprint of the one certificate that the other end may have, by any signer
    #: and whatever its name.
    tls_fingerprint: str | None = option(None, _LINKS | On.BESIDE)
    #: Of listeners: a file with access rules (TOML), which bind the programs that connect there.
    access: str | None = option(None, _LINKS | On.BESIDE)
    #: Over `locate`: how to connect to the daemon that a registry chooses, such as `tls`; any way otherwise.
    transport: str | None = option(None, On.LOCATE)
    #: Over `locate`: a file with the authority of the registries' certificates; in a URL, `ca`.
    registry_ca: str | None = option(None, On.LOCATE)
    #: Over `locate`: a file with the token to show them; in a URL, `token_file`. `SHOAL_TOKEN_FILE` names one
    #: where nothing else does.
    registry_token_file: str | None = option(None, On.LOCATE)
    #: What to do where multicast does not work: `error` raises, `tcp` connects to the seeds, or lets the
    #: programs of this machine meet. It is `tcp` where `connect` is given no URL.
    when_no_multicast: WhenNoMulticast = option("error", On.NORM)
    #: Where to connect by TCP then, or beside the URL's host: `host`, `host:port` or URLs, with commas
    #: between. `SHOAL_SEEDS` names some where nothing else does.
    seeds: str | None = option(None, On.NORM | _LINKS)

    def __post_init__(self) -> None:
        if self.scheme not in (*_SCHEMES, *schemes.registered):
            other = _OTHERS.get(self.scheme)
            hint = f"Shoal does not speak with {other}. Use" if other else "use"
            raise ConfigError(f"unknown scheme {self.scheme!r}: {hint} {LOOKS}")
        self._check_scheme()
        self.check_types()
        check_host(self.host)
        check_ranges(self)
        self.check("tls_cert", (self.tls_cert is None) == (self.tls_key is None), "given beside tls_key")
        if self.tls_fingerprint is not None:
            fingerprint_bytes(self.tls_fingerprint)
            self.check("tls_ca", self.tls_ca is None, "left out beside tls_fingerprint")
        self.check("domain", bool(self.domain) and len(self.domain) <= 255, "a name of 1 to 255 characters")
        self.check_range("port", 0 if self.has_links else 1, 65535)
        self.check(
            "tcp_congestion", 0 < len(self.tcp_congestion) < 16, "auto, system or a name of 1 to 15 letters"
        )
        self.check_range("window_bytes", 65_536, TCP_WINDOW_BYTES_MAX if self.has_links else None)
        self.check(
            "assembly_bytes_max",
            self.message_bytes_max <= self.assembly_bytes_max <= ASSEMBLY_BYTES_MAX,
            f"at least message_bytes_max, and at most {ASSEMBLY_BYTES_MAX}",
        )
        self.check("marks", self.mark or self.marks == DEFAULT_MARKS, "left out unless mark is true")
        self.class_marks()
        self._check_groups()
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
        self.check("transport", self.transport in (None, *schemes.SCHEMES), ", ".join(schemes.SCHEMES))

    def _check_groups(self) -> None:
        if not self.groups:
            self.check("assigned_groups", self.assigned_groups is None, "left out unless groups is given")
            return
        self.check("groups", not self.is_unicast, "left out between two ends")
        why = "left out for a router, which brings messages from networks without groups"
        self.check("groups", not self.router, why)
        self.group_levels()
        self.groups_addresses()

    def _check_norm(self) -> None:
        """Ask the engine what its options may be; where they mean nothing they have their defaults."""
        options = {name: getattr(self, name) for name, known in OPTIONS.items() if known.engine}
        if self.has_links:
            del options["window_bytes"]
        _core.check_norm_options(1, group=self.group_address(), port=DEFAULT_PORT, **options)

    def _check_scheme(self) -> None:
        """Refuse options that mean nothing there."""
        kind = self.kind
        for field in dataclasses.fields(self):
            on = OPTIONS[field.name].on
            if on & kind or getattr(self, field.name) == field.default:
                continue
            if on == On.LOCATE:
                raise ConfigError(f"{field.name} means nothing on {self.scheme}://: it is for locate://")
            if kind & On.NORM:
                also = ", or for a router, which may have such links" if on & On.BESIDE else ""
                raise ConfigError(f"{field.name} means nothing on norm://: it is for tcp:// and such{also}")
            network = {"inproc": "has no network", "udp": "repairs nothing"}.get(
                self.scheme, "has no multicast"
            )
            counts = [name for name, known in OPTIONS.items() if known.on & kind and name != "scheme"]
            raise ConfigError(
                f"{field.name} means nothing on {self.scheme}://, which {network}: leave it out "
                f"(what counts there is {', '.join(counts)})"
            )

    @property
    def kind(self) -> On:
        """What options it can be told: those of its scheme, and of links that it may have beside a group."""
        if self.scheme == "norm":
            return On.NORM | On.BESIDE if self.router or self.when_no_multicast == "tcp" else On.NORM
        return {"udp": On.UDP, "inproc": On.INPROC, "locate": On.LOCATE}.get(self.scheme, On.LINKS)

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

    def groups_addresses(self) -> list[str]:
        """The groups over which topics are spread, by number."""
        own = ipaddress.ip_address(self.group_address())
        first = int(own) + (1 if self.group is not None or own.version == 6 else _GROUPS_AWAY)
        found = [type(own)(first + number) for number in range(self.groups)]
        fine = all(address.is_multicast for address in found)
        self.check("group", fine, f"an address with {self.groups} multicast addresses behind it for groups")
        return [str(address) for address in found]

    def group_levels(self) -> list[tuple[str, int]]:
        """First levels of topics and the groups that were chosen for them."""
        wanted = f"levels and groups below {self.groups}, such as fx=3,orders=0"
        found: dict[str, int] = {}
        for text in (self.assigned_groups or "").split(","):
            if not text:
                continue
            level, _, number = text.partition("=")
            fine = level and not set(level) & set("/*>") and number.isdecimal() and int(number) < self.groups
            self.check("assigned_groups", bool(fine) and found.get(level) in (None, int(number)), wanted)
            found[level] = int(number)
        return [*found.items()]

    @property
    def has_links(self) -> bool:
        """Whether it is made of links with single programs."""
        return self.scheme not in ("norm", "udp", "inproc")

    def seed_targets(self) -> tuple[Target, ...]:
        """The seeds, one by one."""
        named = [seed.strip() for seed in (self.seeds or "").split(",")]
        found = [target_of(seed if "://" in seed else f"tcp://{seed}", self.port) for seed in named if seed]
        for target in found:
            if target.scheme not in (*schemes.SCHEMES, *schemes.registered):
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


#: What is known of each option.
OPTIONS = options_of(ConnectionConfig)


class ConnectionOptions(TypedDict, total=False):
    """The keywords of `connect`; `ConnectionConfig` says what each means."""

    scheme: str
    domain: str
    group: str | None
    port: int
    listen_port: int | None
    host: str | None
    multicast_ttl: int
    groups: int
    assigned_groups: str | None
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
    access: str | None
    transport: str | None
    registry_ca: str | None
    registry_token_file: str | None
    listen: bool
    when_no_multicast: WhenNoMulticast
    seeds: str | None
