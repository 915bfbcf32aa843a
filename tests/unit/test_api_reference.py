"""Every public thing has a docstring when the program runs, and a place in the reference."""

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import shoal

PAGES = Path(__file__).parents[2] / "docs/reference/api"
MODULES = (
    "shoal",
    "shoal.aio",
    "shoal.codecs",
    "shoal.config",
    "shoal.errors",
    "shoal.history",
    "shoal.link",
    "shoal.norm",
    "shoal.selector",
    "shoal.testing",
)
#: What is documented under another name, or is a value or an alias that its page explains in words.
ALIASES = {
    ("shoal", "Event"),
    ("shoal", "__version__"),
    ("shoal.norm", "Event"),
    ("shoal.norm", "NormConfig"),
}


def documented() -> set[str]:
    """What the pages ask the generator for."""
    text = "\n".join(path.read_text() for path in PAGES.glob("*.md"))
    return set(re.findall(r"^::: (\S+)", text, re.MULTILINE))


def public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    for name in names:
        thing = getattr(module, name)
        own = getattr(thing, "__module__", "").startswith("shoal")
        if own and not inspect.ismodule(thing) and (module.__name__, name) not in ALIASES:
            yield name, thing


THINGS = [
    pytest.param(thing, id=f"{module}.{name}")
    for module in MODULES
    for name, thing in public(importlib.import_module(module))
]


@pytest.mark.parametrize("thing", THINGS)
def test_a_public_thing_is_in_the_reference(thing: Any) -> None:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        pytest.skip("a value")
    home = "shoal._core" if thing is shoal.Message else thing.__module__
    pages = documented()
    assert f"{home}.{thing.__name__}" in pages or home in pages


@pytest.mark.parametrize("thing", THINGS)
def test_a_public_thing_and_its_members_have_docstrings(thing: Any) -> None:
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        pytest.skip("a value")
    assert thing.__doc__
    if not inspect.isclass(thing):
        return
    fields = getattr(thing, "__dataclass_fields__", {}) | getattr(thing, "__annotations__", {})
    own = [each for each in thing.__mro__ if each.__module__.startswith("shoal.")]
    for name, member in [item for each in own for item in vars(each).items()]:
        if name.startswith("_") or name in fields or not (callable(member) or hasattr(member, "__get__")):
            continue
        if not hasattr(thing, name):
            # A name of another system, whose error says what to write instead.
            continue
        assert inspect.getdoc(getattr(thing, name)) or inspect.getdoc(member), f"{thing.__name__}.{name}"


def test_the_pages_ask_for_nothing_that_is_not_there() -> None:
    for path in documented():
        module, _, name = path.rpartition(".")
        try:
            importlib.import_module(path)
        except ModuleNotFoundError:
            assert hasattr(importlib.import_module(module), name), path


@pytest.mark.parametrize("thing", THINGS)
def test_every_field_says_what_it_is(thing: Any) -> None:
    """A comment that begins with `#:` stands above each field, or a docstring says it all in a word."""
    if not dataclasses.is_dataclass(thing) or thing.__module__.startswith(("shoal.testing", "shoal.norm.")):
        pytest.skip("no fields of its own to describe")
    source = inspect.getsource(thing).splitlines()
    for field in thing.__annotations__:
        (at,) = [number for number, line in enumerate(source) if line.strip().startswith(f"{field}:")]
        assert source[at - 1].strip().startswith("#:"), f"{thing.__name__}.{field}"
