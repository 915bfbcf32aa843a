"""Pages of other packages: entry points of the group `shoal.console`.

An entry point is a function that takes nothing and returns an `Extension`.
"""

import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.messages import console as notices
from shoal.messages import named

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger("shoal.console")

GROUP = "shoal.console"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


@dataclass(frozen=True, kw_only=True)
class Extension:
    """A page of the console."""

    #: What the menu calls it.
    title: str
    #: A directory of files for browsers, served at `/ext/NAME/`; it has the page's module, `page.js`, whose
    #: default export is a Preact component.
    files: Path
    #: Its own requests, at `/api/v1/ext/NAME`. Callers are viewers at least.
    router: "APIRouter | None" = None


def load(
    found: Callable[[], Iterator[EntryPoint]] = lambda: iter(entry_points(group=GROUP)),
) -> dict[str, Extension]:
    """The extensions that are installed, by name. One that fails is left out, and logged."""
    loaded: dict[str, Extension] = {}
    for entry in found():
        try:
            extension = entry.load()()
            if not isinstance(extension, Extension) or not _NAME.fullmatch(entry.name):
                raise TypeError(f"{entry.value} returned no Extension, or its name is no lower-case word")
            if not (extension.files / "page.js").is_file():
                raise FileNotFoundError(f"{extension.files} has no page.js")
            loaded[entry.name] = extension
        except Exception as error:
            notices.EXTENSION_FAILED(name=entry.name, why=named(error)).log(log)
    return loaded
