"""Bodies of types that Shoal does not know: how they become plain values, and plain values become them again.

`datetime`, `date`, `time`, `timedelta`, `Decimal`, `UUID` and numpy arrays are known, also inside lists and
mappings. For a class of your own say once, in every program that sends or receives it, what it is made of:

```python
import dataclasses

import shoal
from shoal import codecs


@dataclasses.dataclass
class Order:
    symbol: str
    amount: int


codecs.register_dataclass(Order)
with shoal.connect("inproc://codecs") as bus, bus.subscribe("orders") as orders:
    bus.publish("orders", {"first": Order("ACME", 5)})
    assert orders.receive().body == {"first": Order("ACME", 5)}
```

Nothing is pickled: a received message makes objects of registered types only, by calling what was
registered. A body of a type that is not registered where it is received raises `MessageFormatError` when
`.body` is asked for, never before.
"""

import dataclasses
import datetime
import decimal
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

from shoal.errors import ConfigError

__all__ = ["Boxed", "Codec", "find", "named", "register", "register_dataclass", "unregister"]

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Codec:
    """How objects of one class travel."""

    #: The class.
    kind: type
    #: What it is called on the wire; the same in every program.
    name: str
    #: Makes an object into plain values: str, bytes, numbers, `None`, lists, mappings, objects with codecs.
    encode: Callable[[Any], Any]
    #: Makes them into an object again.
    decode: Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Boxed:
    """A plain value that travels as an object and arrives as itself.

    So `shoal.jms` sends an `ObjectMessage` whose object is a str, which otherwise would be a text.
    """

    #: What is inside.
    value: Any


_by_kind: dict[type, Codec] = {}
_by_name: dict[str, Codec] = {}


def register(
    kind: type[T],
    encode: Callable[[T], Any] | None = None,
    decode: Callable[[Any], T] | None = None,
    *,
    name: str | None = None,
) -> Codec:
    """Say how objects of a class travel. Registering a class again replaces the registration before.

    Args:
        kind: the class itself; subclasses need codecs of their own.
        encode: makes an object into plain values, or objects that have codecs. A dataclass needs neither
            function: see `register_dataclass`.
        decode: makes such values into an object. It is called with what others sent: check it.
        name: what it is called on the wire, 1 to 255 characters; the class's qualified name if not given.

    Raises:
        ConfigError: the name belongs to another class.
    """
    if not isinstance(kind, type):
        raise TypeError(f"kind is {kind!r}, and must be a class")
    if encode is None and decode is None and dataclasses.is_dataclass(kind):
        return register_dataclass(kind, name=name)
    if not callable(encode):
        raise TypeError(f"encode is {encode!r}, and must be a function of one value")
    if not callable(decode):
        raise TypeError(f"decode is {decode!r}, and must be a function of one value")
    name = f"{kind.__module__}.{kind.__qualname__}" if name is None else name
    if not 1 <= len(name) <= 255:
        raise ConfigError(f"name is {name!r}, and must have 1 to 255 characters")
    taken = _by_name.get(name)
    if taken is not None and taken.kind is not kind:
        raise ConfigError(f"name is {name!r}, which is that of {taken.kind.__qualname__}: choose another")
    unregister(kind)
    codec = _by_kind[kind] = _by_name[name] = Codec(kind, name, encode, decode)
    return codec


def register_dataclass(kind: type[T], *, name: str | None = None) -> Codec:
    """Say that objects of a dataclass travel as a mapping of their fields.

    What arrives must have exactly the fields that its constructor takes; their types are not checked.
    """
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise TypeError(f"kind is {kind!r}, and must be a dataclass")
    fields = tuple(field.name for field in dataclasses.fields(kind) if field.init)

    def encode(thing: T) -> dict[str, Any]:
        return {field: getattr(thing, field) for field in fields}

    def decode(values: Any) -> Any:
        if not isinstance(values, dict) or set(values) != set(fields):
            raise ValueError(f"a {kind.__qualname__} is made of {', '.join(fields)}, not {values!r}")
        return kind(**values)

    return register(kind, encode, decode, name=name)


def unregister(kind: type) -> None:
    """Forget how objects of a class travel; nothing happens if that was not known."""
    codec = _by_kind.pop(kind, None)
    if codec is not None:
        del _by_name[codec.name]


def find(kind: type) -> Codec | None:
    """How objects of a class travel, if that is known."""
    return _by_kind.get(kind)


def named(name: str) -> Codec | None:
    """The codec with this name, if there is one."""
    return _by_name.get(name)


register(Boxed, lambda box: box.value, lambda value: value, name="value")
register(datetime.datetime, datetime.datetime.isoformat, datetime.datetime.fromisoformat, name="datetime")
register(datetime.date, datetime.date.isoformat, datetime.date.fromisoformat, name="date")
register(datetime.time, datetime.time.isoformat, datetime.time.fromisoformat, name="time")
register(
    datetime.timedelta,
    lambda span: [span.days, span.seconds, span.microseconds],
    lambda parts: datetime.timedelta(*parts),
    name="timedelta",
)
register(decimal.Decimal, str, decimal.Decimal, name="decimal")
register(uuid.UUID, lambda number: number.bytes, lambda content: uuid.UUID(bytes=content), name="uuid")
