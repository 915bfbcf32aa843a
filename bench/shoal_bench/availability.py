"""Which peers can run on this machine."""

import ctypes.util
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True)
class Need:
    """Something a peer cannot run without, and how to get it."""

    is_here: Callable[[], bool]
    remedy: str


#: What each peer of an experiment needs, by the peer's name.
Needs = Mapping[str, tuple[Need, ...]]


def _package(module: str, package: str) -> Need:
    return Need(lambda: find_spec(module) is not None, f"pip install {package}")


def _nats_server_is_here() -> bool:
    from shoal_bench.peers import servers

    return servers.nats_server() is not None


def _artemis_is_here() -> bool:
    from shoal_bench.peers import servers

    return servers.artemis() is not None


ZENOH, ZMQ, NATS = _package("zenoh", "eclipse-zenoh"), _package("zmq", "pyzmq"), _package("nats", "nats-py")
NATS_SERVER = Need(_nats_server_is_here, "run scripts/peers, which fetches nats-server")
ARTEMIS = Need(_artemis_is_here, "install Java, and run scripts/peers, which fetches Artemis")
JAVAC = Need(lambda: shutil.which("javac") is not None, "install a JDK, for javac")
LIBNORM = Need(lambda: ctypes.util.find_library("norm") is not None, "apt-get install libnorm1")

#: Peers of the experiments that publish and subscribe.
PUBSUB: Needs = {"zenoh": (ZENOH,), "zmq": (ZMQ,), "nats": (NATS, NATS_SERVER)}


def remedy(peer: str, needs: Needs) -> str | None:
    """What to do before the peer can run here; none if it can."""
    return next((need.remedy for need in needs[peer] if not need.is_here()), None)


def check_peers(peers: Iterable[str], needs: Needs) -> None:
    """Refuse peers that the experiment does not know, and peers that cannot run here.

    Raises:
        ValueError: it names the peer, and what to do.
    """
    for peer in peers:
        if peer not in needs:
            raise ValueError(f"peers must be any of {', '.join(needs)}, not {peer!r}")
        if (advice := remedy(peer, needs)) is not None:
            raise ValueError(f"the peer {peer} cannot run here: {advice}")


def present(peers: Iterable[str], needs: Needs, skipped: Callable[[str, str], object]) -> tuple[str, ...]:
    """The peers that can run here; `skipped` gets each other one and what to do to have it."""
    found = []
    for peer in peers:
        if (advice := remedy(peer, needs)) is None:
            found.append(peer)
        else:
            skipped(peer, advice)
    return tuple(found)
