"""A notice of the catalogue, and a line: the notice with its arguments."""

import logging
import traceback
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.messages.language import translated


@dataclass(frozen=True, slots=True)
class Notice:
    """One entry of the catalogue. Calling it with the arguments of its text makes a `Line`."""

    #: Never used for anything else, also after the notice is gone.
    number: int
    #: As `logging` numbers levels.
    level: int
    #: What happened, and to what. Placeholders are those of `str.format`.
    text: str
    #: What to do about it; empty if there is nothing to do.
    advice: str = ""

    @property
    def id(self) -> str:
        """Such as `SHOAL-2107`."""
        return f"SHOAL-{self.number}"

    def __call__(self, **args: object) -> "Line":
        """The notice with its arguments."""
        return Line(self, args)


@dataclass(frozen=True, slots=True)
class Line:
    """What a log line says, formatted when a handler prints it."""

    notice: Notice
    args: Mapping[str, object]
    #: Similar lines that were held back before this one.
    suppressed: int = 0

    @property
    def text(self) -> str:
        """The text and the advice, in the language of `SHOAL_LANG`."""
        id_ = self.notice.id
        parts = [translated(id_, self.notice.text).format_map(self.args), translated(id_, self.notice.advice)]
        if self.suppressed:
            parts.append(translated(SUPPRESSED.id, SUPPRESSED.text).format(count=self.suppressed))
        return " ".join(part for part in parts if part)

    def __str__(self) -> str:
        return f"{self.notice.id} {self.text}"

    def log(self, logger: logging.Logger, exc_info: BaseException | bool | None = None) -> None:
        """Log it at the level of its notice. A record has `shoal_id` and `shoal_args` besides."""
        extra = {"shoal_id": self.notice.id, "shoal_args": self.plain_args}
        logger.log(self.notice.level, self, exc_info=exc_info, extra=extra, stacklevel=2)

    def warn(self, category: type[Warning], stacklevel: int = 1) -> None:
        """Warn with `warnings`; `stacklevel` counts from the caller."""
        warnings.warn(str(self), category, stacklevel=stacklevel + 1)

    @property
    def plain_args(self) -> dict[str, Any]:
        """The arguments as JSON can hold them."""
        return {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in self.args.items()
        }


def named(error: BaseException) -> str:
    """An exception of the program's own code, as the last line of its traceback names it."""
    return "".join(traceback.format_exception_only(error)).strip()


def info(number: int, text: str, advice: str = "") -> Notice:
    """A notice of level info."""
    return Notice(number, logging.INFO, text, advice)


def warning(number: int, text: str, advice: str = "") -> Notice:
    """A notice of level warning."""
    return Notice(number, logging.WARNING, text, advice)


def error(number: int, text: str, advice: str = "") -> Notice:
    """A notice of level error."""
    return Notice(number, logging.ERROR, text, advice)


def critical(number: int, text: str, advice: str = "") -> Notice:
    """A notice of level critical."""
    return Notice(number, logging.CRITICAL, text, advice)


#: What a line adds for similar lines that its limit held back before it.
SUPPRESSED = info(9001, "(Similar lines suppressed: {count}.)")
