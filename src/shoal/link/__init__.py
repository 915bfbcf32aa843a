"""Links' life: where to listen, when to connect, when to try again, and what to say about it.

What travels on a link is the extension's business. Nothing here touches a message.
"""

from shoal.link.state import LinkState

__all__ = ["LinkState"]
