"""What a connection tells its owner: who came, who went, and what was lost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A node is here."""

    node: int


@dataclass(frozen=True, slots=True)
class MemberLeft:
    """A node is gone; `failed` says that it did not say goodbye."""

    node: int
    failed: bool


@dataclass(frozen=True, slots=True)
class SubscriptionsChanged:
    """A node subscribes to something else now."""

    node: int
    added: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessagesLost:
    """Messages of a node are lost to us for good: so many segments of one of its priority classes."""

    node: int
    lane: int
    segments: int


@dataclass(frozen=True, slots=True)
class MemberSlow:
    """A node gets nowhere, and publishing no longer waits for it; it may lose messages."""

    node: int


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A node sends what cannot be read."""

    node: int
    why: str


Event = MemberJoined | MemberLeft | SubscriptionsChanged | MessagesLost | MemberSlow | Unreadable


def from_core(kind: str, node: int, details: Mapping[str, Any]) -> Event:
    """The event that the extension module means."""
    match kind:
        case "joined":
            return MemberJoined(node)
        case "gone":
            return MemberLeft(node, details["failed"])
        case "subscriptions":
            return SubscriptionsChanged(node, tuple(details["added"]), tuple(details["removed"]))
        case "lost":
            return MessagesLost(node, details["lane"], details["segments"])
        case "slow":
            return MemberSlow(node)
        case _:
            return Unreadable(node, details["why"])
