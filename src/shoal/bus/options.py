"""What calls of the bus take by keyword, where several calls take the same."""

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

#: Who acknowledges: `auto`, when the next message is taken or the callback returned, or the program.
Ack = Literal["auto", "manual"]
#: What a store does when a queue or a durable subscription has as much as it may.
OnFull = Literal["refuse", "drop_oldest"]


class MessageOptions(TypedDict, total=False):
    """What a message has beside its topic and body; `Bus.publish` describes each."""

    properties: Mapping[str, Any] | None
    priority: int
    ttl_s: float | None
    correlation_id: str | bytes | None
    reply_to: str | None
    type: str | None
    persistent: bool
    delivery_delay_s: float | None
    timestamp: float | None
    connection: int | None
    group: str | None


class QueueOptions(TypedDict, total=False):
    """The options of a queue; `Bus.queue` describes each."""

    expires_after_s: float | None
    backlog_max_bytes: int | None
    on_full: OnFull | None
    deliveries_max: int | None
    backoff_s: float | None
    backoff_max_s: float | None
    dead_letter: str | None
    dead_letter_expired: bool | None


class StoredOptions(TypedDict, total=False):
    """What a durable or shared subscription takes beside its name; `Bus.subscribe` describes each."""

    ack: Ack
    prefetch: int | None
    start: str | int | None
    expires_after_s: float | None
    backlog_max_bytes: int | None
    on_full: OnFull | None
    timeout_s: float | None
