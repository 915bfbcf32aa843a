"""Messages as STOMP has them: SEND into what the bus takes, messages of the bus into MESSAGE.

Names of properties are names of selectors. STOMP's headers often have hyphens and dots: they become
`_HYPHEN_` and `_DOT_`, as Artemis does it, and come back as they were.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from shoal import Message
from shoal.bus.store_protocol import RETAIN
from shoal.errors import MessageFormatError
from shoal.gateway.commands import SEND_HEADERS
from shoal.gateway.destinations import reply_text
from shoal.gateway.frames import FrameError, escape
from shoal.jms.property_names import PRIVATE
from shoal.types import Byte, Char, Double, Float, Int, Long, Short

#: Headers of MESSAGE that properties must not look like, and of SEND.
_RESERVED: Final = SEND_HEADERS | {
    "subscription",
    "message-id",
    "ack",
    "timestamp",
    "redelivered",
    "shoal-delivery-count",
    "shoal-dropped",
    "browser",
}
#: A property with such a name has this before it.
_PREFIX: Final = "shoal-property-"
_TYPES: Final[dict[str, Callable[[str], Any]]] = {
    "b": lambda text: {"true": True, "false": False}[text],
    "y": lambda text: Byte(int(text)),
    "h": lambda text: Short(int(text)),
    "i": lambda text: Int(int(text)),
    "l": lambda text: int(Long(int(text))),
    "f": lambda text: Float(float(text)),
    "d": float,
    "s": str,
}
_LETTERS: Final = {
    bool: "b",
    Byte: "y",
    Short: "h",
    Int: "i",
    Long: "l",
    int: "l",
    Float: "f",
    Double: "d",
    float: "d",
}
_TEXT_TYPE: Final = re.compile(r"text/plain\s*(;\s*charset\s*=\s*\"?utf-8\"?\s*)?", re.IGNORECASE)
_JSON_TYPE: Final = re.compile(r"application/json\s*(;.*)?", re.IGNORECASE)


# --- from the client ---


def options_of(headers: Mapping[str, str], now: float) -> dict[str, Any] | None:
    """What `publish` and `send` of the bus take beside destination and body; `None` if it is too late for it.

    Raises:
        FrameError: a header cannot be understood.
    """
    options: dict[str, Any] = {}
    persistent = headers.get("persistent", "false")
    if persistent not in ("true", "false"):
        raise FrameError(f"persistent is {persistent!r:.50}, and must be true or false.")
    options["persistent"] = persistent == "true"
    retain = headers.get("shoal-retain", "false")
    if retain not in ("true", "false"):
        raise FrameError(f"shoal-retain is {retain!r:.50}, and must be true or false.")
    if retain == "true":
        options["retain"] = True
    if (priority := headers.get("priority")) is not None:
        if len(priority) != 1 or priority not in "0123456789":
            raise FrameError(f"priority is {priority!r:.50}, and must be 0 to 9.")
        options["priority"] = int(priority)
    if (expires := _milliseconds(headers, "expires")) is not None and expires > 0:
        options["ttl_s"] = expires / 1000 - now
        if options["ttl_s"] <= 0:
            return None
    if delay := _milliseconds(headers, "shoal-delay"):
        options["delivery_delay_s"] = delay / 1000
    for name, option in (("correlation-id", "correlation_id"), ("type", "type")):
        if value := headers.get(name):
            options[option] = value
    options["properties"] = _properties(headers)
    return options


def _milliseconds(headers: Mapping[str, str], name: str) -> int | None:
    text = headers.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 16:
        raise FrameError(f"{name} is {text!r:.50}, and must be a number of milliseconds.")
    return int(text)


def _properties(headers: Mapping[str, str]) -> dict[str, Any] | None:
    if headers.keys() <= SEND_HEADERS:
        return None
    types = _types(headers.get("shoal-types", ""))
    properties: dict[str, Any] = {}
    for name, value in headers.items():
        if name in SEND_HEADERS:
            continue
        letter = types.pop(name, "s")
        try:
            properties[_property_name(name)] = _TYPES[letter](value)
        except (ValueError, KeyError):
            raise FrameError(
                f"The property {name!r:.50} is {value!r:.50}, which is no value of its type {letter!r}."
            ) from None
    if types:
        raise FrameError(f"shoal-types names {next(iter(types))!r:.50}, and there is no such header.")
    return properties


def _types(text: str) -> dict[str, str]:
    types: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, letter = part.strip().rpartition("=")
        if not equals or not name or letter not in _TYPES:
            wanted = "bid=d,count=i with the types b y h i l f d s"
            raise FrameError(f"shoal-types has {part!r:.50}, and must be like {wanted}.")
        types[name] = letter
    return types


def _property_name(header: str) -> str:
    return header.removeprefix(_PREFIX).replace("-", "_HYPHEN_").replace(".", "_DOT_")


def body_of(headers: Mapping[str, str], body: bytes) -> Any:
    """The body that a frame's bytes are, by its content type; none if it has neither.

    Raises:
        FrameError: the bytes are no text, or no JSON.
    """
    kind = headers.get("content-type")
    if kind is None:
        return body or None
    try:
        if _TEXT_TYPE.fullmatch(kind):
            return body.decode()
        if _JSON_TYPE.fullmatch(kind):
            return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"The body is no {kind:.50}: {error}") from None
    return body


# --- to the client ---


def encode_body(message: Message) -> tuple[str | None, bytes]:
    """The content type and the bytes of a message's body."""
    body = message.body
    if body is None:
        return None, b""
    if isinstance(body, bytes):
        return "application/octet-stream", body
    if isinstance(body, str):
        return "text/plain", body.encode()
    try:
        return "application/json", json.dumps(
            body, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError):
        return "application/json", json.dumps(
            _plain(body), ensure_ascii=False, separators=(",", ":")
        ).encode()


def _plain(value: Any) -> Any:
    """What JSON has no word for, as something that it has one for."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return {"$base64": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": repr(float(value))}
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if hasattr(value, "to_pylist"):
        return _plain(value.to_pylist())
    return {"$text": str(value)}


def frame_of(
    message: Message,
    *,
    subscription: str,
    destination: str | None = None,
    ack: str | None = None,
    dropped: int = 0,
    number: int = 0,
) -> bytes:
    """A message as a MESSAGE frame.

    Args:
        subscription: the head of the frame, as `head_of` made it.
        destination: what the client calls the destination, if not as the bus does.
        ack: what the client acknowledges it by.
        dropped: how many messages before it were dropped, because the client did not read.
        number: tells it from others if it has no identity.
    """
    try:
        kind, body = encode_body(message)
    except MessageFormatError as error:
        # The body cannot be read here, such as an object whose class is not registered.
        kind, body = "text/plain", str(error).encode()
    lines = [subscription, f"message-id:{escape(message.message_id or f'ID:{number}')}"]
    lines.append(f"destination:{escape(destination or f'/topic/{message.topic}')}")
    if ack is not None:
        lines.append(f"ack:{ack}")
    if dropped:
        lines.append(f"shoal-dropped:{dropped}")
    if kind is not None:
        lines.append(f"content-type:{kind}")
    lines.append(f"content-length:{len(body)}")
    _add_fields(lines, message)
    properties = message.properties
    if properties:
        _add_properties(lines, properties)
    lines.append("\n")
    return "\n".join(lines).encode() + body + b"\0"


def head_of(subscription: str) -> str:
    """The lines with which the frames of a subscription begin."""
    return f"MESSAGE\nsubscription:{escape(subscription)}"


def _add_fields(lines: list[str], message: Message) -> None:
    correlation, reply_to, type_, timestamp_ms, ttl_ms, delay_ms = message._header_fields
    if message.persistent:
        lines.append("persistent:true")
    if message.priority != 4:
        lines.append(f"priority:{message.priority}")
    if timestamp_ms:
        lines.append(f"timestamp:{timestamp_ms}")
        if ttl_ms:
            lines.append(f"expires:{timestamp_ms + ttl_ms}")
    if correlation is not None:
        text = correlation if isinstance(correlation, str) else "0x" + correlation.hex()
        lines.append(f"correlation-id:{escape(text)}")
    if reply_to is not None:
        lines.append(f"reply-to:{escape(reply_text(reply_to))}")
    if type_ is not None:
        lines.append(f"type:{escape(type_)}")
    if delay_ms:
        lines.append(f"shoal-delay:{delay_ms}")
    if message.redelivered:
        lines.append("redelivered:true")
        if message.delivery_count > 1:
            lines.append(f"shoal-delivery-count:{message.delivery_count}")


def _add_properties(lines: list[str], properties: Mapping[str, Any]) -> None:
    """The properties; those of other types than a header can have are left out."""
    types = []
    for name, value in properties.items():
        if name == RETAIN and value is True:
            lines.append("shoal-retain:true")
            continue
        if name.startswith(PRIVATE):
            continue
        header = name.replace("_HYPHEN_", "-").replace("_DOT_", ".") if "_" in name else name
        if header in _RESERVED:
            header = _PREFIX + header
        if isinstance(value, str):
            lines.append(f"{header}:{escape(str(value) if type(value) is Char else value)}")
            continue
        letter = _LETTERS.get(type(value))
        if letter is None:
            continue
        text = ("true" if value else "false") if letter == "b" else str(value)
        lines.append(f"{header}:{text}")
        types.append(f"{header}={letter}")
    if types:
        lines.append(f"shoal-types:{','.join(types)}")
