"""A program with one connection that does what it is told: JSON in, JSON out, line by line.

`python peer.py URL OPTIONS`, with the options as JSON; `listen` listens there instead of connecting.
Answers carry `"ok"`, or `"error"` with its name.
"""

import dataclasses
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from traffic import Audit, make_body

import shoal


class Peer:
    """The connection, and what it received."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        open_bus = shoal.listen if options.pop("listen", False) else shoal.connect
        self.bus = open_bus(url, **options)
        self.audits: dict[str, Audit] = {}
        self.subscriptions: dict[str, Any] = {}
        self.events: list[dict[str, Any]] = []
        self.published: dict[int, dict[str, Any]] = {}
        threading.Thread(target=self._collect, daemon=True).start()

    def _collect(self) -> None:
        for event in self.bus.events():
            self.events.append(
                {"event": type(event).__name__, "at": time.monotonic(), **dataclasses.asdict(event)}
            )

    def node(self) -> dict[str, Any]:
        return {"node": self.bus.node, "pid": os.getpid(), "link": self.bus.link()}

    def subscribe(
        self, pattern: str, read: bool = True, reply: bool = False, **options: Any
    ) -> dict[str, Any]:
        audit = self.audits[pattern] = Audit()

        def answer(message: shoal.Message) -> None:
            self.bus.reply(message, {"asked": message.body, "by": self.bus.node})

        callback = answer if reply else audit.take if read else None
        self.subscriptions[pattern] = self.bus.subscribe(pattern, callback, **options)
        return {}

    def read(self, pattern: str, pause_s: float = 0.0) -> dict[str, Any]:
        """Begin to read what was subscribed to without reading, with a pause after each message."""

        def drain() -> None:
            for message in self.subscriptions[pattern]:
                self.audits[pattern].take(message)
                if pause_s:
                    time.sleep(pause_s)

        threading.Thread(target=drain, daemon=True).start()
        return {}

    def unsubscribe(self, pattern: str) -> dict[str, Any]:
        self.subscriptions.pop(pattern).close()
        return {}

    def publish(
        self,
        topic: str,
        count: int,
        sizes: list[int],
        source: int = 0,
        start: int = 0,
        every_s: float = 0.0,
        for_s: float | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """`count` messages, or as many as go in `for_s`; sizes take turns."""
        began, longest, dropped, refused = time.monotonic(), 0.0, 0, 0
        number = start
        while number < start + count and (for_s is None or time.monotonic() - began < for_s):
            body = make_body(source, number, sizes[number % len(sizes)])
            before = time.monotonic()
            try:
                dropped += not self.bus.publish(topic, body, **options)
            except shoal.errors.FullError:
                refused += 1
            longest = max(longest, time.monotonic() - before)
            number += 1
            if every_s:
                time.sleep(every_s)
        seconds = time.monotonic() - began
        return {
            "published": number - start,
            "dropped": dropped,
            "refused": refused,
            "seconds": seconds,
            "longest_s": longest,
        }

    def publish_text(self, topic: str, text: str) -> dict[str, Any]:
        self.bus.publish(topic, text)
        return {}

    def publish_aside(self, source: int, **options: Any) -> dict[str, Any]:
        """`publish`, on a thread; `published` tells what became of it."""

        def work() -> None:
            self.published[source] = self.publish(source=source, **options)

        threading.Thread(target=work, daemon=True).start()
        return {}

    def wait_published(self, source: int, timeout_s: float = 60) -> dict[str, Any]:
        wait_until(lambda: source in self.published, timeout_s, "publishing did not end")
        return self.published.pop(source)

    def request(self, topic: str, body: Any, timeout_s: float) -> dict[str, Any]:
        reply = self.bus.request(topic, body, timeout_s=timeout_s)
        return {"body": reply.body, "sender": reply.sender}

    def flush(self, timeout_s: float) -> dict[str, Any]:
        began = time.monotonic()
        self.bus.flush(timeout_s)
        return {"seconds": time.monotonic() - began}

    def wait_for_subscribers(self, topic: str, count: int, timeout_s: float = 60) -> dict[str, Any]:
        if not self.bus.wait_for_subscribers(topic, count, timeout_s):
            raise TimeoutError(f"only {self.bus.subscribers(topic)} subscribe to {topic}")
        return {}

    def wait_received(self, pattern: str, source: int, count: int, timeout_s: float = 60) -> dict[str, Any]:
        """Wait for `count` messages of `source`, and return everything that is known."""
        audit = self.audits[pattern]

        def there() -> bool:
            return source in audit.tallies and audit.tallies[source].count >= count

        wait_until(there, timeout_s, lambda: f"received {audit.report()}, events {self.events}")
        return self.received(pattern)

    def wait_next(self, pattern: str, source: int, number: int, timeout_s: float = 60) -> dict[str, Any]:
        """Wait until message `number - 1` of `source` came, whatever was lost before it."""
        audit = self.audits[pattern]

        def there() -> bool:
            return source in audit.tallies and audit.tallies[source].next >= number

        wait_until(there, timeout_s, lambda: f"received {audit.report()}, events {self.events}")
        return self.received(pattern)

    def received(self, pattern: str) -> dict[str, Any]:
        return {"received": self.audits[pattern].report(), "senders": dict(self.audits[pattern].senders)}

    def wait_event(self, event: str, timeout_s: float = 60, **fields: Any) -> dict[str, Any]:
        wanted = {"event": event, **fields}.items()

        def found() -> dict[str, Any] | None:
            return next((told for told in list(self.events) if wanted <= told.items()), None)

        wait_until(found, timeout_s, lambda: f"no {event} among {self.events}")
        return found() or {}

    def told(self) -> dict[str, Any]:
        return {"events": self.events, "now": time.monotonic()}

    def memory(self) -> dict[str, Any]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return {"bytes": pages * os.sysconf("SC_PAGESIZE")}

    def stats(self) -> dict[str, Any]:
        return {"stats": self.bus.stats(), "socket_error": self.bus.link()["socket_error"]}

    def close(self, linger_s: float | None = None) -> dict[str, Any]:
        began = time.monotonic()
        return {"drained": self.bus.close(linger_s), "seconds": time.monotonic() - began}


def wait_until(there: Any, timeout_s: float, otherwise: Any) -> None:
    deadline = time.monotonic() + timeout_s
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise() if callable(otherwise) else otherwise)
        time.sleep(0.005)


def answer(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    try:
        peer = Peer(sys.argv[1], json.loads(sys.argv[2]))
    except Exception as error:
        answer(error=type(error).__name__, message=str(error))
        return
    answer(ok=True, **peer.node())
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer(ok=True, **getattr(peer, order.pop("do"))(**order))
        except Exception as error:
            named = {name: getattr(error, name, None) for name in ("silent", "lost_by")}
            answer(error=type(error).__name__, message=str(error), **named)


if __name__ == "__main__":
    main()
