"""What happened in a run, as plain values: what checkers read, and what tests of checkers write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple


class StreamKey(NamedTuple):
    """One stream of one run of a sender."""

    sender: int
    instance: int
    stream: int

    def __str__(self) -> str:
        return f"stream {self.stream} of node {self.sender} (instance {self.instance})"


class ObjectKey(NamedTuple):
    """One object of known length of one run of a sender."""

    sender: int
    instance: int
    object: int

    def __str__(self) -> str:
        return f"object {self.object} of node {self.sender} (instance {self.instance})"


class SentObject(NamedTuple):
    """A NORM_OBJECT_DATA as it was given to be sent."""

    at_s: float
    content: bytes
    info: bytes
    """Its NORM_INFO; empty if it has none."""


class Delivery(NamedTuple):
    """A message as an application received it."""

    at_s: float
    stream: StreamKey
    body: bytes


class Event(NamedTuple):
    """Something a node was told by its engine. The fields are those of its kind."""

    at_s: float
    kind: str
    fields: Mapping[str, object]

    @property
    def stream_key(self) -> StreamKey | None:
        """The stream it is about, if it is about one of another node."""
        sender, instance, stream = (self.fields.get(name) for name in ("sender", "instance", "stream"))
        if isinstance(sender, int) and isinstance(instance, int) and isinstance(stream, int):
            return StreamKey(sender, instance, stream)
        return None

    @property
    def object_key(self) -> ObjectKey | None:
        """The object it is about, if it is about one of another node; streams and objects share numbers."""
        key = self.stream_key
        return None if key is None else ObjectKey(*key)


class Datagram(NamedTuple):
    """A datagram as it arrived."""

    at_s: float
    source: int
    target: int
    content: bytes


@dataclass(frozen=True, kw_only=True)
class NodeRecord:
    """What one node did and saw since it last started."""

    instance: int = 1
    started_at_s: float = 0.0
    deliveries: Sequence[Delivery] = ()
    events: Sequence[Event] = ()
    stats: Mapping[str, int] = field(default_factory=dict)
    """Counters of the engine's present instance."""
    unreadable: int = 0
    """Pieces of streams in which the application found no message."""
    receive_bytes_peak: int = 0
    receive_bytes_max: int = 0
    rate_bytes_per_s: float | None = None
    busy_s: float = 0.0
    """How long data waited to be sent."""
    busy_bytes: int = 0
    """Bytes sent in that time."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A whole run."""

    seed: int
    repeat: str
    """The command, or the code, that does the same run again."""
    published: Mapping[StreamKey, Sequence[bytes]] = field(default_factory=dict)
    objects: Mapping[ObjectKey, SentObject] = field(default_factory=dict)
    released: Mapping[ObjectKey, float] = field(default_factory=dict)
    """When senders let go of objects, after which they repair them no more."""
    commands: Mapping[int, Sequence[bytes]] = field(default_factory=dict)
    """What each node said with NORM_CMD(APPLICATION)."""
    nodes: Mapping[int, NodeRecord] = field(default_factory=dict)
