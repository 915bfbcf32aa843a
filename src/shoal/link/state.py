"""A link as its owner sees it."""

from dataclasses import dataclass
from typing import Literal

#: Who made it: this program, another one through a listener, or it is the listener itself; or it is a
#: multicast group, which leads to all its members.
Role = Literal["connect", "accept", "listen", "group"]
#: How it is: `connecting` for the first time, `up`, `reconnecting` after it was up or was tried in vain,
#: `standby` while another link leads to the same program, `refused` by the other end, `waiting` for the other
#: end to connect again, `listening`.
State = Literal["connecting", "up", "reconnecting", "standby", "refused", "waiting", "listening"]


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkState:
    """A link, or a listener, at one moment."""

    #: The address to connect to, or to listen at.
    url: str
    #: `connect`, `accept` (made by the other end), `listen` (a listener) or `group` (multicast).
    role: Role
    #: `connecting`, `up`, `reconnecting`, `standby`, `refused`, `waiting` or `listening`.
    state: State
    #: Whether what is lost on the way is sent again: everywhere but on `udp`.
    reliable: bool = True
    #: The node id of the other end; 0 while there is none.
    node: int = 0
    #: The publisher at the other end; 0 while there is none.
    publisher: int = 0
    #: The address of the other end, or the one listened at; of a group, our own.
    address: str = ""
    #: The name that the other end proved by its certificate; empty where it was not asked for one.
    identity: str = ""
    #: What happened last, if it is not up.
    why: str = ""
    #: How long an answer takes; `None` while none was heard. Of a group, the greatest one (GRTT).
    round_trip_s: float | None = None
    #: Bytes written to the network since the link was made.
    bytes_sent: int = 0
    #: Bytes read from the network.
    bytes_received: int = 0
    #: Messages given to the link, also those that were said again after another way broke.
    messages_sent: int = 0
    #: Messages that came over it.
    messages_received: int = 0
    #: Whether it is not used, because another link leads to the same nodes.
    resting: bool = False
    #: Bytes written in the last second; of a group, in a second since `links` was looked at before.
    send_bytes_per_s: float = 0.0
    #: Bytes read in the last second.
    receive_bytes_per_s: float = 0.0
    #: Bytes that were published and wait here.
    unsent_bytes: int = 0
    #: Bytes in flight, not acknowledged by the other end.
    unacknowledged_bytes: int = 0
    #: Of a listener: how many connections it has. Of a group: how many members.
    connections: int = 0
    #: Of a listener: how many it closed at once, because there were too many.
    turned_away: int = 0
    #: Of a listener: how many it refused, because of what they said, or did not say in time.
    refused: int = 0
    #: Messages and subscriptions of the other end that access rules of this end denied.
    denied: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkLink:
    """A link of some node of the network."""

    #: Whether it is multicast: all members hear each other.
    shared: bool
    #: The publishers there that are routers, or have several links.
    neighbours: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkNode:
    """What a node says of its links: a router, or one that has several."""

    #: Who publishes there.
    publisher: int
    #: Whether it passes on what comes over one link to others.
    router: bool
    #: Its links that lead to routers, or to nodes that have several.
    links: tuple[NetworkLink, ...]
