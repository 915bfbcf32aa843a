"""Values that keep their type on the way: a `Byte` arrives as a `Byte`.

Python has one `int` and one `float`; Java, and so JMS, has several and converts each by rules of its own.
Wrap a value where a receiver must know which one it is, in properties and inside bodies. The classes are
subclasses of `int`, `float` and `str`, and behave like them; what is not wrapped costs nothing and arrives as
Python has it. To a selector a plain `int` is a `long`, and a plain `float` a `double`.
"""

from __future__ import annotations

import struct
from typing import ClassVar, Self, SupportsFloat, SupportsInt

__all__ = ["Byte", "Char", "Double", "Float", "Int", "Long", "QueueName", "Short"]


def is_text(value: str) -> bool:
    """Whether a text can be sent: `os.fsdecode` and bad JSON give characters that no encoding has."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


class _Sized(int):
    """An integer of a number of bits."""

    __slots__ = ()
    #: What the wire calls it, and what selectors do.
    __shoal_type__: ClassVar[str]
    jms_type: ClassVar[str]
    _bits: ClassVar[int]

    def __new__(cls, value: SupportsInt) -> Self:
        number = super().__new__(cls, value)
        limit = 1 << (cls._bits - 1)
        if not -limit <= number < limit:
            raise ValueError(f"{int(number)} does not fit a {cls.__name__}: {-limit} to {limit - 1}")
        return number

    def __repr__(self) -> str:
        return f"{type(self).__name__}({int(self)})"

    __str__ = int.__repr__


class Byte(_Sized):
    """An integer of 8 bits, -128 to 127."""

    __slots__ = ()
    __shoal_type__ = "Byte"
    jms_type = "byte"
    _bits = 8


class Short(_Sized):
    """An integer of 16 bits."""

    __slots__ = ()
    __shoal_type__ = "Short"
    jms_type = "short"
    _bits = 16


class Int(_Sized):
    """An integer of 32 bits."""

    __slots__ = ()
    __shoal_type__ = "Int"
    jms_type = "int"
    _bits = 32


class Long(_Sized):
    """An integer of 64 bits."""

    __slots__ = ()
    __shoal_type__ = "Long"
    jms_type = "long"
    _bits = 64


class Float(float):
    """A number of single precision: the value is rounded to 32 bits when it is made."""

    __slots__ = ()
    __shoal_type__: ClassVar[str] = "Float"
    jms_type: ClassVar[str] = "float"

    def __new__(cls, value: SupportsFloat) -> Self:
        """Round a number."""
        number = float(value)
        try:
            (rounded,) = struct.unpack("<f", struct.pack("<f", number))
        except OverflowError:
            raise ValueError(f"{number} does not fit a Float: it has 32 bits") from None
        return super().__new__(cls, rounded)

    def __repr__(self) -> str:
        return f"Float({float(self)!r})"

    __str__ = float.__repr__


class Double(float):
    """A number of double precision, as a plain `float` is: it arrives as one."""

    __slots__ = ()
    jms_type: ClassVar[str] = "double"

    def __repr__(self) -> str:
        return f"Double({float(self)!r})"

    __str__ = float.__repr__


class Char(str):
    """One character of Java's: a UTF-16 code unit."""

    __slots__ = ()
    __shoal_type__: ClassVar[str] = "Char"

    def __new__(cls, value: str) -> Self:
        """Check that it is one."""
        if len(value) != 1 or ord(value) > 0xFFFF:
            raise ValueError(f"{value!r} is not one character of 16 bits")
        return super().__new__(cls, value)

    @classmethod
    def of_unit(cls, unit: int) -> Self:
        """The character with this code."""
        return cls(chr(unit))

    def unit(self) -> int:
        """Its code."""
        return ord(self)

    def __repr__(self) -> str:
        return f"Char({str(self)!r})"


class QueueName(str):
    """The name of a queue where a plain `str` would be the name of a topic, such as in `reply_to`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"QueueName({str(self)!r})"
