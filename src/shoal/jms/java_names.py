"""Java's names of methods: an error that says what a method is called here."""

import re
from typing import TYPE_CHECKING

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class JavaNames:
    """A class of Jakarta Messaging: names the Python method or attribute where a program uses Java's name."""

    __slots__ = ()

    # A type checker must still refuse names that do not exist.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            if meant := python_name(name, type(self)):
                text += f". Java's {name} is {meant!r} here"
            raise AttributeError(text, name=name, obj=self)


def python_name(name: str, kind: type) -> str | None:
    """What a method of Java's is called in a class; `None` if the class has no such thing."""
    snake = _WORD.sub("_", name).lower()
    # A getter and a setter are an attribute; times say their unit.
    stems = [
        snake,
        *(snake.removeprefix(prefix) for prefix in ("get_", "set_", "is_", "get_jms_", "set_jms_")),
    ]
    public = [each for each in dir(kind) if not each.startswith("_")]
    found = [each for stem in stems for each in (stem, f"{stem}_s") if each != name and each in public]
    return found[0] if found else None
