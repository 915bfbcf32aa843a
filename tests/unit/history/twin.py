"""A slow, plain columniser: what each column must hold, from the values a message was published with."""

import base64
import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal._core import encode_record

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JSON_KINDS = {"mapping", "list", "scalar"}


@dataclass(kw_only=True)
class Stored:
    """A message as its publisher gave it, and what the store knows of it."""

    topic: str
    body: Any
    properties: dict[str, Any] = field(default_factory=dict)
    priority: int = 4
    correlation_id: str | None = None
    reply_to: str | None = None
    type: str | None = None
    redelivered: bool = False
    offset: int = 0
    stored_us: int = 0
    publisher: int = 0
    chain: int = 0
    number: int | None = None
    timestamp_us: int = 0

    def row(self) -> tuple[Any, ...]:
        """The row as the columniser gets it."""
        record = encode_record(
            self.topic,
            self.body,
            properties=self.properties,
            priority=self.priority,
            correlation_id=None if self.correlation_id is None else self.correlation_id.encode(),
            reply_to=self.reply_to,
            type=self.type,
            redelivered=self.redelivered,
        )
        known = (self.publisher, self.chain, self.number, self.timestamp_us)
        return (self.offset, self.stored_us, *known, record)

    def column(self, name: str) -> Any:
        """What a column holds; JSON bodies are parsed, because there is more than one way to write them."""
        match name:
            case "topic" | "priority" | "correlation_id" | "reply_to" | "type" | "redelivered":
                return getattr(self, name)
            case "offset" | "chain" | "number":
                return getattr(self, name)
            case "publisher":
                return f"{self.publisher:016x}"
            case "message_id":
                if self.number is None:
                    return None
                return f"ID:{self.publisher:016x}-{self.chain}-{self.number}"
            case "timestamp":
                return None if self.timestamp_us == 0 else EPOCH + timedelta(microseconds=self.timestamp_us)
            case "stored":
                return EPOCH + timedelta(microseconds=self.stored_us)
            case "body_kind":
                return kind_of(self.body)
            case "body":
                return body_of(self.body)
            case "properties":
                return [(key, text_of(value)) for key, value in self.properties.items()]
        raise AssertionError(name)

    def property_column(self, name: str, kind: str) -> Any:
        """What a property's own column holds."""
        value = self.properties.get(name)
        if kind == "string":
            return text_of(value)
        if kind == "text":
            return value if isinstance(value, str) else None
        if kind == "bool":
            return value if isinstance(value, bool) else None
        if isinstance(value, bool):
            return None
        if kind == "int64":
            return value if isinstance(value, int) and value < 2**63 else None
        return float(value) if isinstance(value, int | float) else None


def kind_of(body: Any) -> str:
    if body is None:
        return "empty"
    if isinstance(body, bytes):
        return "bytes"
    if isinstance(body, str):
        return "text"
    if isinstance(body, dict):
        return "mapping"
    return "list" if isinstance(body, list) else "scalar"


def body_of(body: Any) -> Any:
    if body is None or isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else plain(body)


def plain(value: Any) -> Any:
    """The value as JSON can say it."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else key_text(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def key_text(key: Any) -> str:
    return base64.b64encode(key).decode() if isinstance(key, bytes) else json.dumps(key)


def text_of(value: Any) -> str | None:
    """A property as text; a float in any form that reads back as the same number."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
