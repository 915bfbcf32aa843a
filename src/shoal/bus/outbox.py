"""The outbox: persistent messages on the disk of the program that publishes them, until a store has them.

It is a log of its own, with an identity that is kept for ever: publisher and number of a message are those of
the log and of its place in it. So whatever happens to this program, to the network or to the store, a
message that is sent again is known, and stored once. Entries go to the store in order, and from the disk when
they are stored and live.
"""

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shoal import _core
from shoal._core import Log, RowsBuilder, take_rows
from shoal.bus.store_chain import Chain
from shoal.bus.store_protocol import QUEUES
from shoal.errors import FullError, StoreError
from shoal.messages import bus as notices

log = logging.getLogger("shoal.bus")

#: Short segments: what is stored goes with the segment it is in.
SEGMENT_BYTES = 16 << 20
#: Rows and bytes of one request to the store.
ROWS_TOGETHER = 1000
BYTES_TOGETHER = 256 << 10
#: How often it is noted how far the store is. After a crash what is not noted is sent again, and known there.
NOTE_EVERY_S = 1.0
#: The key of that note.
STORED = "outbox/stored"


class Outbox:
    """An open outbox. May be shared between threads."""

    def __init__(
        self,
        log_: Log,
        path: Path,
        bytes_max: int,
        *,
        rows_together: int = ROWS_TOGETHER,
        request_bytes: int = BYTES_TOGETHER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log, self.path, self._bytes_max = log_, path, bytes_max
        self._rows_together, self._clock = rows_together, clock
        self._bytes_together = min(request_bytes, BYTES_TOGETHER)
        self.publisher = self._log.store_id
        noted = self._log.get(STORED)
        #: The offset up to which the store has everything: the number of the last such message, too.
        self._stored = max(self._log.floor, int.from_bytes(noted or b"", "little"))
        self._read = self._stored
        self._noted_at = -NOTE_EVERY_S
        #: Called now and then when the store has more than is noted, under the channel's lock.
        self.when_due = self.note_if_due
        self._is_due = False
        self._chain: Chain | None = None
        #: Held while a message gets its number.
        self._adding = threading.Lock()
        #: Numbers and topics that live subscribers were not given; the thread that gives them holds the lock.
        self._unlive: deque[tuple[int, str]] = deque()
        self._living = threading.Lock()
        # An offset counts from 0, a number from 1.
        self.builder = RowsBuilder(self.publisher, 5, self._log.end + 1)

    @staticmethod
    def open(path: Path, bytes_max: int, *, request_bytes: int = BYTES_TOGETHER) -> "Outbox":
        """The outbox in a directory, or a new one; its connection sends requests of this size."""
        log_ = Log(
            path,
            # No publisher is called 0.
            store_id=secrets.randbits(64) | 1,
            incarnation=os.urandom(16),
            holder=f"the outbox of process {os.getpid()} on {socket.gethostname()}",
            segment_bytes=SEGMENT_BYTES,
            state_bytes_max=1 << 20,
        )
        return Outbox(log_, path, bytes_max, request_bytes=request_bytes)

    def chain(self, chain: int) -> Chain:
        """What brings its entries to a store."""
        self._chain = Chain(
            self.publisher,
            chain,
            self._take,
            lambda: BYTES_TOGETHER if self._read < self._log.durable_end else 0,
            stored=self._stored,
            patient=True,
            on_stored=self._on_stored,
            key=self._log.incarnation,
            clock=self._clock,
        )
        return self._chain

    @property
    def waiting(self) -> int:
        """Messages that are not stored yet."""
        return self._log.end - self._stored

    def add(self, topic: str, body: Any, *, bytes_max: int, **headers: Any) -> int:
        """Append a message, and return its number; it is durable after `sync`."""
        if (self.waiting or self._unlive) and self._log.used_bytes > self._bytes_max:
            lacks = (
                f"{self.waiting} messages that no store has taken"
                if self.waiting
                else f"{len(self._unlive)} messages that live subscribers have no room for"
            )
            raise FullError(
                f"the outbox {self.path} has {lacks}, more than outbox_bytes_max ({self._bytes_max}) lets it "
                "keep: start a store, let subscribers read faster, or give it more room"
            )
        persistent = headers.pop("persistent", True)
        with self._adding:
            number = self.builder.add(
                topic,
                body,
                persistent=persistent,
                bytes_max=min(bytes_max, SEGMENT_BYTES // 2),
                log=self._log,
                **headers,
            )
            if not topic.startswith(QUEUES):
                self._unlive.append((number, topic))
        return number

    def sync(self) -> None:
        """Return when everything added before is durable."""
        self._log.sync()

    @property
    def unlive(self) -> int:
        """Messages that live subscribers were not given."""
        return len(self._unlive)

    @property
    def _live(self) -> int:
        """The last message before the first that live subscribers were not given."""
        try:
            return self._unlive[0][0] - 1
        except IndexError:
            return self._log.end

    def is_live(self, number: int) -> bool:
        """Whether live subscribers were given a message."""
        return number <= self._live

    def pass_on(self, node: _core.Node, timeout_s: float | None) -> bool:
        """Publish what is durable for live subscribers, in order, of every thread that added.

        Returns false if they had no room for all of it in time. It stays here, and is published later.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        if not self._living.acquire(timeout=-1 if timeout_s is None else timeout_s):
            return False
        try:
            while self._unlive and self._unlive[0][0] <= self._log.durable_end:
                number, topic = self._unlive[0]
                if node.may_want(topic):
                    rows, _, count = take_rows(self._log, number - 1, number, 1, BYTES_TOGETHER)
                    left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                    if count:
                        _core.pass_on(node, rows, left_s)
                self._unlive.popleft()
        except FullError:
            return False
        finally:
            self._living.release()
        return True

    def give_up_live(self, why: object) -> None:
        """Publish nothing more for live subscribers; the store gets it."""
        with self._living:
            if self._unlive:
                notices.OUTBOX_NOT_PUBLISHED(path=self.path, messages=len(self._unlive), why=why).log(log)
                self._unlive.clear()

    def _take(self) -> tuple[bytes, int, int] | None:
        """The next rows that are durable."""
        end = self._log.durable_end
        if self._read >= end:
            return None
        rows, after, count = take_rows(self._log, self._read, end, self._rows_together, self._bytes_together)
        first, self._read = self._read + 1, after
        return (rows, first, after) if count else None

    def _on_stored(self, through: int) -> None:
        """The store has everything up to a number."""
        self._stored = max(self._stored, through)
        # After a crash the store has more than was noted here, and what it has may be gone from the disk.
        self._read = max(self._read, self._stored)
        now = self._clock()
        if now - self._noted_at >= NOTE_EVERY_S:
            self._noted_at, self._is_due = now, True
            self.when_due()

    def note_if_due(self) -> None:
        """Note how far the store is, and remove what is stored and live from the disk, now and then."""
        if self._is_due:
            self._is_due = False
            self._note()

    def _note(self) -> None:
        try:
            self._log.put(STORED, self._stored.to_bytes(8, "little"))
            self._log.trim(min(self._stored, self._live))
            self._log.fill_spares()
        except StoreError as error:
            notices.OUTBOX_NOT_NOTED(path=self.path, why=error).log(log)

    def close(self) -> None:
        """Note how far the store is, and release the directory. Closing again does nothing."""
        self.give_up_live("the connection is closed")
        self._note()
        try:
            self._log.sync()
        except StoreError as error:
            notices.OUTBOX_NOT_NOTED(path=self.path, why=error).log(log)
        self._log.close()
