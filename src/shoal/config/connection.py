"""What a connection can be told, by URL or by keyword."""

import dataclasses
import hashlib
import ipaddress
import math
from dataclasses import dataclass
from typing import Any, Literal, get_args
from urllib.parse import parse_qsl, urlsplit

from shoal.errors import ConfigError

#: Default group; a domain other than the default one gets a group of its own beside it.
DEFAULT_GROUP = "239.192.74.1"
#: Not assigned by IANA.
DEFAULT_PORT = 7474
DEFAULT_DOMAIN = "default"

WhenFull = Literal["block", "drop", "error"]
_SCHEMES = ("norm", "inproc")
_LATER_SCHEMES = ("udp", "tcp", "tls", "locate")
#: What a connection without a network can be told.
_INPROC_FIELDS = ("scheme", "domain", "when_full", "slow_after_s", "message_bytes_max")


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig:
    """One connection. Sizes are in bytes, times in seconds."""

    #: How to reach others: `norm` (reliable multicast) or `inproc` (this process alone).
    scheme: str = "norm"
    #: The set of nodes to talk to; it chooses the group unless `group` is given. For `inproc`, its name.
    domain: str = DEFAULT_DOMAIN
    #: Multicast group, IPv4 or IPv6; derived from the domain if not given.
    group: str | None = None
    #: UDP port of the group.
    port: int = DEFAULT_PORT
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
    #: Data in one datagram; none is as much as a packet of the interface takes, and not more than 8 KB.
    segment_bytes: int | None = None
    #: Sent ahead of the slowest member, at the most.
    window_bytes: int = 1 << 20
    #: Kept for repair, per priority class.
    cache_bytes: int = 4 << 20
    #: Buffered ahead of the reader, per sender and priority class.
    receive_window_bytes: int = 4 << 20
    #: What to ask the kernel for.
    receive_buffer_bytes: int = 8 << 20
    #: The rate to send at; none is as fast as members take it.
    rate_bytes_per_s: float | None = None
    #: The longest message.
    message_bytes_max: int = 128 << 20
    #: Parts of messages whose end has not come yet, of all senders together; beyond it messages are lost, and
    #: `Unreadable` tells of it.
    assembly_bytes_max: int = 256 << 20
    #: Back-off factor K of NORM's repair requests: 0 suits few members, 4 many.
    backoff_factor: int = 1

    def __post_init__(self) -> None:
        if self.scheme in _LATER_SCHEMES:
            raise ConfigError(
                f"the scheme {self.scheme}:// is not available yet: use norm:// or inproc://name"
            )
        if self.scheme not in _SCHEMES:
            raise ConfigError(f"unknown scheme {self.scheme!r}: use norm:// or inproc://name")
        if self.scheme == "inproc":
            self._check_inproc()
        self._check_types()
        self._check("domain", bool(self.domain) and len(self.domain) <= 255, "a name of 1 to 255 characters")
        self._check("port", 1 <= self.port <= 65535, "from 1 to 65535")
        self._check("when_full", self.when_full in get_args(WhenFull), "block, drop or error")
        for field in ("heartbeat_s", "slow_after_s"):
            self._check(field, getattr(self, field) > 0, "more than 0")
        self._check("missed_heartbeats_max", self.missed_heartbeats_max >= 1, "at least 1")
        if self.segment_bytes is not None:
            self._check("segment_bytes", 64 <= self.segment_bytes <= 65_000, "from 64 to 65000, or none")
        self._check("backoff_factor", 0 <= self.backoff_factor <= 15, "from 0 to 15")
        for field in ("window_bytes", "cache_bytes", "receive_window_bytes", "receive_buffer_bytes"):
            self._check(field, getattr(self, field) >= 65_536, "at least 65536")
        self._check("window_bytes", self.window_bytes <= self.cache_bytes, "at most cache_bytes")
        self._check("message_bytes_max", 1 <= self.message_bytes_max < 1 << 28, f"from 1 to {(1 << 28) - 1}")
        self._check(
            "assembly_bytes_max",
            self.assembly_bytes_max >= self.message_bytes_max,
            "at least message_bytes_max",
        )
        if self.rate_bytes_per_s is not None:
            self._check("rate_bytes_per_s", self.rate_bytes_per_s >= 1, "at least 1, or none")
        if self.group is not None:
            self._check_group(self.group)

    def _check_inproc(self) -> None:
        for field in dataclasses.fields(self):
            if field.name not in _INPROC_FIELDS and getattr(self, field.name) != field.default:
                raise ConfigError(
                    f"{field.name} means nothing on inproc://, which has no network: leave it out "
                    f"(what counts there is {', '.join(_INPROC_FIELDS[1:])})"
                )

    def _check_types(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is None and "None" in str(field.type):
                continue
            if field.type in _WHOLE:
                fine = isinstance(value, int) and not isinstance(value, bool)
                self._check(field.name, fine, "a whole number")
            elif "float" in getattr(field.type, "__name__", str(field.type)):
                fine = (
                    isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
                )
                self._check(field.name, fine, "a number")
            else:
                self._check(field.name, isinstance(value, str) and bool(value), "a text that is not empty")

    def _check(self, field: str, fine: bool, wanted: str) -> None:
        if not fine:
            raise ConfigError(f"{field} is {getattr(self, field)!r}, and must be {wanted}")

    def _check_group(self, group: str) -> None:
        try:
            address = ipaddress.ip_address(group)
        except ValueError:
            raise ConfigError(
                f"group is {group!r}, and must be an IP address such as {DEFAULT_GROUP}"
            ) from None
        self._check("group", address.is_multicast, "a multicast address, 224.0.0.0/4 or ff00::/8")

    def group_address(self) -> str:
        """The group: as given, or derived from the domain."""
        if self.group is not None:
            return self.group
        if self.domain == DEFAULT_DOMAIN:
            return DEFAULT_GROUP
        # Organisation-local scope; the default's own address is left out.
        number = int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[:4], "big") % 65_000
        return f"239.192.{76 + number // 500}.{1 + number % 250}"

    def domain_number(self) -> int:
        """What tells the domain's nodes from those of another one that happens to have the same group."""
        return int.from_bytes(hashlib.sha256(self.domain.encode()).digest()[4:12], "big")


#: Types of fields that take whole numbers.
_WHOLE = (int, int | None)
_FIELDS = {field.name: field for field in dataclasses.fields(ConnectionConfig)}


def parse_url(url: str | None, **keywords: Any) -> ConnectionConfig:
    """The configuration that a URL and keywords describe together; a keyword may not contradict the URL."""
    options = _options_of(url or "norm://")
    for name, value in keywords.items():
        if name not in _FIELDS:
            raise ConfigError(f"unknown option {name!r}: the options are {', '.join(sorted(_FIELDS))}")
        if name in options and options[name] != value:
            raise ConfigError(
                f"{name} is {options[name]!r} in the URL and {value!r} as an argument: give one"
            )
        options[name] = value
    return ConnectionConfig(**options)


def _options_of(url: str) -> dict[str, Any]:
    parts = urlsplit(url)
    if not parts.scheme or "://" not in url:
        raise ConfigError(f"{url!r} is not a URL: it must look like norm:// or inproc://name")
    options: dict[str, Any] = {"scheme": parts.scheme}
    if parts.scheme == "inproc":
        if parts.netloc:
            options["domain"] = parts.netloc
    elif parts.netloc:
        try:
            options["group"], port = parts.hostname, parts.port
        except ValueError as error:
            raise ConfigError(f"{url!r}: {error}") from None
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
    if field is None or name == "scheme":
        raise ConfigError(f"unknown option {name!r} in the URL: the options are {', '.join(sorted(_FIELDS))}")
    if field.type is str or name in ("group", "when_full"):
        return text
    kind = int if field.type in _WHOLE else float
    try:
        return kind(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r} in the URL, and must be a number") from None
