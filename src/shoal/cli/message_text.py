"""Messages as text: for people, and as JSON for programs."""

import base64
import json
from datetime import datetime
from typing import Any

from rich.markup import escape

import shoal

HEX_BYTES_MAX = 32


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


def for_people(message: shoal.Message) -> str:
    """One line with markup: when, where, what."""
    sent = message.timestamp
    at = datetime.fromtimestamp(sent).strftime("%H:%M:%S.%f")[:-3] if sent is not None else "--:--:--.---"
    properties = " ".join(f"{name}={value}" for name, value in message.properties.items())
    line = f"[dim]{at}[/dim] [bold cyan]{escape(message.topic)}[/bold cyan] {escape(body_text(message.body))}"
    return f"{line} [dim]{escape(properties)}[/dim]" if properties else line


def body_text(body: Any) -> str:
    """A body on one line; bytes as text where they are, else the first of them in hexadecimal."""
    if isinstance(body, str):
        return body
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
        return json.dumps(body, ensure_ascii=False, default=repr)
    return repr(body)


def for_programs(message: shoal.Message) -> str:
    """One line of JSON; fields that the message does not have are left out."""
    body = message.body
    fields: dict[str, Any] = {"topic": message.topic}
    if isinstance(body, bytes):
        # Bytes that are text read better as text, and the name tells which it is.
        try:
            fields["body"] = body.decode()
        except UnicodeDecodeError:
            fields["body_base64"] = base64.b64encode(body).decode()
    else:
        fields["body"] = body
    optional = {
        "properties": message.properties or None,
        "priority": message.priority,
        "timestamp": message.timestamp,
        "message_id": message.message_id,
        "sender": f"{message.sender:08x}",
        "correlation_id": message.correlation_id,
        "reply_to": message.reply_to,
        "type": message.type,
        "ttl_s": message.ttl_s,
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    return json.dumps(fields, ensure_ascii=False, default=_plain)


def _plain(value: object) -> object:
    """What JSON has no word for."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    to_list = getattr(value, "tolist", None) or getattr(value, "to_pylist", None)
    return to_list() if to_list is not None else repr(value)
