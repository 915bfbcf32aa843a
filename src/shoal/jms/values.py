"""Java's types, and which of them may be read as which (sections 3.5.4 and 3.11.3 of Jakarta Messaging 3.1).

A plain `int` is a `long`, a plain `float` a `double`; the classes of `shoal.types` are the others. Nothing
here knows messages.
"""

import math
import re
import struct
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from shoal.errors import InvalidArgumentError, MessageFormatError, NumberFormatError
from shoal.types import Byte, Char, Double, Float, Int, Long, Short

BOOLEAN, BYTE, SHORT, CHAR, INT, LONG = "boolean", "byte", "short", "char", "int", "long"
FLOAT, DOUBLE, STRING, BYTES = "float", "double", "String", "byte[]"

#: What may be read as the type in front, beside a text, which may be read as all of them but `char`.
_READABLE = {
    BOOLEAN: {BOOLEAN},
    BYTE: {BYTE},
    SHORT: {BYTE, SHORT},
    CHAR: {CHAR},
    INT: {BYTE, SHORT, INT},
    LONG: {BYTE, SHORT, INT, LONG},
    FLOAT: {FLOAT},
    DOUBLE: {FLOAT, DOUBLE},
    STRING: {BOOLEAN, BYTE, SHORT, CHAR, INT, LONG, FLOAT, DOUBLE, STRING},
    BYTES: {BYTES},
}

_KINDS: dict[type, str] = {
    bool: BOOLEAN,
    Byte: BYTE,
    Short: SHORT,
    Char: CHAR,
    Int: INT,
    Long: LONG,
    int: LONG,
    Float: FLOAT,
    Double: DOUBLE,
    float: DOUBLE,
    str: STRING,
    bytes: BYTES,
}

_SIZES = {BYTE: 8, SHORT: 16, INT: 32, LONG: 64}
_CLASSES: dict[str, Callable[[Any], Any]] = {BYTE: Byte, SHORT: Short, INT: Int, LONG: Long}

LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

#: What `Double.valueOf` takes: decimal or hexadecimal, with Java's suffixes.
_DECIMAL = re.compile(r"[+-]?(NaN|Infinity|((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[fFdD]?)")
_HEXADECIMAL = re.compile(r"([+-]?)0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?\d+)[fFdD]?")
_WHOLE = re.compile(r"[+-]?\d+")
#: What Java's `trim` takes away.
_BLANKS = "".join(map(chr, range(33)))


def kind_of(value: object) -> str | None:
    """Which of Java's types a value is; `None` if it is none of them."""
    kind = _KINDS.get(type(value))
    if kind is None:
        for known in (bool, int, float, str, bytes):
            if isinstance(value, known):
                return _KINDS[known]
    return kind


def accepted(kind: str, value: object) -> Any:
    """A value to be kept as one of Java's types. What does not fit raises.

    Raises:
        MessageFormatError: the value is of another type, or too large.
    """
    if kind in _SIZES:
        if isinstance(value, bool) or not isinstance(value, int):
            raise _unfit(value, kind, "a whole number")
        try:
            fitting = _CLASSES[kind](value)
            # A plain number is a long, before it is sent and afterwards.
            return int(fitting) if kind == LONG else fitting
        except ValueError as error:
            raise MessageFormatError(str(error)) from None
    if kind in (FLOAT, DOUBLE):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _unfit(value, kind, "a number")
        try:
            return _to_float(float(value)) if kind == FLOAT else float(value)
        except OverflowError as error:
            raise MessageFormatError(f"a {kind} cannot hold so large a number: {error}") from None
    if kind == BOOLEAN:
        if not isinstance(value, bool):
            raise _unfit(value, kind, "True or False")
        return value
    if kind == CHAR:
        if isinstance(value, str) and len(value) == 1 and ord(value) <= 0xFFFF:
            return Char(value)
        raise _unfit(value, kind, "a str of one character of 16 bits")
    if kind == STRING:
        if value is not None and not isinstance(value, str):
            raise _unfit(value, kind, "a str or None")
        return value
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _unfit(value, kind, "bytes")
    return bytes(value)


def _unfit(value: object, kind: str, wanted: str) -> MessageFormatError:
    return MessageFormatError(f"{value!r} cannot be a {kind}: it must be {wanted}")


def converted(value: object, wanted: str, what: str) -> Any:
    """A value read as one of Java's types, as a plain Python value. `what` names it in an error.

    Raises:
        MessageFormatError: values of its type cannot be read so.
        NumberFormatError: it is a text that is no such number.
        TypeError: it is null, where Java has a NullPointerException.
    """
    if value is None:
        return _null(wanted, what)
    kind = kind_of(value)
    if kind == STRING and wanted not in (STRING, CHAR, BYTES):
        return _parsed(str(value), wanted, what)
    if kind not in _READABLE[wanted]:
        held = kind or type(value).__name__
        raise MessageFormatError(f"{what} is {_a(held)}, which cannot be read as {_a(wanted)}")
    if wanted == STRING:
        return text_of(value)
    # Its kind says that it is a number.
    number: Any = value
    if wanted in (FLOAT, DOUBLE):
        return float(number)
    if wanted in _SIZES:
        return int(number)
    return str(value) if wanted == CHAR else value


def _a(kind: str) -> str:
    return f"an {kind}" if kind == INT else f"a {kind}"


def _null(wanted: str, what: str) -> Any:
    """Null is read as the `valueOf` of a null text."""
    if wanted in (STRING, BYTES):
        return None
    if wanted == BOOLEAN:
        return False
    if wanted in _SIZES:
        raise NumberFormatError(f"{what} is not there, or null, and cannot be read as {_a(wanted)}")
    raise InvalidArgumentError(f"{what} is not there, or null, and cannot be read as {_a(wanted)}")


def _parsed(text: str, wanted: str, what: str) -> Any:
    if wanted == BOOLEAN:
        return text.lower() == "true"
    if wanted in _SIZES:
        limit = 1 << (_SIZES[wanted] - 1)
        if _WHOLE.fullmatch(text) and -limit <= int(text) < limit:
            return int(text)
        raise NumberFormatError(f"{what} is {text!r}, which is no {wanted}")
    exact = _real(text.strip(_BLANKS))
    if exact is None:
        raise NumberFormatError(f"{what} is {text!r}, which is no {wanted}")
    return float(_narrowed(exact)) if wanted == FLOAT else _widened(exact)


def _real(text: str) -> Fraction | float | None:
    """A number as Java writes it; a `float` only where it is not finite, or zero with a sign."""
    hexadecimal = _HEXADECIMAL.fullmatch(text)
    if hexadecimal is not None:
        sign, whole, fraction, exponent = hexadecimal.groups()
        if not whole + fraction:
            return None
        power = max(-3000, min(int(exponent), 3000)) - 4 * len(fraction)
        number = Fraction(int(whole + fraction, 16)) * Fraction(2) ** power
        return _signed(-number if sign == "-" else number, sign)
    if _DECIMAL.fullmatch(text) is None:
        return None
    plain = text.rstrip("fFdD") if text[-1] in "fFdD" else text
    if plain.endswith(("NaN", "Infinity")):
        return float(plain)
    if "e" in plain.lower():
        mantissa, _, exponent = plain.lower().partition("e")
        # Beyond this everything is zero, or infinite.
        plain = f"{mantissa}e{max(-5000, min(int(exponent), 5000))}"
    return _signed(Fraction(plain), plain[0])


def _signed(number: Fraction, sign: str) -> Fraction | float:
    return number if number else (-0.0 if sign == "-" else 0.0)


def _widened(exact: Fraction | float) -> float:
    try:
        return float(exact)
    except OverflowError:
        return -math.inf if exact < 0 else math.inf


def _narrowed(exact: Fraction | float) -> float:
    """The nearest number of 32 bits, rounded once and not by way of 64 bits."""
    if isinstance(exact, float):
        return _to_float(exact)
    near = _to_float(_widened(exact))
    if math.isinf(near):
        return near
    (bits,) = struct.unpack("<i", struct.pack("<f", near))
    around = [near]
    for step in (-1, 1):
        if bits + step & 0x7FFFFFFF < 0x7F800000:
            around += struct.unpack("<f", struct.pack("<i", bits + step))
    # To the nearest, and to the even one of two that are as near.
    return min(around, key=lambda each: (abs(Fraction(each) - exact), _is_odd(each)))


def _is_odd(number: float) -> int:
    (bits,) = struct.unpack("<i", struct.pack("<f", number))
    return int(bits & 1)


def _to_float(number: float) -> Float:
    """Java's cast of a double to a float: too large is infinite."""
    try:
        return Float(number)
    except ValueError:
        return Float(math.copysign(math.inf, number))


def text_of(value: Any) -> str:
    """A value as Java's `String.valueOf` writes it."""
    kind = kind_of(value)
    if kind == BOOLEAN:
        return "true" if value else "false"
    if kind in (FLOAT, DOUBLE):
        return _real_text(float(value), _shortest(value) if kind == FLOAT else repr(float(value)))
    return str.__str__(value) if isinstance(value, str) else str(int(value))


def _shortest(value: float) -> str:
    """The fewest digits that are this number of 32 bits and no other."""
    number = float(value)
    if not math.isfinite(number):
        return repr(number)
    for digits in range(1, 10):
        text = f"{number:.{digits}g}"
        if _to_float(float(text)) == number:
            return text
    return repr(number)


def _real_text(number: float, shortest: str) -> str:
    """Java's form: `1.0`, `1.0E10`, `1.0E-5`, `NaN`, `Infinity`."""
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    if math.isinf(number):
        return f"{sign}Infinity"
    mantissa, _, power = shortest.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return f"{sign}0.0"
    # The number is 0.digits times ten to the exponent.
    exponent = len(whole) + int(power or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if -3 < exponent <= 7:
        if exponent <= 0:
            return f"{sign}0.{'0' * -exponent}{digits}"
        return f"{sign}{digits[:exponent].ljust(exponent, '0')}.{digits[exponent:] or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"
