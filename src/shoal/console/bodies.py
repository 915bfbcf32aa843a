"""Messages as viewers get them.

Plain JSON, bounded, and nothing in it that a page would take for anything but text.
"""

import base64
import json
import math
from collections.abc import Mapping
from typing import Any

import shoal

#: The longest body that is shown.
BODY_BYTES_MAX = 64 << 10
#: Properties of one message, and the longest text of one.
PROPERTIES_MAX, PROPERTY_MAX = 100, 1000

_KEPT = "\n\t"


def safe(text: str, most: int = BODY_BYTES_MAX) -> str:
    """A text without control characters and marks that turn its direction, shortened."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() or letter in _KEPT else letter.encode("unicode_escape").decode()
        for letter in text
    )


def body_of(body: Any) -> dict[str, Any]:
    """A body as text.

    Its form (`text`, `json`, `hex`, `none`), the text, its length, and whether it was cut.
    """
    if body is None:
        return {"form": "none", "text": "", "size": 0, "cut": False}
    if isinstance(body, bytes | bytearray | memoryview):
        raw = bytes(body)
        try:
            return _shown("text", raw.decode(), len(raw))
        except UnicodeDecodeError:
            return _shown(
                "hex", raw[: BODY_BYTES_MAX // 3].hex(" "), len(raw), len(raw) > BODY_BYTES_MAX // 3
            )
    if isinstance(body, str):
        return _shown("text", body, len(body.encode(errors="replace")))
    if isinstance(body, dict | list | bool | int | float):
        text = json.dumps(plain(body), indent=2, ensure_ascii=False, default=repr)
        return _shown("json", text, len(text.encode(errors="replace")))
    return _shown("text", repr(body), 0)


def _shown(form: str, text: str, size: int, cut: bool = False) -> dict[str, Any]:
    return {"form": form, "text": safe(text), "size": size, "cut": cut or len(text) > BODY_BYTES_MAX}


def plain(value: Any, depth: int = 0) -> Any:
    """A value as JSON can hold it."""
    if depth > 20:
        return "…"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, Mapping):
        return {safe(str(key), PROPERTY_MAX): plain(each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each, depth + 1) for each in value]
    return (
        value
        if value is None or isinstance(value, bool | int | float | str)
        else safe(str(value), PROPERTY_MAX)
    )


def message_row(message: shoal.Message) -> dict[str, Any]:
    """A message of the bus, or of a queue. A message that cannot be read says why."""
    found: dict[str, Any] = {"topic": safe(message.topic, PROPERTY_MAX)}
    try:
        found["body"] = body_of(message.body)
    except Exception as error:
        found["body"] = _shown("none", "", 0) | {"unreadable": safe(str(error), PROPERTY_MAX)}
    for name in ("priority", "timestamp", "message_id", "correlation_id", "reply_to", "type", "sender"):
        try:
            value = getattr(message, name)
        except Exception:
            value = None
        found[name] = plain(value)
    try:
        properties = list(message.properties.items())[:PROPERTIES_MAX]
    except Exception:
        properties = []
    found["properties"] = {
        safe(name, PROPERTY_MAX): safe(value, PROPERTY_MAX) if isinstance(value, str) else plain(value)
        for name, value in properties
    }
    return found


def history_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of history."""
    body, kind = row.get("body"), row.get("body_kind")
    if kind in ("mapping", "list", "scalar") and isinstance(body, bytes):
        try:
            shown = body_of(json.loads(body))
        except ValueError:
            shown = body_of(body)
    else:
        shown = body_of(body)
    stored, published = row.get("stored"), row.get("timestamp")
    return {
        "offset": row.get("offset"),
        "topic": safe(str(row.get("topic") or ""), PROPERTY_MAX),
        "stored": None if stored is None else stored.timestamp(),
        "timestamp": None if published is None else published.timestamp(),
        "publisher": row.get("publisher"),
        "message_id": row.get("message_id"),
        "priority": row.get("priority"),
        "type": row.get("type"),
        "correlation_id": row.get("correlation_id"),
        "reply_to": row.get("reply_to"),
        "body": shown,
        "properties": {
            safe(name, PROPERTY_MAX): safe(value or "", PROPERTY_MAX)
            for name, value in (row.get("properties") or ())[:PROPERTIES_MAX]
        },
    }
