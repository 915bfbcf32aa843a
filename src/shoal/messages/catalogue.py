"""Every notice, by number; and the English of a line in any language."""

import re
from collections.abc import Iterator
from string import Formatter
from types import ModuleType

from shoal.messages import bus, console, daemon, errors, gateway, jms, link, norm, registry, spark, store, web
from shoal.messages import notice as lines
from shoal.messages.language import available, translated
from shoal.messages.notice import Notice

_AREAS = (errors, link, bus, store, jms, daemon, registry, gateway, console, web, spark, norm, lines)


def _named(areas: tuple[ModuleType, ...]) -> Iterator[tuple[str, Notice]]:
    for area in areas:
        for name, value in vars(area).items():
            if isinstance(value, Notice):
                yield f"{area.__name__.rpartition('.')[2]}.{name}", value


#: Each notice by its name, such as `bus.MEMBER_SLOW`.
NOTICES = dict(_named(_AREAS))
_BY_NUMBER = {notice.number: notice for notice in NOTICES.values()}


def translatable() -> Iterator[tuple[str, str]]:
    """What a translation has to give, each with its context: the id of its notice."""
    for _, each in sorted(_BY_NUMBER.items()):
        yield from ((each.id, text) for text in (each.text, each.advice) if text)


def find(what: str) -> Notice | None:
    """The notice of a number, an id, or a log line that has one."""
    found = re.search(r"SHOAL-(\d{4})\b", what) or re.fullmatch(r"\s*(\d{4})\s*", what)
    return _BY_NUMBER.get(int(found[1])) if found else None


def in_english(line: str) -> str | None:
    """The English of a log line in any language; `None` if it has no id, or is of another version."""
    notice = find(line)
    if notice is None:
        return None
    said = line[line.index(notice.id) + len(notice.id) :] if notice.id in line else line
    # Behind the text there may be the number of suppressed lines, or an exception.
    for rest in (r"\s*$", r"\W.*$"):
        for language in available():
            text = " ".join(
                translated(notice.id, each, language) for each in (notice.text, notice.advice) if each
            )
            args = _arguments(text, rest, said)
            if args is not None:
                return " ".join(filter(None, (_filled(notice.text, args), notice.advice)))
    return None


def _arguments(text: str, rest: str, line: str) -> dict[str, str] | None:
    """The arguments in a line that was made of that text."""
    pattern = r"\s*(?:[a-z]+: )??"
    for literal, name, _, _ in Formatter().parse(text):
        # A formatter may have broken the line, or joined it.
        pattern += r"\s+".join(map(re.escape, re.split(r"\s+", literal)))
        if name is not None:
            pattern += f"(?P={name})" if f"(?P<{name}>" in pattern else f"(?P<{name}>.*?)"
    found = re.match(pattern + rest, line, re.DOTALL)
    return found.groupdict() if found else None


def _filled(text: str, args: dict[str, str]) -> str:
    parts = Formatter().parse(text)
    return "".join(literal + (args[name] if name is not None else "") for literal, name, _, _ in parts)
