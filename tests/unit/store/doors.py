"""Every door of a store and of its clients, under bodies made at the byte level, as no encoder makes them.

`python tests/unit/store/doors.py --inputs 1000000 --seed 1` runs as many; `make fuzz` does. A door passes if
nothing but the documented refusal comes out of it, and if it serves an honest client afterwards.
"""

import argparse
import logging
import random
import struct
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from desk import Desk

from shoal._core import Message, RawBody
from shoal.bus.memory_owner import Election
from shoal.bus.store_chain import Chain
from shoal.bus.store_consumer import Inbox
from shoal.bus.store_finder import Finder
from shoal.bus.store_protocol import SAID, body_of, is_said
from shoal.bus.store_session import Session
from shoal.errors import MessageFormatError, ShoalError, StoreError
from shoal.store.presence import Presence
from shoal.testing import rows

OPS = (
    "hello", "ping", "bye", "send", "commit", "subscribe", "consume", "credit", "ack", "release",
    "cancel", "report", "browse", "declare", "delete", "purge", "move", "unsubscribe", "reserve",
    "reserved", "unreserve", "shown", "status", "forward", "rule",
)  # fmt: skip
FIELDS = (
    "version", "publisher", "client_id", "lease_s", "chain", "after", "rows", "id", "acks", "consumer",
    "queue", "messages", "bytes", "patterns", "selector", "name", "durable", "shared", "start", "lease",
    "offsets", "delay_s", "seen", "to", "topic", "temporary", "first", "last", "from", "on_full",
    "former", "handed",
    "no_local", "replace", "kept", "dead", "deliveries_max", "backoff_s", "backoff_max_s", "dead_letter",
    "dead_letter_expired", "expires_after_s", "backlog_max_bytes", "if_empty", "through", "mark", "error",
    "text", "counts", "lives", "store", "run", "domain", "urls", "term", "state", "memory", "private",
    "since", "end", "incarnation", "node", "destination", "request", "op", "session", "n", "$shoal",
    "value", "proof", "elsewhere", "upstream", "passed", "publish", "runs", "act", "key", "awaits", "takes",
)  # fmt: skip
#: Objects inside objects that are none: what only bytes can say.
TAGGED = ("dict", "ndarray", "datetime", "Decimal", "nobody")


class Bytes:
    """Random values in the value encoding, valid or nearly so."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def value(self, depth: int = 0) -> bytes:
        dice = self.dice
        match dice.randrange(20 if depth < 3 else 15):
            case 0:
                return dice.choice((b"\xc0", b"\xc2", b"\xc3"))
            case 1 | 2 | 3:
                return bytes([dice.randrange(128)])
            case 4:
                return b"\xd3" + struct.pack(">q", dice.choice((-1, -(1 << 63), (1 << 63) - 1, 1 << 40)))
            case 5:
                return b"\xcf" + struct.pack(">Q", dice.choice((1 << 63, (1 << 64) - 1, 5)))
            case 6:
                return b"\xcb" + struct.pack(
                    ">d", dice.choice((0.5, float("nan"), float("inf"), -float("inf"), 1e300, -1.0))
                )
            case 7 | 8 | 9:
                return self.text(dice.choice((*OPS, "q", "t/>", "new", "x" * 300, "", "a = 1", "0" * 16)))
            case 10:
                # A character of 16 bits may be half of one.
                return b"\xd5\x05" + dice.choice((b"\xd8\x00", b"\xdf\xff", b"\x00a"))
            case 11:
                return b"\xd4" + bytes([dice.randrange(8), dice.randrange(256)])
            case 12:
                content = dice.choice((b"", b"\1\0\0\0", dice.randbytes(40), self.rows()))
                return b"\xc5" + struct.pack(">H", len(content)) + content
            case 13:
                return dice.randbytes(dice.randrange(6)) if dice.random() < 0.2 else b"\xc0"
            case 14:
                return b"\xca" + dice.randbytes(4)
            case 15 | 16 | 17:
                count = dice.choice((0, 1, 2, 2, 3, 4))
                return bytes([0x90 + count]) + b"".join(self.value(depth + 1) for _ in range(count))
            case 18:
                return self.mapping(dice.randrange(4), depth)
            case _:
                tagged = self.text("$shoal") + self.text(dice.choice(TAGGED))
                return b"\x82" + tagged + self.text("value") + self.value(depth + 1)

    def text(self, text: str) -> bytes:
        raw = text.encode()
        return (
            b"\xd9" + bytes([len(raw)]) if len(raw) < 256 else b"\xda" + struct.pack(">H", len(raw))
        ) + raw

    def rows(self) -> bytes:
        """Rows that are whole, with some bytes changed."""
        made = bytearray(
            rows.encode(9, 5, [(1, 1, rows.record("t/a", b"x")), (2, 1, rows.record("q", b"y"))])
        )
        for _ in range(self.dice.randrange(3)):
            made[self.dice.randrange(len(made))] = self.dice.randrange(256)
        return bytes(made)

    def mapping(self, count: int, depth: int) -> bytes:
        pairs = b"".join(self.text(self.dice.choice(FIELDS)) + self.value(depth + 1) for _ in range(count))
        return b"\xde" + struct.pack(">H", count) + pairs

    def body(self, known: dict[str, bytes]) -> RawBody:
        """A body: mostly a mapping with these entries, as likely as not with bytes changed."""
        count = self.dice.randrange(8)
        content = b"\xde" + struct.pack(">H", len(known) + count)
        content += b"".join(self.text(name) + value for name, value in known.items())
        content += self.mapping(count, 0)[3:]
        kind, detail = 3, b""
        if self.dice.random() < 0.3:
            changed = bytearray(content)
            for _ in range(1 + self.dice.randrange(3)):
                changed[self.dice.randrange(len(changed))] = self.dice.randrange(256)
            content = bytes(changed[: len(changed) - self.dice.choice((0, 0, 0, 1, 5))])
        if self.dice.random() < 0.1:
            kind, detail = self.dice.randrange(9), self.dice.choice((b"", b"dict", self.dice.randbytes(9)))
        return RawBody(kind, content, detail)


class Doors:
    """One of each door, fed by one generator. A failed input is told with the seed and its number."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.dice = random.Random(seed)
        self.bytes = Bytes(self.dice)
        self.taken = self.unreadable = 0
        self.handlers = (self.store, self.store, self.store, self.client, self.client, self.here, self.stand)
        self.begin()

    def begin(self) -> None:
        """Fresh doors: what strangers left in the old ones would slow down those that follow."""
        self.desk = Desk()
        self.desk.client("a", lease_s=3600)
        self.finder, self.election = Finder(), Election("d", 5)
        self.presence = Presence.__new__(Presence)
        self.presence._describe = lambda: {
            "memory": False, "run": "r", "patterns": [">"], "since": 5.0,
        }  # fmt: skip
        self.presence._rivals, self.presence._gives_way = {}, True
        self.presence._is_grouped = False
        self.presence._since_s = 0.0
        self.presence.open = type("Open", (), {"is_set": staticmethod(lambda: True)})()
        self.session = Session(5, token=lambda: "s")
        self.session.chains.append(Chain(5, 5, lambda: None, lambda: 0))
        self.session.begin(0.0)

    def message(self, known: dict[str, bytes]) -> Message:
        return Message("t", self.bytes.body(known), sender=7)

    def run(self, inputs: int) -> None:
        for number in range(inputs):
            if number % 5000 == 4999:
                self.serves()
                self.begin()
            try:
                self.dice.choice(self.handlers)()
            except BaseException:
                print(f"seed {self.seed}, input {number}", file=sys.stderr)
                raise
        self.serves()

    def opened(self, known: dict[str, bytes]) -> dict[str, Any] | None:
        """The body of the next message; any other way to read it raises what is documented, too."""
        message = self.message(known)
        try:
            _ = message.body
        except MessageFormatError:
            self.unreadable += 1
        repr(message)
        body = body_of(message)
        self.taken += body is not None
        return body

    def store(self) -> None:
        """Requests."""
        op = self.bytes.text(self.dice.choice(OPS)) if self.dice.random() < 0.9 else self.bytes.value()
        known = {"op": op, "session": self.bytes.text("a"), "n": b"\x05"}
        body = self.opened(known)
        if body is None:
            return
        self.desk.machine.handle(self.desk.now, body)
        if self.dice.random() < 0.1:
            self.desk.run()
        assert self.desk.machine.mistakes == 0, body

    def client(self) -> None:
        """What a store says to a session."""
        op = self.bytes.text(self.dice.choice(tuple(SAID)))
        body = self.opened({"op": op, "consumer": b"\x01", "lease": b"\x01"})
        if body is None or not is_said(body):
            return
        if self.session.state == "idle" or not self.session.inboxes:
            self.session.begin(0.0)
            self.session.inboxes = {1: Inbox(1, {}, prefetch=5, prefetch_bytes=5000, auto=True)}
            self.session.inboxes[1].lease = 1
        try:
            self.session.handle(1.0, body)
        except (ShoalError, KeyError, TypeError, ValueError, AttributeError, OverflowError, IndexError):
            # The channel catches whatever comes of one body; nothing of it stays with the next.
            self.session.begin(1.0)

    def here(self) -> None:
        """Stores that say that they are here, heard by a client and by a store."""
        names = ("store", "run", "name", "domain", "state")
        known = {name: self.bytes.text("0" * 16) for name in names if self.dice.random() < 0.9}
        for name in ("urls", "patterns"):
            known[name] = b"\x91" + self.bytes.text("t/>") if self.dice.random() < 0.8 else self.bytes.value()
        known["state"], known["term"] = self.bytes.text("open"), self.bytes.value()
        known["since"] = self.bytes.value()
        body = self.opened(known)
        if body is None:
            return
        self.finder.on_here(1.0, body)
        self.finder.choose(1.0, None, destination="t/a")
        try:
            self.presence._meet(body)
        except StoreError:
            # It was here earlier, and keeps the same: the store gives way, as documented.
            self.presence._rivals.clear()

    def stand(self) -> None:
        """Members that stand for the queues in memory."""
        body = self.opened({"publisher": self.bytes.value(), "term": self.bytes.value()})
        if body is None:
            return
        self.election.stand(1.0)
        self.election.on_stand(1.0, body)
        Message("t", self.election.said())

    def serves(self) -> None:
        """An honest client is served, before and after a crash."""
        self.desk.run()
        for name in ("honest", "after"):
            client = self.desk.client(f"{name}-{self.dice.getrandbits(32):x}")
            queue = f"fresh-{self.dice.getrandbits(64):x}"
            client.put(queue, b"x")
            assert client.consume(queue).bodies() == [b"x"], f"seed {self.seed}"
            self.desk.crash()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    doors = Doors(given.seed)
    doors.run(given.inputs)
    took = time.monotonic() - began
    print(
        f"{given.inputs} inputs in {took:.0f} s, seed {given.seed}: {doors.taken} were mappings, "
        f"{doors.unreadable} bodies could not be read, every door is open"
    )


if __name__ == "__main__":
    main()
