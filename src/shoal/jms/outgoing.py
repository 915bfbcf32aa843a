"""A message as the bus takes it: at once, or after `send` returned, with a commit."""

import time
from dataclasses import dataclass, field
from typing import Any

from shoal.jms.destination import Destination
from shoal.jms.message import Message
from shoal.jms.property_names import GROUP_ID, HELD


def given_of(
    message: Message, priority: int, ttl_s: float, timestamp_ms: int, connection: int
) -> dict[str, Any]:
    """What `publish` and `send` of the bus take of a message beside name and body."""
    reply_to = message.jms_reply_to
    return {
        "properties": message._wire_properties(),
        "priority": priority,
        "ttl_s": ttl_s or None,
        "correlation_id": message._wire_correlation_id(),
        "reply_to": None if reply_to is None else reply_to._reply_name,
        "type": message.jms_type,
        "timestamp": timestamp_ms / 1000,
        "connection": connection,
    }


def group_of(given: dict[str, Any]) -> str | None:
    """The message's group, which the store of a queue wants to know."""
    group = (given["properties"] or {}).get(GROUP_ID)
    return group if isinstance(group, str) else None


@dataclass(slots=True)
class Outgoing:
    """A message that a commit publishes, as it was when the program sent it."""

    destination: Destination
    body: Any
    given: dict[str, Any]
    delay_s: float
    #: When `send` was called, by `time.monotonic`.
    began: float = field(default_factory=time.monotonic)

    def hold(self, message_id: str) -> None:
        """Have it carry its identity, which its publication will not show."""
        self.given["properties"] = {**(self.given["properties"] or {}), HELD: message_id}

    def held(self, now: float) -> dict[str, Any] | None:
        """What `publish` takes when it is published at last; `None` if it lived too long.

        Its time to live and its delay count from `send`. A delay is always there, also one of 0: then its
        receiver looks for the identity that it carries.
        """
        held_s = max(now - self.began, 0.0)
        if self.given["ttl_s"] is not None and held_s >= self.given["ttl_s"]:
            return None
        return self.given | {"delivery_delay_s": self.delay_s, "held_s": held_s}
