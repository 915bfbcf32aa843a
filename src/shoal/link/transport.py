"""The public link interface: how to carry links over something of your own.

A *transport* makes *channels*. A channel carries bytes between two programs, both ways, complete and in
order, for as long as it lasts; when it breaks, another one takes its place. Everything else runs above it and
is the same for every transport: who is there, message numbers, acknowledgement, credit, heartbeats, and going
on after a break without a gap or a duplicate.

Register a transport under a scheme, and URLs of that scheme work wherever `tcp://` does:

    shoal.link.register("drop", DropTransport)
    bus = shoal.connect("drop:///mnt/exchange")

Channels are used by two threads of the library, one that sends and one that receives. They wait where the
channel waits: a `send` that does not return is what tells publishers that there is no room.
"""

import abc
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shoal.config import schemes
from shoal.config.target import Target
from shoal.errors import ConfigError

if TYPE_CHECKING:
    from shoal.config import ConnectionConfig

#: Anything that bytes can be read from.
Buffer = bytes | bytearray | memoryview
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


class Channel(abc.ABC):
    """One connection between two programs."""

    #: Where the other end is, for people: an address, a device, a directory.
    address: str = ""
    #: The name that the other end has proved, if the transport asks for a proof; known once `open` returned.
    identity: str = ""

    def open(self) -> None:  # noqa: B027 - most channels have nothing to do
        """Do what has to be done before bytes can travel, such as a handshake, for a channel that was
        accepted.

        Called once, on a thread of its own, before `receive`. It need not watch the time: `close` is called
        when it takes too long, and must end it.

        Raises:
            LinkRefusedError: the other end may not connect.
            OSError: it went wrong.
        """

    @abc.abstractmethod
    def send(self, data: memoryview) -> None:
        """Send all of it, and return when there is room for more. The memory is used again afterwards.

        Raises:
            OSError: the channel is broken.
        """

    @abc.abstractmethod
    def receive(self) -> Buffer:
        """Wait for bytes: some, in whatever pieces they come; nothing once the other end has closed.

        Raises:
            OSError: the channel is broken.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """End it. What was sent should still arrive; threads in `open`, `send` or `receive` are woken.

        Called once, while another thread may be waiting.
        """


@dataclass(frozen=True, slots=True)
class TurnedAway:
    """A program that connected, and that its transport refused."""

    #: Where it is, as of a channel.
    address: str
    #: Why.
    why: str


class Listening(abc.ABC):
    """A place that others connect to."""

    #: The URL to connect to.
    url: str = ""

    @abc.abstractmethod
    def accept(self) -> Channel | TurnedAway | None:
        """Wait until a program connects; `None` once it was closed.

        It should return as soon as a program connects, and leave the rest to the channel's `open`, which has
        two threads to itself. A transport that strangers can reach does its handshakes here instead: for all
        clients on the one thread that calls this, and returns those that are over. What it returns as turned
        away is counted and told, and costs no thread.

        Raises:
            OSError: a program could not be let in; it is called again.
        """

    @abc.abstractmethod
    def close(self) -> None:
        """Accept no more connections; wakes a thread that waits in `accept`. Channels stay as they are."""


class Transport(abc.ABC):
    """Makes channels for one connection to a domain. Methods are called on threads of the library's own."""

    @abc.abstractmethod
    def connect(self, target: Target, timeout_s: float) -> Channel:
        """Connect to a target: return when bytes can travel, at the latest after `timeout_s`.

        Raises:
            LinkRefusedError: the other end refuses us, and trying again soon does not help.
            OSError: it does not work now; it is tried again after a while.
        """

    def listen(self, target: Target) -> Listening:
        """Let others connect.

        Raises:
            OSError: that cannot be listened at.
        """
        raise ConfigError(f"{target.url} cannot be listened at: links of {target.scheme}:// only connect")

    def reload(self) -> None:  # noqa: B027 - most transports have nothing to read
        """Read keys and certificates again, for channels that are made from now on.

        Called by `Bus.reload_keys`, and by a daemon on SIGHUP.

        Raises:
            ConfigError: they cannot be used; the old ones stay.
        """


#: Makes a transport for a connection, from its configuration.
Factory = Callable[["ConnectionConfig"], Transport]

_factories: dict[str, Factory] = {}


def register(scheme: str, factory: Factory) -> None:
    """Carry links with URLs of a scheme by a transport of your own, in this process.

    Args:
        scheme: what such URLs begin with; small letters, digits, `+`, `-` and `.`.
        factory: makes a transport, once for each connection that uses the scheme: a function, or the class
            itself, called with the `shoal.config.ConnectionConfig`.
    """
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise ConfigError(f"scheme is {scheme!r}, and must be small letters, digits, +, - or .")
    if scheme in schemes.TAKEN:
        raise ConfigError(f"scheme is {scheme!r}, which Shoal has itself: choose another name")
    if not callable(factory):
        raise TypeError(f"factory is {factory!r}, and must be a function or a class that makes a transport")
    _factories[scheme] = factory
    schemes.registered.add(scheme)


def make(scheme: str, config: "ConnectionConfig") -> Transport:
    """The transport of a scheme."""
    if scheme in ("ws", "wss"):
        # It needs a library that may be missing.
        transport: Transport = importlib.import_module("shoal.link.websocket").WebSockets(config)
        return transport
    return _factories[scheme](config)
