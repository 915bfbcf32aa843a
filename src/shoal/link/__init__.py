"""Links' life: where to listen, when to connect, when to try again, and what to say about it.

What travels on a link is the extension's business. Nothing here touches a message. `Transport` and `register`
are for people who carry links over something of their own.
"""

from shoal.config.target import Target
from shoal.link.admission import Admit, Guest
from shoal.link.state import LinkState
from shoal.link.transport import Channel, Listening, Transport, TurnedAway, register

__all__ = [
    "Admit",
    "Channel",
    "Guest",
    "LinkState",
    "Listening",
    "Target",
    "Transport",
    "TurnedAway",
    "register",
]
