"""Messages whose body is written and read piece by piece: bytes, and a stream of typed values.

While it is being written it cannot be read; `reset` makes it readable from its beginning, and so does
receiving.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

from shoal.errors import (
    InvalidArgumentError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
)
from shoal.jms import values
from shoal.jms.bodies import any_value, forget_core, slice_of
from shoal.jms.message import Message
from shoal.jms.values import BOOLEAN, BYTE, BYTES, CHAR, DOUBLE, FLOAT, INT, LONG, SHORT, STRING

T = TypeVar("T")

#: Java's `writeUTF` has two bytes for the length.
UTF_BYTES_MAX = 65_535


class _Stream(Message):
    """What is written in order, and read in order."""

    _position = 0

    def reset(self) -> None:
        """Make the body read-only, and read it from its beginning."""
        self._body_read_only = True
        self._position = 0

    def _check_readable(self) -> None:
        if not self._body_read_only:
            raise MessageNotReadableError("the body is being written: call reset before reading it")

    def _check_writeable(self) -> None:
        if self._body_read_only:
            raise MessageNotWriteableError("the body is being read: call clear_body before writing it")


class BytesMessage(_Stream):
    """A message whose body is bytes. The bus has it as `bytes`.

    Numbers are written as Java's `DataOutputStream` does, the most significant byte first.
    """

    body_type = bytes
    #: Bytes as long as nothing is added to them.
    _written: bytes | bytearray | None = None

    def __init__(self, content: bytes | None = None) -> None:
        self._properties = self._settable = {}
        if type(content) is bytes:
            self._written = content
        elif content is not None:
            self.write_bytes(content)

    def _content(self) -> bytes:
        if self._core is not None:
            found: bytes = self._core.body
            return found
        written = self._written
        return written if type(written) is bytes else bytes(written or b"")

    def _erase(self) -> None:
        if self._core is not None:
            forget_core(self)
        self._written = None
        self._position = 0

    @property
    def body(self) -> bytes:
        """All bytes, wherever reading or writing stands."""
        core = self._core
        if core is None:
            return self._content()
        found: bytes = core.body
        return found

    def get_body(self, kind: type[T]) -> T | None:
        """The bytes; reading begins anew then, as after `reset`."""
        found = super().get_body(kind)
        self.reset()
        return found

    @property
    def body_length(self) -> int:
        """How many bytes there are. For a body that is being read."""
        self._check_readable()
        return len(self._content())

    def is_body_assignable_to(self, kind: type) -> bool:
        """Whether `get_body` with this type would give the body."""
        if not isinstance(kind, type):
            raise InvalidArgumentError(f"kind is {kind!r}, and must be a class")
        return issubclass(bytes, kind)

    def _take(self, size: int) -> bytes:
        self._check_readable()
        content, start = self._content(), self._position
        if start + size > len(content):
            raise MessageEOFError(f"{size} bytes were to be read, and {len(content) - start} are left")
        self._position = start + size
        return content[start : start + size]

    def _unpack(self, form: str) -> Any:
        (value,) = struct.unpack(form, self._take(struct.calcsize(form)))
        return value

    def _put(self, content: bytes) -> None:
        self._check_writeable()
        if not isinstance(self._written, bytearray):
            self._written = bytearray(self._written or b"")
        self._written += content

    def read_boolean(self) -> bool:
        """One byte: whether it is not zero."""
        return bool(self._unpack(">b"))

    def read_byte(self) -> int:
        """A signed byte."""
        return int(self._unpack(">b"))

    def read_unsigned_byte(self) -> int:
        """A byte, 0 to 255."""
        return int(self._unpack(">B"))

    def read_short(self) -> int:
        """Two bytes, signed."""
        return int(self._unpack(">h"))

    def read_unsigned_short(self) -> int:
        """Two bytes, 0 to 65,535."""
        return int(self._unpack(">H"))

    def read_char(self) -> str:
        """Two bytes: a UTF-16 code unit."""
        return chr(self._unpack(">H"))

    def read_int(self) -> int:
        """Four bytes, signed."""
        return int(self._unpack(">i"))

    def read_long(self) -> int:
        """Eight bytes, signed."""
        return int(self._unpack(">q"))

    def read_float(self) -> float:
        """Four bytes: a number of single precision."""
        return float(self._unpack(">f"))

    def read_double(self) -> float:
        """Eight bytes: a number of double precision."""
        return float(self._unpack(">d"))

    def read_utf(self) -> str:
        """A text as `write_utf` writes it."""
        start = self._position
        try:
            return _from_java_utf(self._take(int(self._unpack(">H"))))
        except (MessageEOFError, MessageFormatError):
            self._position = start
            raise

    def read_bytes(self, size: int | None = None) -> bytes | None:
        """The next bytes, at most `size`, or all that are left; `None` at the end."""
        self._check_readable()
        left = len(self._content()) - self._position
        if size is not None and (not isinstance(size, int) or size < 0):
            raise InvalidArgumentError(f"size is {size!r}, and must be a whole number, at least 0")
        if left == 0 and size != 0:
            return None
        return self._take(left if size is None else min(size, left))

    def write_boolean(self, value: bool) -> None:
        """One byte: 1 or 0."""
        self._put(b"\1" if values.accepted(BOOLEAN, value) else b"\0")

    def write_byte(self, value: int) -> None:
        """A signed byte."""
        self._put(struct.pack(">b", values.accepted(BYTE, value)))

    def write_short(self, value: int) -> None:
        """Two bytes."""
        self._put(struct.pack(">h", values.accepted(SHORT, value)))

    def write_char(self, value: str) -> None:
        """Two bytes: a UTF-16 code unit."""
        self._put(struct.pack(">H", ord(values.accepted(CHAR, value))))

    def write_int(self, value: int) -> None:
        """Four bytes."""
        self._put(struct.pack(">i", values.accepted(INT, value)))

    def write_long(self, value: int) -> None:
        """Eight bytes."""
        self._put(struct.pack(">q", values.accepted(LONG, value)))

    def write_float(self, value: float) -> None:
        """Four bytes: a number of single precision."""
        self._put(struct.pack(">f", values.accepted(FLOAT, value)))

    def write_double(self, value: float) -> None:
        """Eight bytes: a number of double precision."""
        self._put(struct.pack(">d", values.accepted(DOUBLE, value)))

    def write_utf(self, value: str) -> None:
        """A text: the length of its encoding in two bytes, and Java's modified UTF-8."""
        _check_not_null(value)
        if not isinstance(value, str):
            raise MessageFormatError(f"{value!r} cannot be written as UTF: it must be a str")
        content = _to_java_utf(value)
        if len(content) > UTF_BYTES_MAX:
            raise MessageFormatError(f"the text takes {len(content)} bytes, and at most {UTF_BYTES_MAX} fit")
        self._put(struct.pack(">H", len(content)) + content)

    def write_bytes(self, value: bytes, offset: int = 0, length: int | None = None) -> None:
        """Bytes, or a part of them, without their length."""
        _check_not_null(value)
        self._put(slice_of(value, offset, length))

    def write_object(self, value: Any) -> None:
        """A value by the method of its type; a plain `int` as a `long`, a plain `float` as a `double`."""
        _check_not_null(value)
        kind = values.kind_of(any_value(value))
        writers: dict[str, Callable[[Any], None]] = {
            BOOLEAN: self.write_boolean,
            BYTE: self.write_byte,
            SHORT: self.write_short,
            CHAR: self.write_char,
            INT: self.write_int,
            LONG: self.write_long,
            FLOAT: self.write_float,
            DOUBLE: self.write_double,
            STRING: self.write_utf,
            BYTES: self.write_bytes,
        }
        writers[str(kind)](value)

    def _wire_body(self) -> Any:
        return self._content()


class StreamMessage(_Stream):
    """A message whose body is a row of values of Java's types. The bus has it as a `list`."""

    _values: list[Any] | None = None
    #: How many bytes of the value at the position were read by `read_bytes`.
    _partly: int | None = None

    def __init__(self, content: list[Any] | tuple[Any, ...] | None = None) -> None:
        for value in content or ():
            self.write_object(value)

    def _row(self) -> list[Any]:
        if self._core is not None:
            found: list[Any] = self._core.body
            return found
        return self._values or []

    def _erase(self) -> None:
        if self._core is not None:
            forget_core(self)
        self._values = None
        self._position = 0
        self._partly = None

    def reset(self) -> None:
        """Make the body read-only, and read it from its beginning."""
        super().reset()
        self._partly = None

    @property
    def body(self) -> list[Any]:
        """All values, wherever reading or writing stands: a copy."""
        return list(self._row())

    def get_body(self, kind: type) -> Any:
        """Refused: a stream is no value."""
        raise MessageFormatError("a StreamMessage has no body of one type: read its values, or use body")

    def is_body_assignable_to(self, kind: type) -> bool:
        """No: a stream is no value."""
        return False

    def _peek(self) -> Any:
        self._check_readable()
        row = self._row()
        if self._position >= len(row):
            raise MessageEOFError(f"all {len(row)} values were read")
        return row[self._position]

    def _read(self, wanted: str) -> Any:
        """The next value, read as a type. One that cannot be read so stays the next."""
        value = self._peek()
        if self._partly is not None:
            raise MessageFormatError("bytes are being read: read them to their end first")
        value = values.converted(value, wanted, f"value {self._position}")
        self._position += 1
        return value

    def read_boolean(self) -> bool:
        """The next value read as a `boolean`."""
        return bool(self._read(BOOLEAN))

    def read_byte(self) -> int:
        """The next value read as a `byte`."""
        return int(self._read(BYTE))

    def read_short(self) -> int:
        """The next value read as a `short`."""
        return int(self._read(SHORT))

    def read_char(self) -> str:
        """The next value read as a `char`."""
        return str(self._read(CHAR))

    def read_int(self) -> int:
        """The next value read as an `int`."""
        return int(self._read(INT))

    def read_long(self) -> int:
        """The next value read as a `long`."""
        return int(self._read(LONG))

    def read_float(self) -> float:
        """The next value read as a `float`."""
        return float(self._read(FLOAT))

    def read_double(self) -> float:
        """The next value read as a `double`."""
        return float(self._read(DOUBLE))

    def read_string(self) -> str | None:
        """The next value read as a `String`."""
        found: str | None = self._read(STRING)
        return found

    def read_bytes(self, size: int | None = None) -> bytes | None:
        """The next value, which must be bytes, or at most `size` of them.

        With a size, a result that is shorter was the last of this value; after one that is not, call again,
        until `None` says that it is over. Only then can the next value be read.
        """
        value = self._peek()
        if value is not None and values.kind_of(value) != BYTES:
            raise MessageFormatError(f"value {self._position} is a {values.kind_of(value)}, and not bytes")
        start = self._partly or 0
        if value is None or (self._partly is not None and start >= len(value)):
            self._position, self._partly = self._position + 1, None
            return None
        chunk: bytes = value[start:] if size is None else value[start : start + size]
        if size is None or len(chunk) < size:
            self._position, self._partly = self._position + 1, None
        else:
            self._partly = start + len(chunk)
        return chunk

    def read_object(self) -> Any:
        """The next value, of a class of `shoal.types` where its type is none of Python's."""
        value = self._peek()
        if self._partly is not None:
            raise MessageFormatError("bytes are being read: read them to their end first")
        self._position += 1
        return value

    def _put(self, value: Any) -> None:
        self._check_writeable()
        if self._values is None:
            self._values = []
        self._values.append(value)

    def write_boolean(self, value: bool) -> None:
        """Write a `boolean`."""
        self._put(values.accepted(BOOLEAN, value))

    def write_byte(self, value: int) -> None:
        """Write a `byte`."""
        self._put(values.accepted(BYTE, value))

    def write_short(self, value: int) -> None:
        """Write a `short`."""
        self._put(values.accepted(SHORT, value))

    def write_char(self, value: str) -> None:
        """Write a `char`."""
        self._put(values.accepted(CHAR, value))

    def write_int(self, value: int) -> None:
        """Write an `int`."""
        self._put(values.accepted(INT, value))

    def write_long(self, value: int) -> None:
        """Write a `long`."""
        self._put(values.accepted(LONG, value))

    def write_float(self, value: float) -> None:
        """Write a `float`."""
        self._put(values.accepted(FLOAT, value))

    def write_double(self, value: float) -> None:
        """Write a `double`."""
        self._put(values.accepted(DOUBLE, value))

    def write_string(self, value: str | None) -> None:
        """Write a `String`."""
        self._put(values.accepted(STRING, value))

    def write_bytes(self, value: bytes | None, offset: int = 0, length: int | None = None) -> None:
        """Write bytes, a part of them, or null, as one value."""
        self._put(None if value is None else slice_of(value, offset, length))

    def write_object(self, value: Any) -> None:
        """Write a value of its own type; a plain `int` is a `long`, a plain `float` a `double`."""
        self._put(any_value(value))

    def _wire_body(self) -> Any:
        return self._row()

    def _frozen_body(self) -> Any:
        return list(self._row())


def _check_not_null(value: object) -> None:
    """Refuse what Java has a NullPointerException for."""
    if value is None:
        raise InvalidArgumentError("null cannot be written into a BytesMessage")


def _to_java_utf(text: str) -> bytes:
    """Java's modified UTF-8: each UTF-16 unit on its own, and a NUL in two bytes."""
    units = (
        struct.unpack(f">{len(wide) // 2}H", wide)
        if (wide := text.encode("utf-16-be", "surrogatepass"))
        else ()
    )
    return b"".join(_unit_bytes(unit) for unit in units)


def _unit_bytes(unit: int) -> bytes:
    if 0 < unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))


def _from_java_utf(content: bytes) -> str:
    units: list[int] = []
    at = 0
    while at < len(content):
        first = content[at]
        length = 1 if first < 0x80 else 2 if first >> 5 == 0b110 else 3 if first >> 4 == 0b1110 else 0
        rest = content[at + 1 : at + length]
        if length == 0 or len(rest) < length - 1 or any(byte >> 6 != 0b10 for byte in rest):
            raise MessageFormatError(f"byte {at} of the text is no part of Java's modified UTF-8")
        unit = first & (0x7F, 0x1F, 0x0F)[length - 1]
        for byte in rest:
            unit = unit << 6 | byte & 0x3F
        units.append(unit)
        at += length
    return struct.pack(f">{len(units)}H", *units).decode("utf-16-be", "surrogatepass")
