"""What every configuration checks when it is made. An error names the field, its value and what would do."""

import dataclasses
import difflib
import math
from collections.abc import Iterable
from typing import Any, ClassVar, Literal, get_args, get_origin

from shoal.errors import ConfigError

#: Types of fields that take whole numbers, and of those that take any.
WHOLE = (int, int | None)
NUMBER = (float, float | None)


class Checked:
    """A frozen dataclass that checks its fields."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def check_types(self) -> None:
        """Refuse what is not of its field's type; types that are not listed here are the class's business."""
        for field in dataclasses.fields(self):
            value, kind = getattr(self, field.name), field.type
            if value is None and type(None) in get_args(kind):
                continue
            if kind in WHOLE:
                self.check(field.name, is_whole(value), "a whole number")
            elif kind in NUMBER:
                fine = is_whole(value) or (isinstance(value, float) and math.isfinite(value))
                self.check(field.name, fine, "a number")
            elif kind is bool or kind is bytes:
                wanted = "True or False" if kind is bool else "bytes"
                self.check(field.name, isinstance(value, kind), wanted)
            elif get_origin(kind) is Literal:
                *most, last = get_args(kind)
                self.check(field.name, value in (*most, last), f"{', '.join(most)} or {last}")
            elif kind in (str, str | None):
                self.check(field.name, isinstance(value, str) and bool(value), "a text that is not empty")

    def check(self, field: str, fine: bool, wanted: str) -> None:
        """Refuse a field unless it is fine."""
        if not fine:
            raise ConfigError(f"{field} is {getattr(self, field)!r}, and must be {wanted}")

    def check_range(self, field: str, least: float, most: float | None = None) -> None:
        """Refuse a number out of its range; `None` is in it."""
        value = getattr(self, field)
        fine = value is None or (least <= value and (most is None or value <= most))
        none = ", or None" if type(None) in get_args(_type_of(self, field)) else ""
        wanted = f"at least {least}" if most is None else f"from {least} to {most}"
        self.check(field, fine, wanted + none)


def unknown_option(name: str, known: Iterable[str], where: str = "") -> ConfigError:
    """The error for an option that there is not."""
    known = sorted(known)
    # `timeout` is rather `connect_timeout_s` than what is spelt alike.
    near = [one for one in known if name in one.split("_")] or difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"the options are {', '.join(known)}"
    return ConfigError(f"unknown option {name!r}{where}: {hint}")


def is_whole(value: object) -> bool:
    """Whether it is a whole number, and not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


def _type_of(config: Checked, field: str) -> Any:
    return config.__dataclass_fields__[field].type
