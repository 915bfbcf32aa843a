"""What `option(…)` may say to the format `shoal`, for reading and for writing.

Names are Kafka's where they mean the same. Spark compares names of options without regard to case and passes
all values as text. An option that is not known, or cannot work, raises `ConfigError`: it names the option and
says what is accepted.
"""

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TypeVar

from shoal.bus.store_protocol import queue_topic
from shoal.errors import ConfigError, ShoalError
from shoal.selector import Selector
from shoal.spark.offsets import Boundary, parse_boundary

#: Where a store listens by default.
DEFAULT_STORE = "grpc://127.0.0.1:7475"

#: A task reads about this many rows, so that small micro-batches are one task and large reads use all cores.
PARTITION_ROWS = 500_000

#: Options that belong to Spark itself and reach the source or the sink all the same.
_SPARKS_OWN = frozenset({"checkpointlocation", "queryname", "outputmode"})

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class StoreOptions:
    """Which store is spoken to, and for how long it may be away.

    Attributes:
        store: the address of its history (`grpc://host:port`), or its directory on this machine.
        token: what proves that this query may read or write; Spark shows options, so better in a file.
        fingerprint: the fingerprint of the store's certificate, over TLS.
        token_file: a file with the token, on the driver and on every executor; `SHOAL_TOKEN_FILE` names one.
        domain: the domain that the store must belong to, if given; in live mode, the one to join.
        timeout_s: how long the query waits for a store that does not answer, for instance one that restarts.
        replicas: addresses of members that follow the store; tasks read from them what they have.
    """

    store: str
    token: str | None = field(repr=False)
    token_file: str | None
    fingerprint: str | None
    domain: str | None
    timeout_s: float
    replicas: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """How the format reads. See the module for the names the options have in Spark.

    Attributes:
        at: the store.
        topics: patterns of topics; empty if `topic_regex` is given.
        queue: a queue instead of topics; `topics` then has its destination.
        topic_regex: a regular expression that whole topics must match.
        selector: a condition on headers and properties.
        columns: the columns to read, in this order; none for all.
        include_properties: whether the column `properties` is among them.
        property_schema: names and types of properties that become columns, as Spark writes a schema.
        body_schema: names and types of the fields of JSON bodies that become columns.
        starting: where a query without a checkpoint begins; none where the default of batch or stream holds.
        ending: where a batch ends.
        max_rows: the most messages of one micro-batch.
        max_bytes: the most bytes of messages in one micro-batch.
        min_rows: a micro-batch waits for as many messages …
        max_trigger_delay_s: … but not longer than this.
        min_partitions: at least as many tasks for each micro-batch or batch.
        partition_rows_max: no task reads more messages.
        fail_on_data_loss: whether a range that the store no longer has ends the query.
        subscription: a name under which the store keeps what the query has not read yet.
        live: read from the network instead of from a store.
        bus: in live mode, how the network is joined, as `shoal.connect` takes it.
        push_filters: whether the store checks Spark's filters; for a DataFrame that one query uses.
        gaps: read the store's records of what it missed, instead of messages.
    """

    at: StoreOptions
    topics: tuple[str, ...]
    queue: str | None
    topic_regex: str | None
    selector: str | None
    columns: tuple[str, ...] | None
    include_properties: bool
    property_schema: str | None
    body_schema: str | None
    starting: Boundary | None
    ending: Boundary | None
    max_rows: int | None
    max_bytes: int | None
    min_rows: int | None
    max_trigger_delay_s: float
    min_partitions: int | None
    partition_rows_max: int
    fail_on_data_loss: bool
    subscription: str | None
    live: bool
    bus: str | None
    push_filters: bool
    gaps: bool


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """How the format writes.

    Attributes:
        at: the store.
        topic: where rows go that have no topic of their own.
        queue: the queue to which all rows go; `topic` then is its destination.
        exactly_once: whether the rows of a micro-batch become visible together and once.
        write_id: names a series of batch writes, so that doing one again changes nothing.
        write_number: the place of this write in its series; one below the highest written is taken as done.
    """

    at: StoreOptions
    topic: str | None
    queue: str | None
    exactly_once: bool
    write_id: str | None
    write_number: int


_STORE_NAMES = ("store", "token", "tokenFile", "fingerprint", "domain", "storeTimeout")
READ_NAMES = (
    *_STORE_NAMES,
    "replica",
    "subscribe",
    "subscribePattern",
    "queue",
    "selector",
    "columns",
    "includeHeaders",
    "propertySchema",
    "bodySchema",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "failOnDataLoss",
    "subscription",
    "mode",
    "bus",
    "pushFilters",
    "gaps",
)
WRITE_NAMES = (*_STORE_NAMES, "topic", "queue", "deliveryGuarantee", "writeId", "writeNumber")


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """Check what was given to `read` or `readStream`."""
    options = _Options(given, READ_NAMES, "reads")
    gaps = options.flag("gaps", False)
    if gaps:
        options.refuse(
            "with gaps=true",
            "subscribe subscribePattern queue selector columns includeHeaders propertySchema bodySchema "
            "pushFilters maxOffsetsPerTrigger maxBytesPerTrigger minOffsetsPerTrigger maxTriggerDelay "
            "minPartitions maxRecordsPerPartition subscription",
        )
    topics = options.get("subscribe", _topics)
    regex = options.get("subscribePattern", _regex)
    queue = options.get("queue", _queue)
    if not gaps and sum(each is not None for each in (topics, regex, queue)) != 1:
        raise ConfigError(
            "give exactly one of the options subscribe (topics such as prices/ACME, prices/*, prices/>, with "
            "commas between them), subscribePattern (a regular expression) and queue (the name of one)"
        )
    if queue is not None:
        options.refuse(
            "with queue",
            "startingOffsets endingOffsets startingTimestamp endingTimestamp minOffsetsPerTrigger "
            "maxTriggerDelay pushFilters mode bus",
        )
    live = options.choice("mode", {"history": False, "live": True}, "history")
    made = ReadOptions(
        at=dataclasses.replace(_store_options(options), replicas=options.get("replica", _addresses) or ()),
        topics=topics or (() if queue is None else (queue_topic(queue),)),
        queue=queue,
        topic_regex=regex,
        selector=options.get("selector", _selector),
        columns=options.get("columns", _names),
        include_properties=options.flag("includeHeaders", True),
        property_schema=options.get("propertySchema", _text),
        body_schema=options.get("bodySchema", _text),
        starting=_boundary(options, "starting"),
        ending=_boundary(options, "ending"),
        max_rows=options.get("maxOffsetsPerTrigger", _count),
        max_bytes=options.get("maxBytesPerTrigger", _count),
        min_rows=options.get("minOffsetsPerTrigger", _count),
        max_trigger_delay_s=options.get("maxTriggerDelay", parse_duration_s) or 900.0,
        min_partitions=options.get("minPartitions", _count),
        partition_rows_max=options.get("maxRecordsPerPartition", _count) or PARTITION_ROWS,
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        subscription=options.get("subscription", _text),
        live=live,
        bus=options.get("bus", _text),
        push_filters=options.flag("pushFilters", False),
        gaps=gaps,
    )
    if live:
        options.refuse(
            "with mode=live",
            "store token tokenFile fingerprint subscribePattern startingOffsets endingOffsets "
            "startingTimestamp endingTimestamp "
            "maxOffsetsPerTrigger maxBytesPerTrigger minOffsetsPerTrigger maxTriggerDelay minPartitions "
            "maxRecordsPerPartition failOnDataLoss subscription gaps storeTimeout replica",
        )
    else:
        options.refuse("without mode=live", "bus")
    if made.min_rows and made.max_rows and made.min_rows > made.max_rows:
        raise ConfigError(
            f"option minOffsetsPerTrigger ({made.min_rows}) must not exceed maxOffsetsPerTrigger "
            f"({made.max_rows})"
        )
    return made


def for_stream(options: ReadOptions) -> ReadOptions:
    """Refuse what only a batch can do."""
    if options.ending is not None:
        raise ConfigError(
            "options endingOffsets and endingTimestamp are for spark.read: a stream has no end; to stop "
            "when all "
            "that is there was read, use trigger(availableNow=True)"
        )
    if options.queue is not None and options.subscription is None:
        raise ConfigError(
            f"option queue ({options.queue}) needs option subscription: the name under which the store keeps "
            "for this query what it has taken from the queue and not done yet"
        )
    if options.push_filters:
        raise ConfigError(
            "option pushFilters is for spark.read: Spark offers no filters of streams; give option selector"
        )
    return options


def for_batch(options: ReadOptions) -> ReadOptions:
    """Refuse what only a stream can do."""
    if options.live:
        raise ConfigError("option mode=live is for spark.readStream: what was published before is not there")
    for name, value in (
        ("maxOffsetsPerTrigger", options.max_rows),
        ("maxBytesPerTrigger", options.max_bytes),
        ("minOffsetsPerTrigger", options.min_rows),
        ("subscription", options.subscription),
    ):
        if value is not None:
            raise ConfigError(f"option {name} is for spark.readStream: a batch reads its whole range once")
    return options


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check what was given to `write` or `writeStream`."""
    options = _Options(given, WRITE_NAMES, "writes")
    guarantees = {"exactly-once": True, "at-least-once": False}
    queue = options.get("queue", _queue)
    if queue is not None:
        options.refuse("with queue", "topic")
    made = WriteOptions(
        at=_store_options(options),
        topic=options.get("topic", _text) if queue is None else queue_topic(queue),
        queue=queue,
        exactly_once=options.choice("deliveryGuarantee", guarantees, "exactly-once"),
        write_id=options.get("writeId", _text),
        write_number=options.get("writeNumber", _number) or 0,
    )
    if made.write_id is None:
        options.refuse("without writeId", "writeNumber")
    if not made.exactly_once:
        options.refuse("with deliveryGuarantee=at-least-once", "writeId writeNumber")
    if queue is None and made.topic is not None and ("*" in made.topic or ">" in made.topic):
        raise ConfigError(f"option topic must be one topic, without wildcards, not {made.topic!r}")
    return made


def parse_duration_s(option: str, text: str) -> float:
    """Seconds in `250ms`, `10s`, `5m`, `1h` or a number of seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*", text)
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f"option {option} must be a time such as 250ms, 10s or 5m, not {text!r}")
    return float(match[1]) * {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2] or "s"]


def parse_time_us(option: str, text: str) -> int:
    """Microseconds since 1970, from milliseconds since then or from an ISO 8601 time."""
    if text.strip().isdigit():
        return int(text) * 1000
    try:
        time = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            f"option {option} must be milliseconds since 1970, as for Kafka, or a time such as "
            f"2026-10-01T08:30:00+02:00, not {text!r}"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return round(time.timestamp() * 1_000_000)


class _Options:
    """The options as given, by their names in small letters."""

    def __init__(self, given: Mapping[str, str], known: tuple[str, ...], does: str) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}
        accepted = {name.lower() for name in known}
        for name in given:
            if name.lower() in accepted or name.lower() in _SPARKS_OWN or name.lower().startswith("spark."):
                continue
            if name.lower() == "path":
                raise ConfigError(
                    "format shoal takes no path: leave it out of load() or save(), and name the store with "
                    "option store"
                )
            close = get_close_matches(name, known, n=1, cutoff=0.75)
            advice = f"did you mean {close[0]}?" if close else f"it takes: {', '.join(sorted(known))}"
            raise ConfigError(f"format shoal has no option {name} when it {does}; {advice}")

    def get(self, name: str, parse: Callable[[str, str], Value]) -> Value | None:
        text = self._given.get(name.lower())
        return None if text is None else parse(name, text)

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, {"true": True, "false": False}, "true" if default else "false")

    def choice(self, name: str, choices: Mapping[str, Value], default: str) -> Value:
        text = self._given.get(name.lower(), default).strip().lower()
        if text not in choices:
            raise ConfigError(f"option {name} must be {' or '.join(choices)}, not {text!r}")
        return choices[text]

    def refuse(self, why: str, names: str) -> None:
        for name in names.split():
            if name.lower() in self._given:
                raise ConfigError(f"option {name} means nothing {why}: leave it out")


def _store_options(options: _Options) -> StoreOptions:
    return StoreOptions(
        store=options.get("store", _text) or os.environ.get("SHOAL_STORE") or DEFAULT_STORE,
        token=options.get("token", _text),
        token_file=options.get("tokenFile", _text),
        fingerprint=options.get("fingerprint", _text),
        domain=options.get("domain", _text),
        timeout_s=options.get("storeTimeout", parse_duration_s) or 60.0,
    )


def _boundary(options: _Options, which: str) -> Boundary | None:
    offset = options.get(f"{which}Offsets", parse_boundary)
    time_us = options.get(f"{which}Timestamp", parse_time_us)
    if offset is not None and time_us is not None:
        raise ConfigError(f"options {which}Offsets and {which}Timestamp exclude each other: give one of them")
    if offset is not None and offset.named == "earliest" and which == "ending":
        raise ConfigError("option endingOffsets cannot be earliest: nothing would be read")
    return Boundary(time_us=time_us) if time_us is not None else offset


def _text(option: str, text: str) -> str:
    if not text.strip():
        raise ConfigError(f"option {option} must not be empty")
    return text.strip()


def _queue(option: str, text: str) -> str:
    name = _text(option, text)
    if "*" in name or ">" in name:
        raise ConfigError(f"option {option} must be the name of one queue, without wildcards, not {name!r}")
    return name


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise ConfigError(f"option {option} must list names with commas between them, not {text!r}")
    return names


def _addresses(option: str, text: str) -> tuple[str, ...]:
    addresses = _names(option, text)
    for address in addresses:
        if "://" not in address:
            raise ConfigError(
                f"option {option} must list addresses such as grpc://10.0.0.8:7475, and not {address!r}"
            )
    return addresses


def _topics(option: str, text: str) -> tuple[str, ...]:
    topics = _names(option, text)
    for topic in topics:
        levels = topic.split("/")
        wrong = [
            level
            for place, level in enumerate(levels)
            if not level
            or ("*" in level and level != "*")
            or (">" in level and (level != ">" or place < len(levels) - 1))
        ]
        if wrong:
            raise ConfigError(
                f"option {option}: {topic!r} is no pattern of topics, because of the level {wrong[0]!r}; "
                f"levels "
                "have a slash between them, * stands for one level and > at the end for all that follow"
            )
    return topics


def _regex(option: str, text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ConfigError(f"option {option} must be a regular expression, not {text!r}: {error}") from None
    return text


def _selector(option: str, text: str) -> str:
    try:
        Selector(text)
    except ShoalError as error:
        raise ConfigError(f"option {option} is no selector: {error}") from None
    return text


def _number(option: str, text: str) -> int:
    if not text.strip().isdigit():
        raise ConfigError(f"option {option} must be a whole number from 0 on, not {text!r}")
    return int(text)


def _count(option: str, text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise ConfigError(f"option {option} must be a whole number from 1 on, not {text!r}")
    return int(text)
