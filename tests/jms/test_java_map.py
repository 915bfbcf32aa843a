"""The page for people from Java names what is there, and leaves out no public name of the classes."""

import inspect
import re
from pathlib import Path

import pytest

from shoal import jms

PAGE = Path(__file__).parents[2] / "docs/how-to/jms-from-java.md"
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([a-zA-Z_]+)`")


def named() -> dict[str, set[str]]:
    """The names that the page has for each class, in the right-hand columns."""
    parts = _HEADING.split(PAGE.read_text())[1:]
    found = {}
    for heading, text in zip(parts[::2], parts[1::2], strict=True):
        rows = [line.rsplit("|", 2)[1] for line in text.splitlines() if line.startswith("|")]
        found[heading] = {name for row in rows for name in _NAME.findall(row)}
    return found


@pytest.mark.parametrize("heading", [name for name in named() if hasattr(jms, name)])
def test_what_the_page_names_is_there(heading: str) -> None:
    missing = {
        name
        for name in named()[heading]
        if not hasattr(getattr(jms, heading), name) and not hasattr(jms, name)
    }
    # A word of the text that is no name of this class.
    assert missing <= {"timeout_s", "set_", "started"}


def test_every_class_that_java_has_is_on_the_page() -> None:
    classes = {
        name for name in jms.__all__ if inspect.isclass(getattr(jms, name)) and not name.endswith("Error")
    }
    # The first three are values or bases, the last is any object with two methods.
    assert classes - set(named()) == {"AcknowledgeMode", "DeliveryMode", "Destination", "CompletionListener"}


@pytest.mark.parametrize(
    "name", ["Session", "MessageProducer", "MessageConsumer", "Connection", "QueueBrowser"]
)
def test_every_public_name_of_a_class_is_on_the_page(name: str) -> None:
    public = {each for each in dir(getattr(jms, name)) if not each.startswith("_")}
    assert public - named()[name] <= {"number"}
