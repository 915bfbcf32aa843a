"""Messages of a queue that are set aside under a name, for a reader that must get the same ones again.

A reservation is known by its name and where it starts. Asking for the same start gives the same messages,
whatever happened meanwhile; asking for its end acknowledges them and sets the next ones aside, in one frame
of the log. It never times out: only whoever reserved, or `unreserve`, gives it back. Starts and ends are
positions, which only grow; they are no offsets of messages, for what comes back to a queue is older than what
was reserved last.
"""

import json
from typing import Any

from shoal.bus.store_protocol import QUEUES
from shoal.store.core import Core
from shoal.store.reader import SCAN_ROWS, Reader, Session
from shoal.store.readers import Readers, queue_key
from shoal.store.requests import Request, RequestError

#: Messages of a reservation, at the most.
MESSAGES_MAX = 100_000
#: Runs of offsets of which a reservation consists, at the most.
RUNS_MAX = 20_000
#: How often one request reads on where it found nothing.
LOOKS_MAX = 20
#: Who holds a reservation, for the backlog. Numbers of consumers are lower.
_HOLDERS_FROM = 1 << 62

_KEYS = "reserve/"


class Reservations:
    """The reservations of a store. For one thread at a time."""

    def __init__(self, core: Core, readers: Readers) -> None:
        self._core = core
        self._readers = readers
        #: By name: the queue, start and end, runs, how many messages, and who holds them while it is open.
        self._known: dict[str, dict[str, Any]] = {}
        self._holder = _HOLDERS_FROM
        for key, value in core.log.items(_KEYS):
            found = self._known[key.removeprefix(_KEYS)] = json.loads(value)
            found["holder"] = self._next_holder()
            reader = readers.get(queue_key(found["queue"]))
            if reader is not None and found["open"]:
                reader.backlog.attach(found["holder"])
                reader.backlog.take_these(found["holder"], _runs(found), core.now.wall_us)

    def _next_holder(self) -> int:
        self._holder += 1
        return self._holder

    def of(self, reader: Reader) -> str | None:
        """The name of a reservation that holds messages of a queue."""
        held = (name for name, found in self._known.items() if found["open"])
        return next((name for name in held if self._known[name]["queue"] == reader.shape.queue), None)

    def reserve(self, session: Session, request: Request, n: int) -> None:
        """Set messages aside under a name, the same ones however often it is asked.

        Without a start (-1) it goes on where it is. To set no messages aside acknowledges all the same.
        """
        name, queue = request.text("name"), request.text("queue")
        session.owner.check(self._core, "consume", QUEUES + queue)
        start = request.number("start", -1)
        most = request.number("messages", 0, MESSAGES_MAX, default=MESSAGES_MAX)
        size = request.number("bytes", 1, default=1 << 40)
        selector = request.selector()
        reader = self._readers.queue(queue)
        found = self._known.get(name)
        if found is None:
            found = {"queue": queue, "start": max(start, 0), "end": max(start, 0), "open": False}
        elif found["queue"] != queue:
            raise RequestError("DIFFERS", f"{name!r} is a reservation of the queue {found['queue']!r}")
        if start not in (-1, found["start"], found["end"]):
            text = f"the reservation {name!r} begins at {found['start']} and ends at {found['end']}"
            raise RequestError("BAD_REQUEST", f"{text}, and not at {start}")
        if found["open"] and start in (-1, found["start"]):
            self._tell(session, n, reader, found)
            return
        if found["open"]:
            reader.acknowledge(self._core, found["holder"], _runs(found))
            reader.backlog.detach(found["holder"], [], self._core.now.wall_us)
        made = self._set_aside(reader, found["end"], most, size, selector)
        if made["open"] or found["open"]:
            kept = {key: value for key, value in made.items() if key != "holder"}
            self._core.turn.put(_KEYS + name, json.dumps(kept).encode())
            self._known[name] = made
        self._tell(session, n, reader, made)

    def _set_aside(self, reader: Reader, start: int, most: int, size: int, selector: Any) -> dict[str, Any]:
        backlog, wall_us, holder = reader.backlog, self._core.now.wall_us, self._next_holder()
        made: dict[str, Any] = {"queue": reader.shape.queue, "start": start, "end": start, "open": False}
        made |= {"runs": [], "messages": 0, "holder": holder}
        if most == 0:
            return made
        backlog.attach(holder, selector)
        for _ in range(LOOKS_MAX):
            unread = backlog.scan(wall_us, SCAN_ROWS, keep=False)
            count, more = backlog.set_aside(holder, wall_us, most, size)
            if count or not (unread or more):
                break
        runs, count, _ = backlog.weigh(holder, [(0, 1 << 62)])
        if len(runs) > RUNS_MAX:
            self._give_back(reader, holder, [(first, end - 1) for first, end in runs[RUNS_MAX:]])
            runs = runs[:RUNS_MAX]
            _, count, _ = backlog.weigh(holder, [(first, end - 1) for first, end in runs])
        if not count:
            backlog.detach(holder, [], wall_us)
            return made
        # What came back to the queue is older than what was reserved before; positions grow all the same.
        end = max(runs[-1][1], start + 1)
        runs = [(first, end - 1) for first, end in runs]
        return made | {"end": end, "open": True, "runs": runs, "messages": count}

    def _give_back(self, reader: Reader, holder: int, runs: list[tuple[int, int]]) -> None:
        wall_us = self._core.now.wall_us
        reader.backlog.give_back(holder, runs, False, wall_us, wall_us)

    def _tell(self, session: Session, n: int, reader: Reader, found: dict[str, Any]) -> None:
        count = found.get("messages", 0) if found["open"] else 0
        behind = max(0, reader.totals.messages - count)
        self._core.answer(
            session.id, n, start=found["start"], end=found["end"], messages=count, behind=behind
        )

    def reserved(self, session: Session, request: Request, n: int) -> None:
        """Which messages a reservation has, by their offsets."""
        name = request.text("name")
        found = self._known.get(name)
        if found is None or not found["open"] or request.number("start") != found["start"]:
            raise RequestError("EXISTS_NOT", f"there is no reservation {name!r} that begins there")
        session.owner.check(self._core, "consume", QUEUES + found["queue"])
        runs = [at for run in found["runs"] for at in run]
        self._core.answer(session.id, n, runs=runs, end=found["end"], messages=found["messages"])

    def unreserve(self, session: Session, request: Request, n: int) -> None:
        """Give a reservation back."""
        name = request.text("name")
        found = self._known.get(name)
        if found is None:
            raise RequestError("EXISTS_NOT", f"there is no reservation {name!r}")
        session.owner.check(self._core, "consume", QUEUES + found["queue"])
        del self._known[name]
        reader = self._readers.get(queue_key(found["queue"]))
        messages = 0
        if reader is not None and found["open"]:
            messages = reader.backlog.has(found["holder"], _runs(found))
            reader.backlog.detach(found["holder"], _runs(found), self._core.now.wall_us)
            self._readers.touch(reader)
        self._core.turn.put(_KEYS + name, None)
        self._core.answer(session.id, n, messages=messages)

    def status(self) -> list[dict[str, Any]]:
        """What is reserved, for people."""
        return [
            {"name": name} | {key: value for key, value in found.items() if key not in ("runs", "holder")}
            for name, found in self._known.items()
        ]


def _runs(found: dict[str, Any]) -> list[tuple[int, int]]:
    return [(first, last) for first, last in found["runs"]]
