"""Names of other systems: not there, and the error says what to write instead."""

from collections.abc import Mapping
from typing import NoReturn


class _Elsewhere:
    """One such name of a class.

    A method `__getattr__` would make every other name slower, `publish` among them.
    """

    __slots__ = ("_hint", "_name")

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: {self._hint}",
            name=self._name,
            obj=instance,
        )


def hint(owner: type, hints: Mapping[str, str]) -> None:
    """Have a class name its own words for those of other systems; `dir` and type checkers see neither."""

    def names(self: object) -> list[str]:
        return [name for name in object.__dir__(self) if name not in hints]

    for name, text in hints.items():
        setattr(owner, name, _Elsewhere(name, text))
    owner.__dir__ = names  # type: ignore[assignment]
