"""Looks at a domain.

Asks its nodes, its stores and its history, and takes the events of the console's own connection.

What costs a store much is asked less often: the time between two questions is at least `COST` times what the
last answer took.
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import shoal
from shoal.bus.events import Event
from shoal.bus.store_waits import ask
from shoal.console.history import Histories
from shoal.console.look import Look, count, mapping, text
from shoal.errors import NoReplyError, RemoteError, ShoalError
from shoal.monitor.answers import TOPIC

#: How long nodes may take for an answer, and a whole round.
ANSWER_S, ROUND_S = 0.5, 1.5
#: How long a store may take for the list of its queues.
STATUS_S = 5.0
#: A list that took t seconds is asked for again after this many times t; and not more often than these.
COST, QUEUES_EVERY_S, TOPICS_EVERY_S, EVERY_S_MAX = 50.0, 1.0, 3.0, 10.0
#: Events of one look; others come with the next.
EVENTS_MAX = 5000


class Source(Protocol):
    """Where looks come from."""

    def look(self) -> Look:
        """Look once. May take a second, on a thread of its own."""

    def hurry(self) -> None:
        """Ask for everything with the next look: an operator has just changed something. From any thread."""


@dataclass(slots=True)
class _Pace:
    """When something that costs is asked for again."""

    every_s: float
    next_s: float = 0.0

    def is_due(self, now_s: float) -> bool:
        return now_s >= self.next_s

    def took(self, began_s: float, ended_s: float) -> None:
        self.next_s = began_s + min(max(self.every_s, COST * (ended_s - began_s)), EVERY_S_MAX) - 0.1


class BusSource:
    """Looks through a connection. For one thread at a time."""

    def __init__(self, bus: shoal.Bus, histories: Histories) -> None:
        self._bus, self._histories = bus, histories
        self._queues, self._topics = _Pace(QUEUES_EVERY_S), _Pace(TOPICS_EVERY_S)
        self._counts: dict[str, Mapping[str, int]] | None = None
        # It begins to look for stores.
        bus._connection.channel()

    def hurry(self) -> None:
        """Ask stores for their queues with the next look."""
        self._queues.next_s = 0.0

    def look(self) -> Look:
        """Look once."""
        statuses = self._statuses()
        faults: dict[str, str] = {}
        topics = self._ask_topics(statuses, faults)
        stores = self._ask_stores(faults)
        bus = self._bus
        return Look(
            at_s=time.monotonic(),
            wall_s=time.time(),
            statuses=statuses,
            members=() if bus.closed else sorted(bus.members),
            own_node=bus.node,
            events=self._events(),
            stores=stores,
            topics=topics,
            faults=faults,
        )

    def _statuses(self) -> list[Mapping[str, Any]]:
        """The answers of all nodes that give one in time."""
        found: list[Mapping[str, Any]] = []
        until_s = time.monotonic() + ROUND_S
        with contextlib.suppress(NoReplyError, RemoteError):
            for answer in self._bus.request_many(TOPIC, timeout_s=ANSWER_S):
                if isinstance(answer.body, dict):
                    found.append(answer.body)
                if time.monotonic() >= until_s:
                    break
        return found

    def _events(self) -> list[Event]:
        found: list[Event] = []
        for event in self._bus.events(timeout_s=0.0):
            found.append(event)
            if len(found) >= EVENTS_MAX:
                break
        return found

    def _ask_stores(self, faults: dict[str, str]) -> dict[str, Mapping[str, Any]] | None:
        """What each store says of its queues and subscriptions; none if it is not time."""
        began_s = time.monotonic()
        if not self._queues.is_due(began_s):
            return None
        owners = self._bus._connection.owners()
        found: dict[str, Mapping[str, Any]] = {}
        for channel in [owners.main(), *owners.open_others()]:
            if not channel.is_open:
                continue
            name = text(channel.greeting.get("name")) or "store"
            try:
                answer = ask(partial(channel.request, {"op": "status"}), STATUS_S, "status")
                found[name] = mapping(answer.get("status"))
            except ShoalError as error:
                faults[f"store {name}"] = str(error)
        self._queues.took(began_s, time.monotonic())
        return found

    def _ask_topics(
        self, statuses: list[Mapping[str, Any]], faults: dict[str, str]
    ) -> dict[str, Mapping[str, int]] | None:
        """How many messages of each topic stores have; none if it is not time."""
        for status in statuses:
            store = mapping(status.get("store"))
            if endpoint := text(store.get("flight")):
                self._histories.learn(
                    text(store.get("name")), endpoint, text(store.get("fingerprint")) or None
                )
        began_s = time.monotonic()
        if self._topics.is_due(began_s):
            self._counts = {}
            for name in self._histories.names:
                try:
                    told = self._histories.topics(name)
                    self._counts[name] = {text(each["topic"]): count(each["count"]) for each in told}
                except (ShoalError, KeyError, TypeError) as error:
                    faults[f"history of {name}"] = str(error)
            self._topics.took(began_s, time.monotonic())
            return self._counts
        return None
