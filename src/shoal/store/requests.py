"""Fields of a request, checked. What is wrong becomes an answer that names the field."""

import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from shoal._core import Selector
from shoal.bus.store_protocol import NAME_BYTES_MAX, RUNS_MAX
from shoal.errors import InvalidSelectorError
from shoal.selector import Selector as PublicSelector
from shoal.types import is_text

#: Runs of offsets, both ends included.
Runs = list[tuple[int, int]]

_OFFSET_MAX = (1 << 63) - 1


class RequestError(Exception):
    """A request that is not done: the code, a sentence, and what else the answer says."""

    def __init__(self, code: str, text: str, **more: Any) -> None:
        super().__init__(text)
        self.code = code
        self.text = text
        self.more = more


def _bad(name: str, value: object, wanted: str) -> RequestError:
    # Of a long list only the beginning is read.
    return RequestError("BAD_REQUEST", f"{name} is {reprlib.repr(value):.100}, and must be {wanted}")


def _is_text(value: object, most: int) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= most and is_text(value) and len(value.encode()) <= most
    )


class Request:
    """A request's fields, by type."""

    __slots__ = ("_fields",)

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = fields

    def get(self, name: str) -> object:
        """A field as it came, for whoever checks it; none if it was not given."""
        return self._fields.get(name)

    def has(self, name: str) -> bool:
        """Whether a field was given."""
        return self._fields.get(name) is not None

    def number(self, name: str, least: int = 0, most: int = _OFFSET_MAX, default: int | None = None) -> int:
        """A whole number."""
        value = self._fields.get(name, default)
        if value is None and default is not None:
            value = default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _bad(name, value, f"a whole number from {least} to {most}")
        return value

    def seconds(self, name: str, default: float | None = None) -> float | None:
        """A time span, or none."""
        value = self._fields.get(name, default)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e10:
            raise _bad(name, value, "a number of seconds")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false; false if it was not given."""
        value = self._fields.get(name, False)
        if not isinstance(value, bool):
            raise _bad(name, value, "true or false")
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._fields.get(name, default)
        if not _is_text(value, NAME_BYTES_MAX):
            raise _bad(name, value, f"a text of 1 to {NAME_BYTES_MAX} bytes")
        return str(value)

    def optional_text(self, name: str) -> str | None:
        """A text that is not empty, or none."""
        return self.text(name) if self.has(name) else None

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """One of some texts."""
        value = self._fields.get(name, default)
        if value not in choices:
            raise _bad(name, value, " or ".join(choices))
        return str(value)

    def texts(self, name: str) -> list[str]:
        """A list of texts, not empty."""
        value = self._fields.get(name)
        if not isinstance(value, list) or not value or len(value) > 100:
            raise _bad(name, value, "a list of 1 to 100 texts")
        if not all(_is_text(each, 255) for each in value):
            raise _bad(name, value, "a list of texts of 1 to 255 bytes")
        return [str(each) for each in value]

    def data(self, name: str) -> bytes:
        """Bytes."""
        value = self._fields.get(name)
        if not isinstance(value, bytes):
            raise _bad(name, value, "bytes")
        return value

    def part(self, name: str) -> "Request":
        """A mapping with fields of its own."""
        value = self._fields.get(name)
        if not isinstance(value, Mapping):
            raise _bad(name, value, "a mapping")
        return Request(value)

    def counts(self, name: str) -> dict[int, int]:
        """Numbers by offsets; empty if they were not given."""
        value = self._fields.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping) or len(value) > RUNS_MAX:
            raise _bad(name, value, "a mapping from offsets to numbers")
        if not all(type(each) is int and 0 <= each <= _OFFSET_MAX for item in value.items() for each in item):
            raise _bad(name, value, "a mapping from offsets to numbers")
        return dict(value)

    def items(self, name: str) -> list[Any]:
        """A list of anything; empty if it was not given."""
        value = self._fields.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or len(value) > RUNS_MAX:
            raise _bad(name, value, f"a list of at most {RUNS_MAX} entries")
        return value

    def runs(self, name: str) -> Runs:
        """Runs of offsets; none if they were not given."""
        return runs_of(name, self._fields.get(name) or [])

    def selector(self, name: str = "selector") -> Selector | None:
        """A selector, or none."""
        value = self._fields.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str) or len(value) > 65_536:
            raise _bad(name, value, "a text of at most 65536 characters")
        try:
            return PublicSelector(value).core
        except InvalidSelectorError as error:
            raise RequestError("BAD_REQUEST", f"{name} is no selector: {error}") from None


def runs_of(name: str, value: object) -> Runs:
    """Runs from a flat list: first, last, first, last, …"""
    wanted = "first, last, first, last, …, ascending"
    if not isinstance(value, list) or len(value) % 2 or len(value) > RUNS_MAX:
        raise _bad(name, value, f"a list of at most {RUNS_MAX} numbers: {wanted}")
    for each in value:
        if not isinstance(each, int) or isinstance(each, bool) or not 0 <= each < _OFFSET_MAX:
            raise _bad(name, value, wanted)
    runs = list(zip(value[::2], value[1::2], strict=True))
    if any(first > last for first, last in runs):
        raise _bad(name, value, wanted)
    return runs
