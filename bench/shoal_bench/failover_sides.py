"""The programs of `failover`, each for a process of its own (see `workers`): they know nothing of the kills.

Every body begins with a number. Times are of the machine's one monotonic clock, so that a silence of the
subscriber can be compared with the moment of a kill.
"""

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from shoal.processes.worker import Report, Role, is_told, run_role, wait_told

#: Silences shorter than this are the pace of the publisher.
SILENCE_MIN_S = 0.01
#: A publisher looks this often how many messages are due.
TICK_S = 0.001
#: A subscriber that got nothing for this time gets nothing more.
QUIET_S = 3.0
#: Longer than a round takes.
ROUND_S = 1800.0
NUMBER_BYTES = 8


class Pace:
    """How many messages are due, and how long the caller was held up at the most."""

    def __init__(self, rate: int, size: int) -> None:
        self._rate, self._filler = rate, bytes(size - NUMBER_BYTES)
        self._began_s = self._last_s = 0.0
        self.sent = 0
        self.held_up_s = 0.0

    def due(self) -> list[bytes]:
        """The bodies to publish now; a caller that was held up gets those of the meantime as well."""
        now = time.monotonic()
        # The clock starts with the first question: connecting took its time.
        self._began_s = self._began_s or now
        self.held_up_s = max(self.held_up_s, now - (self._last_s or now))
        self._last_s = now
        upto = int((now - self._began_s) * self._rate)
        bodies = [
            number.to_bytes(NUMBER_BYTES, "big") + self._filler for number in range(self.sent + 1, upto + 1)
        ]
        self.sent = max(self.sent, upto)
        return bodies


class Tally:
    """Which numbers came, and when none did."""

    def __init__(self) -> None:
        self.first = self.highest = 0
        self.doubled = self.out_of_order = 0
        self.missing: set[int] = set()
        self.silences: list[tuple[float, float]] = []
        self.last_s = time.monotonic()

    def take(self, body: bytes) -> None:
        """A message came."""
        now, number = time.monotonic(), int.from_bytes(body[:NUMBER_BYTES], "big")
        if now - self.last_s >= SILENCE_MIN_S:
            self.silences.append((self.last_s, now))
        self.last_s = now
        if number > self.highest:
            if self.first:
                self.missing.update(range(self.highest + 1, number))
            else:
                self.first = number
            self.highest = number
        elif number in self.missing:
            self.missing.discard(number)
            self.out_of_order += 1
        else:
            self.doubled += 1

    def result(self) -> dict[str, Any]:
        """What the parent gets; the numbers above the highest are for it to count."""
        self.silences.append((self.last_s, time.monotonic()))
        return {
            "first": self.first,
            "highest": self.highest,
            "missing": len(self.missing),
            "doubled": self.doubled,
            "out_of_order": self.out_of_order,
            "silences": self.silences,
        }


class Client(Protocol):
    """A module with these functions; addresses are those of both routers on the program's LAN."""

    def publish(self, addresses: list[str], pace: Pace, over: Callable[[], bool]) -> None:
        """Publish what is due until it is over."""

    def subscribe(self, addresses: list[str], tally: Tally, over: Callable[[], bool]) -> int:
        """Take what comes until it is over: how many messages the contestant reported lost."""


def _client(options: dict[str, Any]) -> Client:
    name = options["contestant"]
    module = "shoal_bench.failover_shoal" if name == "shoal" else f"shoal_bench.peers.{name}_failover"
    client: Client = import_module(module)
    return client


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish at the pace asked for until told that it is over."""
    pace = Pace(options["rate"], options["size"])
    _client(options).publish(options["addresses"], pace, is_told)
    return {"sent": pace.sent, "held_up_s": pace.held_up_s}


def subscribe(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Take what comes until told, and then until nothing more comes; the first message is reported."""
    tally = Tally()
    reported = False

    def over() -> bool:
        nonlocal reported
        if tally.first and not reported:
            reported = True
            report(1)
        return is_told() and time.monotonic() - tally.last_s > QUIET_S

    told = _client(options).subscribe(options["addresses"], tally, over)
    return {**tally.result(), "told": told}


def route(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be a router of zenoh's until killed."""
    router = import_module("shoal_bench.peers.zenoh_failover").router
    with router(options["listen"], options["connect"]):
        report(1)
        wait_told(ROUND_S)
    return {}


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe, "route": route}

if __name__ == "__main__":
    run_role(ROLES)
