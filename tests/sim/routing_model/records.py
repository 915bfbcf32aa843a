"""What nodes say to each other. Control and data travel in lanes of their own, each in order."""

from __future__ import annotations

from typing import Literal, NamedTuple

Why = Literal["unwanted", "lost", "older"]
#: Where a chain enters the network: ("lan", link) or ("router", id).
Root = tuple[str, int]
#: A subscription: a topic, and a value if it has a selector.
Entry = tuple[int, int | None]
Interest = frozenset[Entry]


def matches(interest: Interest, topic: int, value: int) -> bool:
    """Whether some subscription wants a message."""
    return any(wanted == topic and (only is None or only == value) for wanted, only in interest)


class Own(NamedTuple):
    """In place of a clock, in a unicast answer: the asker's version that the skip was decided under (C5)."""

    version: int


class Message(NamedTuple):
    """A message of a chain."""

    chain: int
    number: int
    topic: int
    value: int
    at_s: float
    root: Root


class Skip(NamedTuple):
    """Numbers from `first` to before `end` that do not come as messages."""

    chain: int
    first: int
    end: int
    why: Why
    clock: int | Own
    digest: int | None
    root: Root


class Applied(NamedTuple):
    """In the data lane: from this clock on, skips are decided under this version of a member's interest."""

    clock: int
    member: int
    version: int


class Announce(NamedTuple):
    """The whole interest of a program, or what a router wants of a link (`View`)."""

    version: int
    interest: Interest
    is_router: bool


class LinkState(NamedTuple):
    """A router's links, and the routers it hears on each."""

    router: int
    stamp: float
    links: frozenset[tuple[int, frozenset[int]]]


class RouterInterest(NamedTuple):
    """What a router's own programs want, and their versions."""

    router: int
    stamp: float
    interest: Interest
    versions: frozenset[tuple[int, int]]


class Position(NamedTuple):
    """The last number of a chain."""

    chain: int
    last: int
    root: Root
    ended: bool


class Positions(NamedTuple):
    """How far chains are."""

    entries: tuple[Position, ...]


class Replay(NamedTuple):
    """A request: everything from a number on, or (first = 0) from an age on."""

    chain: int
    first: int
    age_s: float | None
    root: Root | None


class Hello(NamedTuple):
    """A request for the whole interest, and for Applied anew."""


class Goodbye(NamedTuple):
    """A program leaves; its last number."""

    last: int
    root: Root


class Subject(NamedTuple):
    """What completeness is about: a publisher's messages, or a subscriber's interest."""

    kind: Literal["messages", "interest"]
    program: int


class Watch(NamedTuple):
    """A request for reports of completeness; a later one of the program has a higher stamp."""

    subject: Subject
    root: Root
    stamp: int


class Complete(NamedTuple):
    """A report: all behind the sender have the subject up to this number, under this digest."""

    subject: Subject
    number: int
    digest: int | None
    losers: frozenset[int]
