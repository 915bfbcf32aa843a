"""Contestants take turns, so that whatever else the machine does falls on all of them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from typing import TypeVar

from shoal.errors import ExperimentError

Measured = TypeVar("Measured")

#: The peers, and the packages that their clients are in.
PACKAGES = {"zenoh": "eclipse-zenoh", "zmq": "pyzmq", "nats": "nats-py"}
PEERS = tuple(PACKAGES)

#: Told the round (0 is the warm-up), the contestant, and what it reached once that is known.
Follow = Callable[[int, str, str], None]


def check_peers(peers: Iterable[str]) -> None:
    """Refuse peers that are unknown or not installed."""
    for peer in peers:
        if peer not in PEERS:
            raise ValueError(f"peers must be any of {', '.join(PEERS)}, not {peer!r}")
        if find_spec(peer) is None:
            raise ValueError(f"the peer {peer} needs a package: pip install {PACKAGES[peer]}")
        check_source()
        if peer == "nats" and not _has_nats_server():
            raise ValueError("the peer nats needs the program nats-server: install the package of that name")


def check_source() -> None:
    """Refuse to measure peers where their side of it is not installed: it is no part of the wheel."""
    if find_spec("shoal.bench.peers") is None:
        raise ValueError("peers are measured from a clone of the repository, not from an installed wheel")


def _has_nats_server() -> bool:
    from shoal.bench.peers import nats_server

    return nats_server.is_installed()


@contextlib.contextmanager
def server_for(name: str, port: int) -> Iterator[Callable[[], float]]:
    """What a contestant needs beside its own processes; tells the processor time it took."""
    if name != "nats":
        yield lambda: 0.0
        return
    from shoal.bench.peers import nats_server

    with nats_server.server(port) as cpu_s:
        yield cpu_s


def alternate(
    names: Iterable[str],
    rounds: int,
    measure: Callable[[str], Measured],
    told: Callable[[Measured], str],
    follow: Follow,
) -> dict[str, list[Measured]]:
    """What each contestant reached in each round."""
    results: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(1, rounds + 1):
        for name, reached in results.items():
            follow(number, name, "")
            try:
                reached.append(measure(name))
            except ExperimentError as error:
                raise ExperimentError(f"{name}, round {number}: {error}") from error
            follow(number, name, told(reached[-1]))
    return results
