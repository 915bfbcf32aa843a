"""Contestants take turns, so that whatever else the machine does falls on all of them."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from shoal.errors import ProcessFailedError
from shoal_bench.errors import ExperimentError

Measured = TypeVar("Measured")

#: Told the round (0 is the warm-up), the contestant, and what it reached once that is known.
Follow = Callable[[int, str, str], None]


@contextlib.contextmanager
def server_for(name: str, port: int) -> Iterator[Callable[[], float]]:
    """What a contestant needs beside its own processes; tells the processor time it took."""
    if name != "nats":
        yield lambda: 0.0
        return
    from shoal_bench.peers import nats_server

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
            except ProcessFailedError as error:
                raise ExperimentError(f"{name}, round {number}: {error}") from error
            follow(number, name, told(reached[-1]))
    return results
