"""Messages as text: for people, and as JSON for programs.

A member may publish anything. So a message is one line whatever is in it, nothing in it reaches
a terminal as a control character, and nothing in it raises.
"""

import base64
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import shoal

HEX_BYTES_MAX = 32

_DIM, _TOPIC, _PLAIN = "\x1b[2m", "\x1b[1;36m", "\x1b[0m"


def body_from_text(text: str, as_json: bool) -> Any:
    """The body that a user typed: text as it is, or what JSON makes of it."""
    if not as_json:
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the body is not JSON: {error}: {text!r}") from None


def property_from_text(text: str) -> tuple[str, Any]:
    """`name=value`; a value that reads as a JSON number, true or false is one, and anything else is text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ValueError(f"a property is given as NAME=VALUE, not {text!r}")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    return name, parsed if isinstance(parsed, bool | int | float) else value


def printable(text: str) -> str:
    """The text with everything escaped that a terminal would not show as a character."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def for_people(message: shoal.Message, colour: bool = False) -> str:
    """One line: when, where, what."""
    sent = message.timestamp
    at = datetime.fromtimestamp(sent).strftime("%H:%M:%S.%f")[:-3] if sent is not None else "--:--:--.---"
    topic, body = printable(message.topic), message_body_text(message)
    # Names that begin with _ are Shoal's own.
    properties = " ".join(
        printable(f"{name}={value}")
        for name, value in _or_nothing(message, "properties").items()
        if not name.startswith("_")
    )
    if not colour:
        return f"{at} {topic} {body} {properties}" if properties else f"{at} {topic} {body}"
    line = f"{_DIM}{at}{_PLAIN} {_TOPIC}{topic}{_PLAIN} {body}"
    return f"{line} {_DIM}{properties}{_PLAIN}" if properties else line


def message_body_text(message: shoal.Message) -> str:
    """A message's body on one line, or why it cannot be read."""
    try:
        return body_text(message.body)
    except Exception as error:
        return printable(f"<a body that cannot be read here: {error}>")


def body_text(body: Any) -> str:
    """A body on one line; bytes as text where they are, else the first of them in hexadecimal."""
    if isinstance(body, str):
        return printable(body)
    if isinstance(body, bytes):
        try:
            text = body.decode()
        except UnicodeDecodeError:
            text = ""
        if text.isprintable() and text:
            return text
        more = "…" if len(body) > HEX_BYTES_MAX else ""
        return f"<{len(body)} bytes {body[:HEX_BYTES_MAX].hex(' ')}{more}>"
    if isinstance(body, dict | list | int | float | bool | None):
        return printable(_dumps(body))
    return printable(" ".join(repr(body).split()))


def for_programs(message: shoal.Message) -> str:
    """One line of JSON, always; fields that the message does not have are left out."""
    fields: dict[str, Any] = {"topic": message.topic, **_body_fields(message)}
    properties = _or_nothing(message, "properties")
    if properties:
        fields["properties"] = properties
    fields["priority"] = message.priority
    for name in ("timestamp", "message_id", "sender", "correlation_id", "reply_to", "type", "ttl_s"):
        value = _or_nothing(message, name)
        if value is not None and value != {}:
            fields[name] = value
    # JSON escapes control characters itself, up to these, which end lines or turn them round.
    return _escape(_dumps(fields))


def _body_fields(message: shoal.Message) -> dict[str, Any]:
    try:
        body = message.body
    except Exception as error:
        return {"body_error": str(error)}
    if not isinstance(body, bytes):
        return {"body": body}
    # Bytes that are text read better as text, and the name tells which it is.
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}


def _or_nothing(message: shoal.Message, name: str) -> Any:
    """A field, or an empty mapping if it cannot be read."""
    try:
        return getattr(message, name)
    except Exception:
        return {}


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else _json_escape(letter) for letter in text)


def _json_escape(letter: str) -> str:
    return json.dumps(letter)[1:-1] if letter > "\x7f" else f"\\u{ord(letter):04x}"


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """What JSON has no word for, in words that it has."""
    if isinstance(value, Mapping):
        return {_key(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | bool | int | float | None):
        return value
    to_list = getattr(value, "tolist", None) or getattr(value, "to_pylist", None)
    return _plain(to_list()) if to_list is not None else str(value)


def _key(key: Any) -> str:
    return key if isinstance(key, str) else body_text(key)
