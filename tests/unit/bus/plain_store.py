"""A store as plain as can be, in memory and on any bus: the other end of the protocol for tests.

It has what clients need to be wrong about: sessions, leases, credit, redelivery, refusals and a restart. It
keeps nothing.
"""

import secrets
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import shoal
from shoal._core import match_topics, read_rows, split_rows
from shoal.bus.store_protocol import HERE, WHO, requests_topic, session_topic
from shoal.selector import Selector

Body = dict[str, Any]


@dataclass
class Row:
    offset: int
    rows: bytes
    message: shoal.Message
    deliveries: int = 0


@dataclass
class Waiting:
    """A queue, or what a durable or shared subscription has not given out."""

    patterns: list[str]
    selector: Selector | None = None
    durable: bool = True
    ready: deque[Row] = field(default_factory=deque)


@dataclass
class PlainConsumer:
    session: str
    number: int
    lease: int
    waiting: Waiting
    messages: int
    selector: Selector | None = None
    delivered: int = 0
    held: dict[int, Row] = field(default_factory=dict)


class PlainStore:
    """The store. Everything it does happens on the thread that hears the bus."""

    def __init__(self, bus: shoal.Bus, *, memory: bool = False) -> None:
        self.bus, self.memory = bus, memory
        self.id = f"{secrets.randbits(63):016x}"
        self.rows: list[Row] = []
        self.marks: dict[tuple[int, int], int] = {}
        self.queues: dict[str, Waiting] = {}
        self.subscriptions: dict[tuple[str | None, str], Waiting] = {}
        self.commits: dict[str, Body] = {}
        #: What was heard, in order: for tests that look.
        self.heard: list[Body] = []
        #: Requests of these kinds are not heard, as if the network had lost them.
        self.deaf: set[str] = set()
        #: Requests of these kinds are refused.
        self.refused: set[str] = set()
        #: Sends to these destinations are refused.
        self.full: set[str] = set()
        #: Bytes that a session may publish before they are stored; none says nothing of it.
        self.credit: int | None = None
        self._lock = threading.RLock()
        self.start()

    # --- what a test does to it ---

    def start(self, *, announced: bool = True) -> None:
        self.run = secrets.token_hex(8)
        self.sessions: dict[str, Body] = {}
        self.consumers: dict[tuple[str, int], PlainConsumer] = {}
        self._leases = iter(range(secrets.randbits(20), 1 << 60))
        self._requests = self.bus.subscribe(requests_topic(self.id), self._on_message)
        self._who = self.bus.subscribe(WHO, lambda message: self.say_here() if announced else None)
        if announced:
            self.say_here()

    def stop(self) -> None:
        """Die: everything volatile is gone, and nobody is told."""
        self._requests.close()
        self._who.close()
        with self._lock:
            for consumer in list(self.consumers.values()):
                self._give_back(consumer)

    def say_here(self, state: str = "open") -> None:
        body = {
            "version": 1,
            "store": self.id,
            "run": self.run,
            "name": "plain",
            "domain": self.bus.config.domain,
            "incarnation": "00",
            "term": 1,
            "patterns": [">"],
            "urls": [],
            "state": state,
            "end": len(self.rows),
            "memory": self.memory,
        }
        self.bus.publish(HERE, body)

    # --- what it does ---

    def _on_message(self, message: shoal.Message) -> None:
        body = message.body
        with self._lock:
            if body["op"] in self.deaf:
                return
            self.heard.append(body)
            if body["op"] != "hello" and body["session"] not in self.sessions:
                self._fail(body, "NO_SESSION", "who are you?")
                return
            try:
                if body["op"] in self.refused:
                    raise RefusedError("FULL", "no room")
                answer = getattr(self, f"_{body['op']}")(body)
            except RefusedError as refused:
                self._fail(body, *refused.args)
                return
            if body["n"] and answer is not None:
                self._say(body["session"], {"op": "answer", "n": body["n"], **answer})
            self._deliver()

    def _say(self, session: str, body: Body) -> None:
        self.bus.publish(session_topic(self.id, session, private=False), body)

    def _fail(self, body: Body, error: str, text: str) -> None:
        failed = {"op": "failed", "n": body["n"], "request": body["op"], "error": error, "text": text}
        self._say(body["session"], failed)

    def _hello(self, body: Body) -> Body:
        client_id = body.get("client_id")
        for session, other in self.sessions.items():
            if client_id is not None and other.get("client_id") == client_id and session != body["session"]:
                raise RefusedError("IN_USE", f"{client_id!r} is used by {other.get('name')}")
        self.sessions[body["session"]] = body
        return {
            "store": self.id,
            "name": "plain",
            "run": self.run,
            "lease_s": 15.0,
            "state": "open",
            "end": len(self.rows),
            **({} if self.credit is None else {"credit": self.credit, "limited": ["limited/>"]}),
        }

    def _ping(self, body: Body) -> Body:
        return {}

    def _bye(self, body: Body) -> None:
        handed = {number: set(offsets(runs)) for number, runs in body.get("handed", [])}
        for key, consumer in list(self.consumers.items()):
            if key[0] == body["session"]:
                self._give_back(consumer, handed.get(consumer.number, set()))
                del self.consumers[key]
        del self.sessions[body["session"]]

    def _send(self, body: Body) -> None:
        key = (body["publisher"], body["chain"])
        mark = self.marks.get(key, 0)
        alone = split_rows(body["rows"])
        error = None
        if mark < body["after"] and body.get("elsewhere", 0) < body["after"]:
            error = "HOLE"
        elif any(str(read_rows(rows)[0].topic) in self.full for _, rows in alone):
            error = "FULL"
        if error is not None:
            refused = {
                "op": "refused",
                "publisher": key[0],
                "chain": key[1],
                "first": alone[0][0],
                "last": alone[-1][0],
            }
            self._say(body["session"], refused | {"error": error, "text": f"no: {error}", "mark": mark})
            return
        for number, rows in alone:
            if number > self.marks.get(key, 0):
                self.marks[key] = number
                self._store(rows)
        stored = {"op": "stored", "publisher": key[0], "chain": key[1], "through": self.marks[key]}
        self._say(body["session"], stored)

    def _store(self, rows: bytes) -> None:
        row = Row(len(self.rows), rows, read_rows(rows, len(self.rows))[0])
        self.rows.append(row)
        name = str(row.message.topic)
        if isinstance(row.message.topic, shoal.types.QueueName):
            self._queue(name).ready.append(row)
            return
        for waiting in self.subscriptions.values():
            fits = waiting.selector is None or waiting.selector.matches(row.message)
            if fits and match_topics(waiting.patterns, [name]):
                waiting.ready.append(row)

    def _queue(self, name: str) -> Waiting:
        return self.queues.setdefault(name, Waiting([f"_queue/{name}"]))

    def _commit(self, body: Body) -> Body:
        if body["id"] in self.commits:
            return self.commits[body["id"]] | {"repeated": True}
        for number, lease, runs in body["acks"]:
            consumer = self.consumers.get((body["session"], number))
            if consumer is None or consumer.lease != lease or not set(offsets(runs)) <= consumer.held.keys():
                raise RefusedError("LEASE", "that lease is over")
        for number, _, runs in body["acks"]:
            for offset in offsets(runs):
                del self.consumers[body["session"], number].held[offset]
        first = len(self.rows)
        for _, rows in split_rows(body["rows"]) if "rows" in body else ():
            self._store(rows)
        answer = {"first": first, "end": len(self.rows), "repeated": False}
        self.commits[body["id"]] = answer
        return answer

    def _consume(self, body: Body) -> Body:
        return self._add(body, self._queue(body["queue"]))

    def _subscribe(self, body: Body) -> Body:
        client_id = None if body["shared"] else self.sessions[body["session"]].get("client_id")
        key = (client_id, body["name"])
        waiting = self.subscriptions.get(key)
        if (
            waiting is not None
            and not body["shared"]
            and any(c.waiting is waiting for c in self.consumers.values())
        ):
            raise RefusedError("IN_USE", "somebody reads it")
        if waiting is None or waiting.patterns != body["patterns"]:
            selector = Selector(body["selector"]) if "selector" in body else None
            waiting = self.subscriptions[key] = Waiting(body["patterns"], selector, body["durable"])
        return self._add(body, waiting) | {"from": len(self.rows), "created": True}

    def _add(self, body: Body, waiting: Waiting) -> Body:
        key = (body["session"], body["consumer"])
        selector = Selector(body["selector"]) if body["op"] == "consume" and "selector" in body else None
        self.consumers[key] = PlainConsumer(*key, next(self._leases), waiting, body["messages"], selector)
        return {"lease": self.consumers[key].lease}

    def _credit(self, body: Body) -> Body:
        consumer = self.consumers[body["session"], body["consumer"]]
        consumer.messages = body["messages"]
        return {"messages": consumer.delivered, "bytes": 0}

    def _deliver(self) -> None:
        for consumer in self.consumers.values():
            ready = consumer.waiting.ready
            for row in [
                row for row in ready if consumer.selector is None or consumer.selector.matches(row.message)
            ]:
                if consumer.delivered >= consumer.messages:
                    break
                ready.remove(row)
                consumer.delivered += 1
                row.deliveries += 1
                consumer.held[row.offset] = row
                body = {
                    "op": "deliver",
                    "consumer": consumer.number,
                    "lease": consumer.lease,
                    "first": row.offset,
                    "rows": row.rows,
                }
                if row.deliveries > 1:
                    body["counts"] = {row.offset: row.deliveries}
                self._say(consumer.session, body)

    def _consumer(self, body: Body) -> PlainConsumer:
        consumer = self.consumers.get((body["session"], body["consumer"]))
        if consumer is None or consumer.lease != body.get("lease", consumer.lease):
            raise RefusedError("LEASE", "that lease is over")
        return consumer

    def _ack(self, body: Body) -> Body:
        consumer = self._consumer(body)
        for offset in offsets(body["offsets"]):
            consumer.held.pop(offset, None)
        return {}

    def _handed(self, body: Body) -> Body:
        self._consumer(body)
        return {}

    def _release(self, body: Body) -> Body:
        consumer = self._consumer(body)
        back = [consumer.held.pop(offset) for offset in offsets(body["offsets"]) if offset in consumer.held]
        for row in back:
            row.deliveries -= not body.get("seen", True)
        merged = sorted([*back, *consumer.waiting.ready], key=lambda row: row.offset)
        consumer.waiting.ready = deque(merged)
        return {}

    def _cancel(self, body: Body) -> Body:
        consumer = self.consumers.pop((body["session"], body["consumer"]), None)
        if consumer is not None:
            self._give_back(consumer, set(offsets(body.get("handed", []))))
        return {}

    def _give_back(self, consumer: PlainConsumer, handed: set[int] | None = None) -> None:
        for row in consumer.held.values():
            row.deliveries -= handed is not None and row.offset not in handed
        merged = sorted([*consumer.held.values(), *consumer.waiting.ready], key=lambda row: row.offset)
        consumer.waiting.ready = deque(merged)
        consumer.held.clear()

    def _declare(self, body: Body) -> Body:
        self._queue(body["queue"])
        return {"created": True}

    def _temporary(self, body: Body) -> Body:
        return {}

    def _browse(self, body: Body) -> Body:
        start = body.get("start", 0)
        found = [row for row in self._queue(body["queue"]).ready if row.offset >= start]
        if not found:
            return {"first": 0, "rows": b"", "next": None}
        return {"first": found[0].offset, "rows": found[0].rows, "next": found[0].offset + 1}

    def _purge(self, body: Body) -> Body:
        ready = self._queue(body["queue"]).ready
        count = len(ready)
        ready.clear()
        return {"messages": count}

    def _delete(self, body: Body) -> Body:
        return {"messages": len(self.queues.pop(body["queue"], Waiting([])).ready)}

    def _unsubscribe(self, body: Body) -> Body:
        key = (None if body["shared"] else body.get("client_id"), body["name"])
        waiting = self.subscriptions.get(key)
        if waiting is None:
            raise RefusedError("EXISTS_NOT", f"there is no subscription {body['name']!r}")
        if any(consumer.waiting is waiting for consumer in self.consumers.values()):
            raise RefusedError("IN_USE", "somebody reads it")
        del self.subscriptions[key]
        return {}


class RefusedError(Exception):
    """A request is refused: code, and text."""


def offsets(runs: list[int]) -> list[int]:
    """Runs, one by one."""
    return [
        offset for first, last in zip(runs[::2], runs[1::2], strict=True) for offset in range(first, last + 1)
    ]
