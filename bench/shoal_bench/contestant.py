"""What every contestant can do: one module each, with these four functions, each for a process of its own.

They use the contestant's public Python API in the way its documentation calls fast, without losing anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from shoal_bench.bodies import Bodies, Reception

TOPIC = "bench/data"
PING, PONG = "bench/ping", "bench/pong"
#: How long contestants wait for each other at the start.
PATIENCE_S = 20.0


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where the processes of one transfer meet."""

    #: A port that nobody else uses.
    port: int
    #: The name or address of the network interface.
    interface: str = "lo"
    #: Which of several subscribers this process is.
    number: int = 0
    #: What carries Shoal's messages: `norm`, or `tcp`, which peers use whatever this says.
    link: str = "norm"
    #: Whether a router listens at the port, which publisher and subscribers connect to.
    routed: bool = False


@dataclass(frozen=True, kw_only=True)
class Load:
    """What one transfer moves."""

    size: int
    count: int
    subscribers: int = 1

    def bodies(self) -> Bodies:
        """What to send."""
        return Bodies(self.size)


class Contestant(Protocol):
    """A module with these functions."""

    def publish(self, place: Place, load: Load, wait_received: Callable[[], None]) -> dict[str, Any]:
        """Publish all of it once every subscriber is there; end when `wait_received` returns."""

    def subscribe(self, place: Place, reception: Reception) -> None:
        """Receive until the reception is over."""

    def ping(self, place: Place, bodies: Bodies, count: int) -> list[int]:
        """Send bodies one at a time, each when the last has come back; how many nanoseconds each took."""

    def echo(self, place: Place, count: int) -> None:
        """Send back what comes, so many times."""
