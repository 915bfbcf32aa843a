"""What a session tells its owner.

A remote object, which may be a stream, is named by its sender, the sender's instance and its number; one of
our own by its number alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

CloseReason = Literal["ended", "restarted", "dropped", "idle"]
AbortReason = Literal["squelched", "expired", "overrun", "too_large", "sender_gone", "abandoned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfSender:
    sender: int
    instance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfObject(_OfSender):
    object: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderHeard(_OfSender):
    """A sender was heard for the first time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderGone(_OfSender):
    """A sender is no longer listened to: it ended, restarted, or was silent for too long."""

    reason: CloseReason


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamOpened(_OfObject):
    """Messages of a stream come from here on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived(_OfObject):
    """A message of a stream."""

    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamGap(_OfObject):
    """Segments of a stream are lost for good; what follows starts with a whole message."""

    first_segment: int
    segments: int
    reason: Literal["squelched"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBroken(_OfObject):
    """A stream held what cannot be a message; what follows starts with a whole one."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamClosed(_OfObject):
    """A stream ended, and everything before its end was received."""

    reason: CloseReason


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoReceived(_OfObject):
    """NORM_INFO of an object or stream arrived."""

    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectOpened(_OfObject):
    """An object of known length begins to arrive."""

    kind: Literal["data", "file"]
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataReceived(_OfObject):
    """An object of bytes is complete; `info` is its NORM_INFO, empty if it has none."""

    content: bytes
    info: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChunk(_OfObject):
    """A part of a file, in no particular order; only without `files_directory`."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReceived(_OfObject):
    """A file is complete; `path` is `None` without `files_directory`, `info` empty if it has no NORM_INFO."""

    info: bytes
    path: Path | None
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectAborted(_OfObject):
    """An object that was not complete was given up."""

    reason: AbortReason


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFailed:
    """The disk refused a file, which is given up: one of ours (`sender` is `None`), or one being received."""

    object: int
    why: str
    sender: int | None = None
    instance: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSent:
    """All of an object of ours was sent once."""

    object: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectReleased:
    """An object of ours is no longer kept, and cannot be repaired any more."""

    object: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRoom:
    """An object that was refused for want of room may have room now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReceived:
    """A sender sent a command to all receivers. Repetitions are events, too."""

    sender: int
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AckGiven:
    """A sender asked for an acknowledgement, and was given it."""

    sender: int
    ack_type: int
    ack_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AcksDone:
    """All receivers answered our question, or it was asked often enough."""

    ack_type: int
    ack_id: int
    acked: tuple[int, ...]
    silent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WatermarkDone:
    """Who has an object of ours, or everything that was sent on a stream, and who did not answer."""

    object: int
    acked: tuple[int, ...]
    silent: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AckerSilent:
    """An acker does not answer, or held others back for too long: we no longer wait for it."""

    object: int
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AckerLost:
    """An acker asked for what can no longer be repaired: some of the stream is lost to it for good."""

    object: int
    node: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushed:
    """Everything on a stream of ours was sent, and announced as often as `robust_factor` says."""

    object: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdTaken:
    """Another sender has our node id: receivers cannot tell us apart. Told once."""


Event = (
    SenderHeard
    | SenderGone
    | StreamOpened
    | MessageReceived
    | StreamGap
    | StreamBroken
    | StreamClosed
    | InfoReceived
    | ObjectOpened
    | DataReceived
    | FileChunk
    | FileReceived
    | ObjectAborted
    | FileFailed
    | ObjectSent
    | ObjectReleased
    | ObjectRoom
    | CommandReceived
    | AckGiven
    | AcksDone
    | WatermarkDone
    | AckerSilent
    | AckerLost
    | Flushed
    | NodeIdTaken
)

#: The events that take the fields they are given.
_PLAIN: dict[str, type[Any]] = {
    "sender_heard": SenderHeard,
    "sender_gone": SenderGone,
    "stream_opened": StreamOpened,
    "message": MessageReceived,
    "gap": StreamGap,
    "broken": StreamBroken,
    "stream_closed": StreamClosed,
    "info": InfoReceived,
    "object_opened": ObjectOpened,
    "data_received": DataReceived,
    "file_chunk": FileChunk,
    "object_aborted": ObjectAborted,
    "object_sent": ObjectSent,
    "object_released": ObjectReleased,
    "object_room": ObjectRoom,
    "command_received": CommandReceived,
    "ack_given": AckGiven,
    "acks_done": AcksDone,
    "watermark_done": WatermarkDone,
    "acker_silent": AckerSilent,
    "acker_lost": AckerLost,
    "flushed": Flushed,
    "node_id_taken": NodeIdTaken,
}


def from_core(kind: str, fields: Mapping[str, Any], info: bytes, path: Path | None) -> Event:
    """The event that the extension module means; `info` and `path` are those of the object it is about."""
    named = {("object" if name == "stream" else name): value for name, value in fields.items()}
    for name in ("acked", "silent"):
        if name in named:
            named[name] = tuple(named[name])
    match kind:
        case "file_received":
            return FileReceived(**(named | {"info": info, "path": path}))
        case "data_received":
            return DataReceived(**named, info=info)
        case "file_failed":
            named.pop("sending")
            return FileFailed(**named)
        case _:
            event: Event = _PLAIN[kind](**named)
            return event
