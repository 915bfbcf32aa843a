"""What the tests of the bus share."""

import itertools
from collections.abc import Iterator

import pytest
from plain_store import PlainStore

import shoal

_numbers = itertools.count(1)


@pytest.fixture
def domain() -> str:
    """The URL of an `inproc` domain that no other test uses."""
    return f"inproc://unit-{next(_numbers)}"


@pytest.fixture
def bus(domain: str) -> Iterator[shoal.Bus]:
    """A connection to it."""
    with shoal.connect(domain) as bus:
        yield bus


@pytest.fixture
def other(domain: str) -> Iterator[shoal.Bus]:
    """Another connection to it."""
    with shoal.connect(domain) as bus:
        yield bus


@pytest.fixture
def store(domain: str) -> Iterator[PlainStore]:
    """A plain store in it."""
    with shoal.connect(domain) as bus:
        yield PlainStore(bus)
