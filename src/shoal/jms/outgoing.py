"""A message that is sent after `send` returned: with a commit, at its delivery time, or by a thread."""

import time
from dataclasses import dataclass, field
from typing import Any

from shoal.jms.destination import Destination
from shoal.jms.message import DeliveryMode, Message
from shoal.jms.property_names import GROUP_ID, HELD


@dataclass(slots=True)
class Outgoing:
    """Everything that the bus is given, and when the program sent it."""

    destination: Destination
    body: Any
    properties: dict[str, Any] | None
    priority: int
    ttl_s: float | None
    delay_s: float
    correlation_id: str | bytes | None
    reply_to: str | None
    type: str | None
    timestamp: float
    persistent: bool
    connection: int
    #: When `send` was called, by `time.monotonic`.
    began: float = field(default_factory=time.monotonic)

    @property
    def is_queue(self) -> bool:
        """Whether it goes to a queue."""
        return self.destination.is_queue

    def given(self) -> dict[str, Any]:
        """What `publish` and `send` of the bus take beside name and body."""
        return {
            "properties": self.properties,
            "priority": self.priority,
            "ttl_s": self.ttl_s,
            "correlation_id": self.correlation_id,
            "reply_to": self.reply_to,
            "type": self.type,
            "timestamp": self.timestamp,
            "connection": self.connection,
        }

    def hold(self, message_id: str) -> None:
        """Have it carry its identity and its times, which its publication will not show."""
        times = f"{round(self.delay_s * 1000)} {round((self.ttl_s or 0) * 1000)}"
        self.properties = {**(self.properties or {}), HELD: f"{message_id} {times}"}

    def held(self) -> dict[str, Any] | None:
        """What `publish` takes when it is published at last; `None` if it lived too long."""
        given = self.given()
        given["delivery_delay_s"] = self.delay_s
        if self.ttl_s is not None:
            given["ttl_s"] = self.ttl_s - (time.monotonic() - self.began)
            if given["ttl_s"] <= 0:
                return None
        return given

    @property
    def group(self) -> str | None:
        """The message's group, which the store of a queue wants to know."""
        group = (self.properties or {}).get(GROUP_ID)
        return group if isinstance(group, str) else None


def outgoing_of(
    message: Message,
    destination: Destination,
    delivery_mode: DeliveryMode,
    priority: int,
    ttl_s: float,
    delay_s: float,
    timestamp_ms: int,
    connection: int,
) -> Outgoing:
    """A message as it is now; changing it later changes nothing."""
    reply_to = message.jms_reply_to
    properties = message._wire_properties()
    return Outgoing(
        destination=destination,
        body=message._frozen_body(),
        properties=None if properties is None else dict(properties),
        priority=priority,
        ttl_s=ttl_s or None,
        delay_s=delay_s,
        correlation_id=message._wire_correlation_id(),
        reply_to=None if reply_to is None else reply_to._reply_name,
        type=message.jms_type,
        timestamp=timestamp_ms / 1000,
        persistent=delivery_mode is DeliveryMode.PERSISTENT,
        connection=connection,
    )
