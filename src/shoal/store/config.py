"""What a store can be told, by keyword or in a TOML file."""

import dataclasses
import ipaddress
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal._core import match_topics
from shoal.bus.options import QueueOptions
from shoal.bus.persistent import check_queue_name
from shoal.bus.queues import declaration
from shoal.bus.store_protocol import queue_name
from shoal.config.checks import Checked, unknown_option
from shoal.errors import ConfigError
from shoal.store.rule import ForwardRule, forward_rules

#: Where the history server listens unless told otherwise.
DEFAULT_FLIGHT_PORT = 7475

_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_UNITS_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_duration(text: str | float, field: str = "keep") -> float:
    """Seconds, from a number of them or a text such as `90s`, `15m`, `12h`, `7d`, `2w`."""
    if isinstance(text, (int, float)) and not isinstance(text, bool):
        return float(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhdw])\s*", str(text))
    if found is None:
        raise ConfigError(f"{field} is {text!r}, and must be a time such as 90s, 15m, 12h, 7d or 2w")
    return float(found[1]) * _UNITS_S[found[2]]


def parse_size(text: str | int, field: str = "keep_bytes") -> int:
    """Bytes, from a number of them or a text such as `500MB` or `10GB`."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B?)\s*", str(text))
    if found is None or found[2] not in _UNITS_BYTES:
        raise ConfigError(f"{field} is {text!r}, and must be a size such as 500MB or 10GB")
    return int(float(found[1]) * _UNITS_BYTES[found[2]])


@dataclass(frozen=True, kw_only=True)
class Rule(Checked):
    """Topics to record, and how long to keep them."""

    #: A pattern: `*` is one level, `>` all that follow.
    pattern: str
    #: Seconds to keep a message at the least; none is as the store's own `keep_s`.
    keep_s: float | None = None
    #: Bytes of messages to keep, about; none is without a limit of its own.
    keep_bytes: int | None = None

    def __post_init__(self) -> None:
        self.check_types()
        # Raises what is wrong with the pattern.
        match_topics([self.pattern], [])
        self.check_range("keep_s", 0.0)
        self.check_range("keep_bytes", 0)


@dataclass(frozen=True, kw_only=True)
class QueueRule:
    """A queue that the store has from its start, with its options: see `Bus.queue`."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class StoreConfig(Checked):
    """One store. Sizes are in bytes, times in seconds."""

    #: The directory, which the store has to itself.
    path: Path
    #: What to record. A topic that several patterns match belongs to the first.
    record: tuple[Rule, ...] = ()
    #: How long to keep a message at the least, where no rule says otherwise; none is for ever.
    keep_s: float | None = None
    #: What all segments together may take; beyond, the oldest go. None is without limit.
    keep_bytes: int | None = None
    #: How long a segment is.
    segment_bytes: int = 64 << 20
    #: Appended and not written yet, at the most.
    buffer_bytes_max: int = 8 << 20
    #: What may wait in memory for a recorder, per pattern.
    queue_bytes_max: int = 16 << 20
    #: How far apart syncs of recorded messages are at the least.
    sync_every_s: float = 0.02
    #: Less free space on the disk than this is warned of.
    warn_free_bytes: int = 2 << 30
    #: With less free space than this nothing more is recorded, until there is more again.
    min_free_bytes: int = 512 << 20
    #: Rows that were staged and not committed for so long are discarded.
    staging_keep_s: float = 86_400.0
    #: Where to serve history over Arrow Flight, such as `127.0.0.1:7475`; port 0 is a free one. None serves
    #: nobody.
    flight: str | None = None
    #: The token file: clients and readers of history must show a token of a principal in it. None asks for
    #: none.
    tokens: Path | None = None
    #: The access rules: what each principal of the token file may do with which destinations. None lets every
    #: principal use all of them.
    access: Path | None = None
    #: Encrypt connections of clients and readers. Without `tls_cert` the store makes a certificate of its own
    #: in its directory, which clients pin by its fingerprint.
    tls: bool = False
    #: A file with the store's certificate (PEM), and one with its key.
    tls_cert: str | None = None
    tls_key: str | None = None
    #: What the store calls itself.
    name: str = "store"
    #: Destinations of persistent messages that this store keeps, topics and names of queues.
    patterns: tuple[str, ...] = (">",)
    #: Queues with options of their own, such as their dead-letter queue.
    queues: tuple[QueueRule, ...] = ()
    #: What it forwards to other stores.
    forward: tuple[ForwardRule, ...] = ()
    #: Where clients connect: `HOST:PORT`, port 0 being a free one; `off` lets none connect by TCP. None is a
    #: free port of the domain's interface.
    listen: str | None = None

    def __post_init__(self) -> None:
        self.check("path", isinstance(self.path, Path), "a path")
        self.check(
            "record",
            isinstance(self.record, tuple) and all(isinstance(rule, Rule) for rule in self.record),
            "rules",
        )
        self.check(
            "patterns",
            isinstance(self.patterns, tuple)
            and bool(self.patterns)
            and all(isinstance(each, str) for each in self.patterns),
            "patterns",
        )
        # Raises what is wrong with a pattern.
        match_topics(list(self.patterns), [])
        for pattern in self.patterns:
            if (queue := queue_name(pattern)) is not None:
                raise ConfigError(f"patterns has {pattern!r}: a store keeps a queue by its name, {queue!r}")
        if self.listen is not None and self.listen != "off":
            self.listen_address()
        self.check("tokens", self.tokens is None or isinstance(self.tokens, Path), "a file, or None")
        self.check("access", self.access is None or isinstance(self.access, Path), "a file, or None")
        self.check(
            "access",
            self.access is None or self.tokens is not None,
            "given beside tokens: rules are about the principals of a token file",
        )
        self.check("tls_cert", (self.tls_cert is None) == (self.tls_key is None), "given beside tls_key")
        self.check_types()
        self.check_range("keep_s", 0.0)
        self.check_range("keep_bytes", 0)
        self.check_range("segment_bytes", 16 << 10, 1 << 30)
        self.check_range("buffer_bytes_max", 64 << 10, 1 << 30)
        self.check_range("queue_bytes_max", 64 << 10, 1 << 30)
        self.check_range("sync_every_s", 0.0, 10.0)
        self.check_range("min_free_bytes", 0)
        self.check_range("warn_free_bytes", self.min_free_bytes)
        self.check_range("staging_keep_s", 1.0)
        if self.flight is not None:
            self.flight_address()
        patterns = [rule.pattern for rule in self.record]
        self.check("record", len(set(patterns)) == len(patterns), "patterns that differ")

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.tls or self.tls_cert is not None

    def flight_address(self) -> tuple[str, int]:
        """Where to listen."""
        host, _, port = (self.flight or "").rpartition(":")
        self.check("flight", bool(host) and port.isdecimal() and int(port) < 65_536, "HOST:PORT")
        return host, int(port)

    def listen_address(self) -> tuple[str, int]:
        """Where clients connect, if that was said."""
        host, _, port = (self.listen or "").rpartition(":")
        self.check("listen", bool(host) and port.isdecimal() and int(port) < 65_536, "HOST:PORT or off")
        return host.strip("[]"), int(port)


def resolve(path: str | Path, record: Any = (), **options: Any) -> StoreConfig:
    """The configuration that keywords describe: texts such as `keep="7d"` are understood."""
    names = {field.name for field in dataclasses.fields(StoreConfig)} | {"keep"}
    for name in options:
        if name not in names:
            raise unknown_option(name, names)
    if "keep" in options:
        keep = options.pop("keep")
        options["keep_s"] = None if keep is None else parse_duration(keep)
    for name in ("keep_bytes", "segment_bytes", "warn_free_bytes", "min_free_bytes"):
        if options.get(name) is not None:
            options[name] = parse_size(options[name], name)
    if isinstance(options.get("patterns"), str):
        options["patterns"] = (options["patterns"],)
    elif "patterns" in options:
        options["patterns"] = tuple(options["patterns"])
    if "queues" in options:
        options["queues"] = queue_rules(options["queues"])
    if "forward" in options:
        options["forward"] = forward_rules(_with_sizes(options["forward"]))
    for name in ("tokens", "access"):
        if options.get(name) is not None:
            options[name] = Path(options[name])
    if not isinstance(path, (str, Path)) or not str(path):
        raise ConfigError(f"store is {path!r}, and must be a directory")
    return StoreConfig(path=Path(path), record=rules(record), **options)


def _with_sizes(forward: Any) -> Any:
    """Rules whose sizes are numbers of bytes."""
    name = "backlog_max_bytes"
    if isinstance(forward, (str, bytes, Mapping)):
        return forward
    return [
        {**each, name: parse_size(each[name], name)} if isinstance(each, Mapping) and each.get(name) else each
        for each in forward
    ]


def queue_rules(queues: Any) -> tuple[QueueRule, ...]:
    """Queues from mappings with `name` and the options of `Bus.queue`."""
    if isinstance(queues, (str, bytes, Mapping)):
        raise ConfigError(f"queues is {queues!r:.100}, and must be a list of tables with a name")
    return tuple(_queue_rule(each) for each in queues)


def _queue_rule(each: Any) -> QueueRule:
    if isinstance(each, QueueRule):
        return each
    if not isinstance(each, Mapping) or "name" not in each:
        raise ConfigError(f"queues has {each!r:.100}, and must have tables with a name")
    known = (*QueueOptions.__annotations__, "name")
    for name in each:
        if name not in known:
            raise unknown_option(name, known, " in queues")
    check_queue_name(each["name"])
    given = {name: value for name, value in each.items() if name != "name"}
    for name in ("expires_after_s", "backoff_s", "backoff_max_s"):
        if name in given:
            given[name] = parse_duration(given[name], name)
    if "backlog_max_bytes" in given:
        given["backlog_max_bytes"] = parse_size(given["backlog_max_bytes"], "backlog_max_bytes")
    return QueueRule(name=each["name"], options=declaration(**given))


def rules(record: Any) -> tuple[Rule, ...]:
    """Rules from patterns, or from mappings with `pattern`, `keep` and `keep_bytes`."""
    if isinstance(record, (str, Rule, Mapping)):
        record = [record]
    return tuple(_rule(each) for each in record)


def _rule(each: Any) -> Rule:
    if isinstance(each, Rule):
        return each
    if isinstance(each, str):
        return Rule(pattern=each)
    if not isinstance(each, Mapping):
        raise ConfigError(f"record has {each!r}, and must have patterns such as 'prices/>', or tables")
    known = ("pattern", "keep", "keep_bytes")
    for name in each:
        if name not in known:
            raise unknown_option(name, known, " in record")
    if "pattern" not in each:
        raise ConfigError(f"record has {dict(each)!r}, which names no pattern")
    keep, keep_bytes = each.get("keep"), each.get("keep_bytes")
    return Rule(
        pattern=each["pattern"],
        keep_s=None if keep is None else parse_duration(keep),
        keep_bytes=None if keep_bytes is None else parse_size(keep_bytes),
    )


def with_paths(options: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """Options in which the token files of rules are beside the file that names them."""
    rules_ = options.get("forward")
    if not isinstance(rules_, list):
        return dict(options)
    named = [
        {**each, "token_file": str(directory / each["token_file"])}
        if isinstance(each, Mapping) and isinstance(each.get("token_file"), str)
        else each
        for each in rules_
    ]
    return {**options, "forward": named}


def load_toml(path: Path) -> tuple[StoreConfig, dict[str, Any]]:
    """A store's configuration from a file: that of the store, and how it connects.

    The table `[connection]` has the options of `connect`; all else is the store's.
    """
    try:
        with path.open("rb") as file:
            options = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is no TOML: {error}") from None
    connection = options.pop("connection", {})
    if not isinstance(connection, dict):
        raise ConfigError(f"connection is {connection!r} in {path}, and must be a table")
    data = options.pop("data", None)
    if data is None:
        raise ConfigError(f"{path} names no directory: add a line such as data = './data'")
    for name in ("tokens", "access", "tls_cert", "tls_key"):
        if isinstance(options.get(name), str):
            options[name] = str(path.parent / options[name])
    options = with_paths(options, path.parent)
    return resolve(path.parent / data, options.pop("record", ()), **options), connection


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach an address."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
