"""What a connection tells its owner: who came, who went, and what was lost.

Whatever means that messages are lost, or may be, is also logged: a warning of the logger `shoal.bus`, at most
one line per kind of event in ten seconds.
"""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from shoal.bus.log_limit import LogLimit
from shoal.link.events import LinkDenied, LinkDown, LinkEvent, LinkReconnecting, LinkRefused, LinkUp
from shoal.messages import Line
from shoal.messages import bus as notices
from shoal.messages import daemon as daemon_notices
from shoal.messages import link as link_notices

log = logging.getLogger("shoal.bus")

#: The chain of topics whose first level starts with `_`.
RESERVED_CHAIN = 4
#: The most subscriptions that `MessagesLost` names.
SUBSCRIPTIONS_MAX = 10
#: Events kept for an owner that does not take them; the oldest give way.
EVENTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class MemberJoined:
    """A node is here."""

    #: Its node id.
    node: int


@dataclass(frozen=True, slots=True)
class MemberLeft:
    """A node is gone."""

    #: Its node id.
    node: int
    #: No goodbye was heard of it: it crashed, the network is cut, or this program stood still when it left.
    #: What it published last may be missing here.
    failed: bool


@dataclass(frozen=True, slots=True)
class SubscriptionsChanged:
    """A node subscribes to something else now."""

    #: Its node id.
    node: int
    #: Patterns it did not subscribe to before.
    added: tuple[str, ...]
    #: Patterns it no longer subscribes to.
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MessagesLost:
    """Messages of a node are lost to us for good.

    After another router took over, for five seconds also those that may have had no reader: a selector may
    have excluded them, or their publisher did not know of us yet.
    """

    #: The node that sent them, or should have.
    node: int
    #: Who published them, as `Message.publisher` says it; 0 if not known.
    publisher: int
    #: Of which of its chains: 1, 2 and 3 are the priority classes 7-9, 4-6 and 0-3, 4 is reserved topics.
    #: With `groups`, 5, 6 and 7 are the classes in the first group, and so on.
    chain: int
    #: The number of the first one in that chain; 0 if not known.
    first: int
    #: The number of the last one; 0 if not known.
    last: int
    #: How many datagrams were lost with them; 0 if they were never sent here.
    segments: int
    #: Patterns of this connection's subscriptions that may lack them, at most ten.
    subscriptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberSlow:
    """A node gets nowhere, and publishing no longer waits for it; it may lose messages."""

    #: Its node id.
    node: int
    #: The name of its host, as it says itself; empty if not known.
    host: str = ""
    #: The number of its process there; 0 if not known.
    pid: int = 0


@dataclass(frozen=True, slots=True)
class QueueNearlyFull:
    """The queue of a subscription that drops messages is 80 % full: its reader is slower than its publishers.

    It comes again once the queue was less than 60 % full in between.
    """

    #: What the subscription subscribes to.
    pattern: str


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A node sends what cannot be read."""

    #: Its node id.
    node: int
    #: What was wrong.
    why: str


@dataclass(frozen=True, slots=True)
class NodeIdChanged:
    """Another node had our node id, so we took another one. Members go on with us there."""

    #: Our node id now.
    node: int
    #: The one we had.
    before: int


@dataclass(frozen=True, slots=True)
class LinkFailed:
    """A link to others cannot be used any more."""

    #: Which of the connection's links: `norm`.
    link: str
    #: What the system said.
    why: str


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """Events before the next one are gone: the program did not take them, and 10,000 newer ones came."""

    #: How many.
    count: int


@dataclass(frozen=True, slots=True)
class StoreUp:
    """A store answers: what must be kept can be sent, and what it keeps can be received."""

    #: What it is called.
    name: str
    #: Which start of the store this is.
    run: str


@dataclass(frozen=True, slots=True)
class StoreDown:
    """The store does not answer any more. What was not stored is sent again when one does."""

    #: What it is called.
    name: str
    #: It had queues in memory, for want of a store: what was in them is lost if it does not come back.
    memory: bool
    #: It closed, or another one took over. If messages are lost with one in memory, that one logs it.
    gave_way: bool = False


@dataclass(frozen=True, slots=True)
class BacklogDropped:
    """A store dropped the oldest messages of what is consumed here: more waited than it may keep."""

    #: The queue or the subscription.
    name: str
    #: How many messages.
    messages: int


@dataclass(frozen=True, slots=True)
class CapacityLow:
    """This daemon or store used more than 80 % of a core for 30 s: messages may wait in it."""

    #: What it is called.
    name: str
    #: The share of a core in the last second.
    load: float
    #: Messages received in the last second.
    received_msg_s: float


@dataclass(frozen=True, slots=True)
class CapacityRegained:
    """The load of this daemon or store is lower again, after `CapacityLow`."""

    #: What it is called.
    name: str
    #: The share of a core in the last second.
    load: float


Event = (
    MemberJoined
    | MemberLeft
    | SubscriptionsChanged
    | MessagesLost
    | MemberSlow
    | QueueNearlyFull
    | Unreadable
    | NodeIdChanged
    | LinkFailed
    | LinkEvent
    | EventsDropped
    | StoreUp
    | StoreDown
    | BacklogDropped
    | CapacityLow
    | CapacityRegained
)


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
            return MessagesLost(node, **{**details, "subscriptions": tuple(details["subscriptions"])})
        case "slow":
            return MemberSlow(node, details["host"], details["pid"])
        case "renamed":
            return NodeIdChanged(node, details["before"])
        case "link_failed":
            return LinkFailed(details["link"], details["why"])
        case "link_down":
            return LinkDown(details["link"], 0, details["address"], details["why"], False)
        case "link_up":
            return LinkUp(details["link"], 0, details["address"], True)
        case "dropped":
            return EventsDropped(details["count"])
        case _:
            return Unreadable(node, details["why"])


def warning(event: Event) -> Line | None:
    """The log line of an event; `None` if it deserves none."""
    match event:
        case MessagesLost(_, _, chain, _, _, _, patterns) if _concerns_none(chain, patterns):
            return None
        case MessagesLost(node, _, chain, first, last, _, patterns) if first and last:
            affected = _patterns(chain, patterns)
            return notices.MESSAGES_LOST(node=node, chain=chain, first=first, last=last, patterns=affected)
        case MessagesLost(node, _, chain, _, _, segments, patterns):
            affected = _patterns(chain, patterns)
            return notices.SEGMENTS_LOST(node=node, chain=chain, segments=segments, patterns=affected)
        case MemberSlow(node, host, pid):
            return notices.MEMBER_SLOW(node=node, host=host or "?", pid=pid or "?")
        case QueueNearlyFull(pattern):
            return notices.QUEUE_NEARLY_FULL(pattern=pattern)
        case MemberLeft(node, True):
            return notices.MEMBER_FAILED(node=node)
        case Unreadable(0, why):
            return notices.DATAGRAMS_UNREADABLE(why=why)
        case Unreadable(node, why):
            return notices.UNREADABLE(node=node, why=why)
        case NodeIdChanged(node, before):
            return notices.NODE_ID_CHANGED(node=node, before=before)
        case StoreDown(_, True, True):
            return notices.MEMORY_QUEUES_MOVED()
        case StoreDown(_, True):
            return notices.MEMORY_QUEUES_LOST()
        case StoreDown(name):
            return notices.STORE_DOWN(name=name)
        case BacklogDropped(name, dropped):
            return notices.BACKLOG_DROPPED(name=name, messages=dropped)
        case CapacityLow(name, load, rate):
            return daemon_notices.CAPACITY_LOW(name=name, load=load, rate=rate)
        case CapacityRegained(name, load):
            return daemon_notices.CAPACITY_REGAINED(name=name, load=load)
        case _:
            return _link_warning(event)


def _fitting(chain: int, patterns: tuple[str, ...]) -> list[str]:
    """Those subscriptions whose messages the chain carries."""
    return [pattern for pattern in patterns if pattern.startswith("_") == (chain == RESERVED_CHAIN)]


def _concerns_none(chain: int, patterns: tuple[str, ...]) -> bool:
    """Whether all subscriptions are known, and the chain carries messages of none of them.

    A router's answer to another program, for instance, is no loss to a subscriber of prices.
    """
    return 0 < len(patterns) < SUBSCRIPTIONS_MAX and not _fitting(chain, patterns)


def _patterns(chain: int, patterns: tuple[str, ...]) -> str:
    """Those subscriptions whose messages the chain carries, in words; `?` if there is none."""
    return ", ".join(_fitting(chain, patterns)) or "?"


def _link_warning(event: Event) -> Line | None:
    match event:
        case LinkFailed(_, why):
            return link_notices.LINK_FAILED(why=why)
        case LinkDown(link, 0, address, why, False):
            return link_notices.GROUP_UNREACHABLE(link=link, address=address, why=why)
        case LinkDown(link, node, address, why, False):
            return link_notices.LINK_DOWN(link=link, node=node, address=address, why=why)
        case LinkReconnecting(link, delay_s, why):
            return link_notices.LINK_RECONNECTING(link=link, delay_s=delay_s, why=why.rstrip("."))
        case LinkRefused(link, address, why):
            return link_notices.LINK_REFUSED(link=link, address=address, why=why)
        case LinkDenied(link, address, True, why):
            return link_notices.DENIED_HERE(link=link, address=address, why=why)
        case LinkDenied(link, _, False, why):
            return link_notices.DENIED_THERE(link=link, why=why)
        case _:
            return None


class Warnings:
    """Warnings of one connection, each kind now and then."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = LogLimit(clock=clock)

    def add(self, event: Event) -> None:
        """Log a warning of an event that deserves one, unless one of its kind was logged a moment ago."""
        line = warning(event)
        kind = type(event).__name__
        if isinstance(event, QueueNearlyFull):
            # Each queue has its own limit.
            kind = f"{kind} {event.pattern}"
        if line is not None and (line := self._limit.admit(kind, line)) is not None:
            line.log(log)

    def close(self) -> None:
        """Log how many were held back."""
        for kind, held in self._limit.take_held().items():
            notices.LINES_SUPPRESSED(count=held, kind=kind).log(log)


#: How often members and links are asked in turns, where both go on changing.
_LOOKS_MAX = 8


class EventLog:
    """Events that the program has not taken yet. May be shared between threads.

    Beyond `EVENTS_MAX` the oldest give way, and the next event says how many did.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._dropped = 0
        #: How many of each kind there were.
        self.counts: Counter[type[Event]] = Counter()
        self._lock = Lock()
        self.warnings = Warnings()

    def refill(
        self,
        take: Callable[[], list[tuple[str, int, dict[str, Any]]] | None],
        take_links: Callable[[], list[LinkEvent]] = list,
    ) -> bool:
        """Add what the extension module has, and what became of links; false once there will be no more.

        A link is up before the member behind it joins, and down after it has left.
        """
        # One at a time, so that they stay in order.
        with self._lock:
            taken = take()
            members: list[tuple[str, int, dict[str, Any]]] = taken or []
            links: list[LinkEvent] = []
            # Until nothing is between the two: a member that left before a link was down is known then.
            for _ in range(_LOOKS_MAX):
                if not (found := take_links()):
                    break
                links += found
                members += take() or []
            ups = [number for number, event in enumerate(links, 1) if isinstance(event, LinkUp)]
            first = ups[-1] if ups else 0
            for event in (*links[:first], *(from_core(*told) for told in members), *links[first:]):
                self._append(event)
            return taken is not None

    def add(self, event: Event) -> None:
        """Add what happened beside the extension module and links."""
        with self._lock:
            self._append(event)

    def _append(self, event: Event) -> None:
        self.warnings.add(event)
        self.counts[type(event)] += 1
        self._events.append(event)
        if len(self._events) > EVENTS_MAX:
            gone = self._events.popleft()
            # Among them may be one that counts others, which the extension module dropped.
            self._dropped += gone.count if isinstance(gone, EventsDropped) else 1

    def take(self) -> Event | None:
        """The oldest event, and before it how many older ones are gone."""
        with self._lock:
            if self._dropped:
                count, self._dropped = self._dropped, 0
                return EventsDropped(count)
            return self._events.popleft() if self._events else None
