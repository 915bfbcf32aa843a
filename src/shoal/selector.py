"""Message selectors.

A plain `int` counts as a JMS `long` and a plain `float` as a `double`. The classes of `shoal.types` say
otherwise: they behave as the numbers they are, and carry a type that decides how Java promotes them.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, Self, TypeAlias

from shoal import _core
from shoal.errors import InvalidSelectorError

PropertyValue: TypeAlias = bool | int | float | str | None
"""What a property or header field can be; `None` is the same as its absence."""


class Selectable(Protocol):
    """A message, as far as a selector looks at it: `shoal.Message` is one."""

    @property
    def properties(self) -> Mapping[str, PropertyValue]:
        """The properties by name."""

    @property
    def priority(self) -> int:
        """`JMSPriority`."""

    @property
    def timestamp(self) -> float | None:
        """`JMSTimestamp`, in seconds."""

    @property
    def message_id(self) -> str | None:
        """`JMSMessageID`."""

    @property
    def correlation_id(self) -> str | bytes | None:
        """`JMSCorrelationID`; bytes are no text, and so null to a selector."""

    @property
    def type(self) -> str | None:
        """`JMSType`."""


def _header_fields(message: Selectable) -> dict[str, PropertyValue]:
    correlation_id = message.correlation_id
    return {
        "JMSCorrelationID": correlation_id if isinstance(correlation_id, str) else None,
        "JMSDeliveryMode": "PERSISTENT" if getattr(message, "persistent", False) else "NON_PERSISTENT",
        "JMSMessageID": message.message_id,
        "JMSPriority": message.priority,
        "JMSTimestamp": None if message.timestamp is None else round(message.timestamp * 1000),
        "JMSType": message.type,
    }


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text is {text!r}, and must be a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode(errors="replace").decode()
        caret = f"{shown}\n{' ' * error.start}^"
        raise InvalidSelectorError(error.start, repr(text[error.start]), "a character", caret) from None


class Selector:
    """A message selector (Jakarta Messaging 3.1, section 3.8). May be shared between threads.

    Two selectors are equal when their canonical forms are; `str()` gives the canonical form. The empty
    string is no selector at all and matches every message.
    """

    __slots__ = ("_core",)

    def __init__(self, text: str) -> None:
        _check_text(text)
        try:
            self._core = _core.Selector(text)
        except _core.SelectorSyntaxError as error:
            raise InvalidSelectorError(*error.args) from None

    @property
    def core(self) -> "_core.Selector":
        """What the extension module takes."""
        return self._core

    @classmethod
    def _wrap(cls, core: _core.Selector) -> Self:
        selector = cls.__new__(cls)
        selector._core = core
        return selector

    @classmethod
    def any_of(cls, selectors: Iterable["Selector"]) -> Self:
        """Return the selector that matches what at least one of `selectors` matches."""
        return cls._wrap(_core.Selector.any_of([selector._core for selector in selectors]))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the selector that `encode` made `data` from."""
        return cls._wrap(_core.Selector.decode(data))

    def encode(self) -> bytes:
        """Return the wire form, in which nodes exchange selectors."""
        return self._core.encode()

    @property
    def names(self) -> tuple[str, ...]:
        """The header fields and properties that the selector mentions."""
        return tuple(self._core.names())

    def matches(
        self,
        properties: Mapping[str, PropertyValue] | Selectable,
        headers: Mapping[str, PropertyValue] | None = None,
    ) -> bool:
        """Tell whether a message is selected.

        Args:
            properties: the message's properties by name, or a message, which brings its header fields along.
            headers: the message's header fields by their JMS names. `JMSDeliveryMode` may be JMS's number
                (1 or 2) or its name (`NON_PERSISTENT` or `PERSISTENT`).
        """
        if isinstance(properties, Mapping):
            return self._core.matches(properties, headers)
        if headers is not None:
            raise TypeError("a message brings its own header fields: leave `headers` out")
        return self._core.matches(properties.properties, _header_fields(properties))

    def __str__(self) -> str:
        return str(self._core)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return type(self).decode, (self.encode(),)


class CorrelationFilter:
    """Which correlation IDs are wanted: IDs and ranges, such as `#1, [#7;#13]`.

    May be shared between threads.
    """

    __slots__ = ("_core",)

    def __init__(self, text: str) -> None:
        _check_text(text)
        try:
            self._core = _core.CorrelationFilter(text)
        except _core.SelectorSyntaxError as error:
            raise InvalidSelectorError(*error.args) from None

    @property
    def core(self) -> "_core.CorrelationFilter":
        """What the extension module takes."""
        return self._core

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the filter that `encode` made `data` from."""
        made = cls.__new__(cls)
        made._core = _core.CorrelationFilter.decode(data)
        return made

    def encode(self) -> bytes:
        """Return the wire form, in which nodes exchange filters."""
        return self._core.encode()

    def matches(self, correlation_id: str) -> bool:
        """Tell whether the ID is wanted."""
        return self._core.matches(correlation_id)

    def __str__(self) -> str:
        return str(self._core)

    def __repr__(self) -> str:
        return f"CorrelationFilter({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CorrelationFilter) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> tuple[object, tuple[bytes]]:
        return type(self).decode, (self.encode(),)
