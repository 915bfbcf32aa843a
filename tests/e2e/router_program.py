"""A router, a publisher or a reader of `kill_routers`, in a process of its own.

`router_program.py ROLE SPEC`, with a SPEC in JSON: `{"connect": [URL…], "listen": [URL…]}`. Orders come as
lines of JSON, and each is answered by one.
"""

import contextlib
import json
import sys
import threading
import time
from collections import defaultdict
from typing import Any

import shoal

TOPIC = "kill/load"
#: Messages of the steady publisher in a second, unless it floods.
RATE = 2000
BODY = bytes(1024)
#: What a short publisher publishes before it leaves.
SHORT_COUNT = 3
#: How long a flush, or leaving, may take.
PATIENCE_S = 20.0


def open_bus(spec: dict[str, list[str]], **options: Any) -> shoal.Bus:
    """A connection with all links of a spec."""
    connect, listen = list(spec.get("connect", ())), list(spec.get("listen", ()))
    bus = shoal.listen(listen.pop(0), **options) if listen else shoal.connect(connect.pop(0), **options)
    for url in listen:
        bus.listen(url)
    for url in connect:
        bus.connect(url)
    return bus


class Readings:
    """What one subscription got: runs of numbers of each publisher, and what does not follow them."""

    def __init__(self, spec: dict[str, list[str]], selector: str | None) -> None:
        self._bus = open_bus(spec)
        self._subscription = self._bus.subscribe(TOPIC, selector=selector, wait=False)
        # Where routers die meanwhile nobody can say that all of them know.
        with contextlib.suppress(shoal.FlushError):
            self._bus.sync()
        self.selector = selector
        self.runs: dict[int, list[list[int]]] = defaultdict(list)
        self.doubled: list[tuple[int, int]] = []
        self.disordered: list[tuple[int, int]] = []
        self.told: list[tuple[int, int, int]] = []
        self.count = 0
        self._ended = False
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._read, self._listen)]
        for thread in self._threads:
            thread.start()

    def end(self) -> dict[str, Any]:
        """Stop, and say everything."""
        self._ended = True
        for thread in self._threads:
            thread.join(30)
        self._bus.close(0)
        return {
            "selector": self.selector,
            "runs": {str(publisher): runs for publisher, runs in self.runs.items()},
            "doubled": self.doubled,
            "disordered": self.disordered,
            "told": self.told,
        }

    def _read(self) -> None:
        while not self._ended:
            first = self._subscription.receive(timeout_s=0.1)
            for message in [] if first is None else [first, *self._subscription.receive_nowait()]:
                self._take(message.publisher, int(str(message.message_id).rpartition("-")[2]))

    def _take(self, publisher: int, number: int) -> None:
        self.count += 1
        runs = self.runs[publisher]
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        elif not runs or number > runs[-1][1]:
            runs.append([number, number])
        elif any(first <= number <= last for first, last in runs):
            self.doubled.append((publisher, number))
        else:
            self.disordered.append((publisher, number))

    def _listen(self) -> None:
        while not self._ended:
            for event in self._bus.events(timeout_s=0.1):
                if isinstance(event, shoal.MessagesLost):
                    self.told.append((event.publisher, event.first, event.last))


class Publishers:
    """One publisher that goes on, and many that say little and leave."""

    def __init__(self, spec: dict[str, list[str]], *, flood: bool, short: bool) -> None:
        self._spec, self._flood = spec, flood
        self._ended = False
        self.records: list[dict[str, Any]] = []
        roles = [self._go_on, *([self._come_and_go] if short else [])]
        self._threads = [threading.Thread(target=role, daemon=True) for role in roles]
        for thread in self._threads:
            thread.start()

    def end(self) -> list[dict[str, Any]]:
        """Stop; what each published, and whether it was told that everybody has it."""
        self._ended = True
        for thread in self._threads:
            thread.join(4 * PATIENCE_S)
        return self.records

    def _go_on(self) -> None:
        sent, began = 0, time.monotonic()
        bus = open_bus(self._spec)
        while not self._ended:
            sent += self._publish(bus, sent)
            if not self._flood:
                time.sleep(max(began + sent / RATE - time.monotonic(), 0))
        try:
            bus.flush(PATIENCE_S)
            confirmed, why = True, ""
        except shoal.FlushError as error:
            confirmed, why = False, str(error)
        self._note("steady", bus, sent, confirmed=confirmed, why=why)
        bus.close(1.0)

    def _come_and_go(self) -> None:
        while not self._ended:
            bus = open_bus(self._spec)
            sent = sum(self._publish(bus, number) for number in range(SHORT_COUNT))
            self._note("short", bus, sent, confirmed=bus.close(PATIENCE_S), why="")
            time.sleep(0.05)

    def _publish(self, bus: shoal.Bus, number: int) -> int:
        # A publisher that finds no room for longer than it is patient has published nothing.
        with contextlib.suppress(shoal.FullError):
            bus.publish(TOPIC, BODY, properties={"odd": (number + 1) % 2})
            return 1
        return 0

    def _note(self, kind: str, bus: shoal.Bus, sent: int, *, confirmed: bool, why: str) -> None:
        self.records.append(
            {"kind": kind, "publisher": bus.publisher, "sent": sent, "confirmed": confirmed, "why": why}
        )


def route(spec: dict[str, list[str]]) -> None:
    """Forward until killed."""
    with open_bus(spec, router=True) as bus:
        say(urls=[link.url for link in bus.links])
        sys.stdin.read()


def read(spec: dict[str, list[str]]) -> None:
    """Read everything, and with `late` once more with a selector."""
    readings = [Readings(spec, None)]
    say()
    for order in map(json.loads, sys.stdin):
        match order["do"]:
            case "late":
                readings.append(Readings(spec, "odd = 1"))
                say()
            case "count":
                say(count=sum(each.count for each in readings))
            case "end":
                say(readings=[each.end() for each in readings])


def publish(spec: dict[str, list[str]]) -> None:
    """Publish from `begin` to `end`."""
    say()
    publishers = None
    for order in map(json.loads, sys.stdin):
        if order["do"] == "begin":
            publishers = Publishers(spec, flood=order["flood"], short=order["short"])
            say()
        elif publishers is not None:
            say(records=publishers.end())


def say(**answer: Any) -> None:
    """Answer an order."""
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    {"route": route, "read": read, "publish": publish}[sys.argv[1]](json.loads(sys.argv[2]))
