"""What a connection tells its owner about its links."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LinkUp:
    """A link with one other program carries messages, or a group was joined."""

    #: The address it was made for: the one connected to, the one listened at, or the group.
    link: str
    #: The node id of the other end; 0 of a group.
    node: int
    #: The address of the other end; of a group, our own.
    address: str
    #: It goes on where the connection before it broke, and nothing is missing; a group was joined again.
    resumed: bool
    #: The name that the other end proved by its certificate; empty where it was not asked for one.
    identity: str = ""


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The connection of a link is gone, or the interface that leads to a group.

    Unless the other end left, messages are kept for it for `resume_s`. A group is joined again when its
    interface is there.
    """

    #: The address it was made for.
    link: str
    #: The node id of the other end; 0 of a group.
    node: int
    #: The address of the other end; of a group, our own.
    address: str
    #: What happened.
    why: str
    #: The other end said goodbye, or this one did.
    left: bool


@dataclass(frozen=True, slots=True)
class LinkReconnecting:
    """A link is not up, and is tried again."""

    #: The address to connect to.
    link: str
    #: After this many seconds.
    delay_s: float
    #: Why the attempt before failed.
    why: str


@dataclass(frozen=True, slots=True)
class Roamed:
    """The program is connected to another daemon than before."""

    #: The address that `connect` was given.
    link: str
    #: The daemon before.
    from_url: str
    #: The daemon now.
    to_url: str
    #: The link broke, the daemon was silent, full or left, or another one answers faster.
    why: str


@dataclass(frozen=True, slots=True)
class LinkRefused:
    """A program connected and was not let in."""

    #: The address listened at.
    link: str
    #: The address it came from.
    address: str
    #: Why.
    why: str


@dataclass(frozen=True, slots=True)
class LinkDenied:
    """Access rules deny a message or a subscription. Told once for each reason, at both ends of the link."""

    #: The address that the link was made for.
    link: str
    #: The address of the other end.
    address: str
    #: Rules of this end deny it to the other end; otherwise those of the other end to this program.
    ours: bool
    #: Which principal may not do what, and by which rule.
    why: str


LinkEvent = LinkUp | LinkDown | LinkReconnecting | Roamed | LinkRefused | LinkDenied
