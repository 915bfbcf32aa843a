"""Messages whose body is one value: a text, a mapping, an object."""

from collections.abc import Iterator, Mapping
from typing import Any

from shoal import codecs
from shoal._core import Message as BusMessage
from shoal.errors import InvalidArgumentError, MessageFormatError
from shoal.jms import values
from shoal.jms.arguments import check_count
from shoal.jms.message import Message
from shoal.jms.property_names import NULL_TEXT
from shoal.jms.values import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, STRING


class TextMessage(Message):
    """A message whose body is a text, or `None`. The bus has it as a `str`."""

    body_type = str
    _is_as_set = False
    _text: str | None = None

    def __init__(self, text: str | None = None) -> None:
        # As with messages of bytes, so that properties are set quickly from the first.
        self._properties = self._settable = {}
        if type(text) is str:
            self._text = text
        elif text is not None:
            self.text = text

    @property
    def text(self) -> str | None:
        """The text."""
        if self._core is None:
            return self._text
        text: str = self._core.body
        # Null and empty are the same to the bus.
        return None if text == "" and NULL_TEXT in self._core.properties else text

    @text.setter
    def text(self, text: str | None) -> None:
        self._check_writeable()
        if text is not None and not isinstance(text, str):
            raise MessageFormatError(f"text is {text!r}, and must be a str or None")
        self._detach()
        self._text = text

    body = text

    def _detach(self) -> None:
        """From now on the body is ours, and what was received is only asked for the rest."""
        if self._core is not None:
            forget_core(self)

    def _erase(self) -> None:
        self._detach()
        self._text = None

    def _wire_body(self) -> Any:
        return self.text or ""

    def _wire_properties(self) -> dict[str, Any] | None:
        if self._text is None and self.text is None:
            return {**self._own(), NULL_TEXT: True}
        return self._own() or None


class ObjectMessage(Message):
    """A message whose body is an object: anything the bus takes, and types that `shoal.codecs` knows.

    Nothing is pickled. The object is copied when it is set and when it is read: changing it later changes no
    message.
    """

    body_type = object
    #: The object as it would travel.
    _copy: BusMessage | None = None

    def __init__(self, object: Any = None) -> None:
        if object is not None:
            self.object = object

    @property
    def object(self) -> Any:
        """The object, each time a new one if it could be changed.

        Raises:
            MessageFormatError: its type is not registered here.
        """
        found = self._held_object()
        return found if _is_fixed(found) else BusMessage("object", _boxed(found)).body

    @object.setter
    def object(self, object: Any) -> None:
        self._check_writeable()
        try:
            copy = BusMessage("object", _boxed(object))
        except (TypeError, ValueError) as error:
            raise MessageFormatError(f"the object cannot be sent: {error}") from error
        if self._core is not None:
            forget_core(self)
        self._copy = copy

    body = object

    def _held_object(self) -> Any:
        """The message's own, which no program sees."""
        source = self._core or self._copy
        return None if source is None else source.body

    def is_body_assignable_to(self, kind: type) -> bool:
        """Whether `get_body` with this type would give the body."""
        if not isinstance(kind, type):
            raise InvalidArgumentError(f"kind is {kind!r}, and must be a class")
        found = self._held_object()
        return found is None or isinstance(found, kind)

    def _erase(self) -> None:
        if self._core is not None:
            forget_core(self)
        self._copy = None

    def _wire_body(self) -> Any:
        return _boxed(self._held_object())


def _is_fixed(value: Any) -> bool:
    """Whether nobody can change it, so that it need not be copied; arrays are received as read-only ones."""
    if value is None or isinstance(value, int | float | str | bytes):
        return True
    if type(value).__module__.partition(".")[0] in ("datetime", "pyarrow"):
        return True
    return getattr(getattr(value, "flags", None), "writeable", True) is False


def _boxed(value: Any) -> Any:
    """An object, in a box if the bus would else take it for a text, bytes, a mapping or a list."""
    plain = value is None or isinstance(value, str | bytes | bytearray | memoryview | Mapping | list | tuple)
    return (
        codecs.Boxed(bytes(value) if isinstance(value, bytearray | memoryview) else value) if plain else value
    )


class MapMessage(Message):
    """A message whose body is a mapping of names to values of Java's types. The bus has it as a `dict`.

    It can be used like a mapping: `message["price"] = 10.25`, `for name in message`.
    """

    body_type = dict
    _entries: dict[str, Any] | None = None

    def __init__(self, entries: Mapping[str, Any] | None = None) -> None:
        for name, value in (entries or {}).items():
            self.set_object(name, value)

    def _read(self) -> Mapping[str, Any]:
        if self._core is not None:
            found: dict[str, Any] = self._core.body
            return found
        return self._entries or {}

    def _write(self, name: str, value: Any) -> None:
        self._check_writeable()
        if not isinstance(name, str):
            raise InvalidArgumentError(f"name is {name!r}, and must be a str")
        if not name:
            raise InvalidArgumentError("the name of an entry must not be empty")
        if self._entries is None:
            self._entries = {}
        self._entries[name] = value

    def _erase(self) -> None:
        if self._core is not None:
            forget_core(self)
        self._entries = None

    def _entry(self, name: str, wanted: str) -> Any:
        return values.converted(self._read().get(name), wanted, f"the entry {name!r}")

    @property
    def body(self) -> dict[str, Any]:
        """The entries: a copy."""
        return dict(self._read())

    @property
    def map_names(self) -> list[str]:
        """The names of all entries."""
        return list(self._read())

    def item_exists(self, name: str) -> bool:
        """Whether there is such an entry."""
        return name in self._read()

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.set_object(name, value)

    def __contains__(self, name: object) -> bool:
        return name in self._read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.map_names)

    def __len__(self) -> int:
        return len(self._read())

    def is_body_assignable_to(self, kind: type) -> bool:
        """Whether `get_body` with this type would give the body."""
        if not isinstance(kind, type):
            raise InvalidArgumentError(f"kind is {kind!r}, and must be a class")
        return issubclass(dict, kind)

    def get_object(self, name: str) -> Any:
        """The entry's value, of a class of `shoal.types` where its type is none of Python's; else `None`."""
        return self._read().get(name)

    def get_boolean(self, name: str) -> bool:
        """The entry read as a `boolean`."""
        return bool(self._entry(name, BOOLEAN))

    def get_byte(self, name: str) -> int:
        """The entry read as a `byte`."""
        return int(self._entry(name, BYTE))

    def get_short(self, name: str) -> int:
        """The entry read as a `short`."""
        return int(self._entry(name, SHORT))

    def get_char(self, name: str) -> str:
        """The entry read as a `char`."""
        return str(self._entry(name, CHAR))

    def get_int(self, name: str) -> int:
        """The entry read as an `int`."""
        return int(self._entry(name, INT))

    def get_long(self, name: str) -> int:
        """The entry read as a `long`."""
        return int(self._entry(name, LONG))

    def get_float(self, name: str) -> float:
        """The entry read as a `float`."""
        return float(self._entry(name, FLOAT))

    def get_double(self, name: str) -> float:
        """The entry read as a `double`."""
        return float(self._entry(name, DOUBLE))

    def get_string(self, name: str) -> str | None:
        """The entry read as a `String`; `None` if there is none."""
        found: str | None = self._entry(name, STRING)
        return found

    def get_bytes(self, name: str) -> bytes | None:
        """The entry's bytes; `None` if there is none."""
        found: bytes | None = self._entry(name, BYTES)
        return found

    def set_object(self, name: str, value: Any) -> None:
        """Set an entry to a value of its own type; a plain `int` is a `long`, a plain `float` a `double`."""
        self._write(name, any_value(value))

    def set_boolean(self, name: str, value: bool) -> None:
        """Set an entry to a `boolean`."""
        self._write(name, values.accepted(BOOLEAN, value))

    def set_byte(self, name: str, value: int) -> None:
        """Set an entry to a `byte`."""
        self._write(name, values.accepted(BYTE, value))

    def set_short(self, name: str, value: int) -> None:
        """Set an entry to a `short`."""
        self._write(name, values.accepted(SHORT, value))

    def set_char(self, name: str, value: str) -> None:
        """Set an entry to a `char`."""
        self._write(name, values.accepted(CHAR, value))

    def set_int(self, name: str, value: int) -> None:
        """Set an entry to an `int`."""
        self._write(name, values.accepted(INT, value))

    def set_long(self, name: str, value: int) -> None:
        """Set an entry to a `long`."""
        self._write(name, values.accepted(LONG, value))

    def set_float(self, name: str, value: float) -> None:
        """Set an entry to a `float`."""
        self._write(name, values.accepted(FLOAT, value))

    def set_double(self, name: str, value: float) -> None:
        """Set an entry to a `double`."""
        self._write(name, values.accepted(DOUBLE, value))

    def set_string(self, name: str, value: str | None) -> None:
        """Set an entry to a `String`."""
        self._write(name, values.accepted(STRING, value))

    def set_bytes(self, name: str, value: bytes | None, offset: int = 0, length: int | None = None) -> None:
        """Set an entry to bytes, to a part of them, or to null."""
        self._write(name, None if value is None else slice_of(value, offset, length))

    def _wire_body(self) -> Any:
        return self._read()

    def _frozen_body(self) -> Any:
        return dict(self._read())


def any_value(value: Any) -> Any:
    """A value of any of Java's types, or null, as a body may hold it.

    Raises:
        MessageFormatError: it is of another type.
    """
    if value is None:
        return None
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    kind = values.kind_of(value)
    if kind is None:
        raise MessageFormatError(
            f"{value!r} is of type {type(value).__name__}, and a value here is bool, int, float, str, bytes, "
            "None, or of a class of shoal.types"
        )
    return values.accepted(LONG, value) if kind == LONG else value


def slice_of(value: object, offset: int, length: int | None) -> bytes:
    """Bytes, or a part of them; a part that is not there raises."""
    content: bytes = values.accepted(BYTES, value)
    check_count("offset", offset)
    if length is not None:
        check_count("length", length)
    end = len(content) if length is None else offset + length
    if not 0 <= offset <= end <= len(content):
        raise InvalidArgumentError(f"there are {len(content)} bytes, and none from {offset} to {end}")
    return content[offset:end]


def forget_core(message: Message) -> None:
    """Keep what a received message says beside its body, and let go of the body."""
    message._own()
    # Each is read from the bus's message once, and then the message's own.
    _ = (message.jms_message_id, message.jms_timestamp, message.jms_correlation_id, message.jms_reply_to)
    _ = (message.jms_type, message.jms_delivery_mode)
    message._priority = message.jms_priority
    message._core = None
