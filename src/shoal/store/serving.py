"""Serves a store's machine: one thread takes requests of all clients, makes them durable together, answers.

Clients reach it by TCP, within the process, or over the domain's own bus; the protocol is the same. Which
other stores there are is in `presence`.
"""

import dataclasses
import logging
import secrets
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from shoal import _core
from shoal._core import Log, Message
from shoal.bus.inside import be_private, core_of
from shoal.bus.store_protocol import requests_topic, session_topic
from shoal.bus.subscription import Subscription
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.errors import ClosedError, FullError, ShoalError, StoreError
from shoal.store.core import Now
from shoal.store.listening import Listening
from shoal.store.machine import SESSION, Identity, Machine
from shoal.store.publishing import Publishing

log = logging.getLogger("shoal.store")

#: Requests that are taken before what they ask for is made durable.
REQUESTS_MAX = 1000
#: Rows of one turn; a request is never divided.
TURN_BYTES = 1 << 20
#: Requests that may wait, per bus.
QUEUE_BYTES_MAX = 16 << 20
#: What may wait for one session that takes nothing; then the session is over.
UNSENT_MAX = 20_000
#: How often a session that takes nothing is tried again.
RETRY_S = 0.005
#: Leases are noticed this late, at the most.
WAIT_MAX_S = 0.25
#: Connections of clients.
CLIENTS_MAX = 10_000


def now() -> Now:
    """The time, by both clocks."""
    return Now(time.monotonic(), time.time_ns() // 1000)


class Door:
    """A bus on which clients ask. For one thread at a time."""

    def __init__(self, bus: Bus, store: str, *, private: bool) -> None:
        self.bus = bus
        self._store, self._private = store, private
        self._requests: Subscription = bus.subscribe(requests_topic(store), queue_bytes_max=QUEUE_BYTES_MAX)
        #: What could not be sent yet, by session.
        self._unsent: dict[str, deque[dict[str, Any]]] = {}

    def attach_bell(self, bell: _core.Bell, source: int) -> None:
        """Ring when a request came."""
        core_of(self._requests).attach_bell(bell, source)

    def take(self) -> list[Message]:
        """Requests that came."""
        try:
            return self._requests.receive_nowait(REQUESTS_MAX)
        except ClosedError:
            return []

    @property
    def is_stuck(self) -> bool:
        """Whether somebody takes nothing."""
        return bool(self._unsent)

    def send(self, session: str, body: dict[str, Any]) -> None:
        """Tell a session something; one that takes nothing gets it later, or nothing more at all."""
        waiting = self._unsent.get(session)
        if waiting is not None:
            if len(waiting) < UNSENT_MAX:
                waiting.append(body)
            return
        if not self._try(session, body):
            self._unsent[session] = deque([body])

    def _try(self, session: str, body: dict[str, Any]) -> bool:
        try:
            topic = session_topic(self._store, session, private=self._private)
            self.bus.publish(topic, body, timeout_s=0.0)
        except FullError:
            return False
        except ClosedError:
            raise
        except ShoalError as error:
            log.error("an answer cannot be sent to the session %s: %s", session, error)
        return True

    def retry(self) -> None:
        """Try those again that took nothing."""
        for session, waiting in list(self._unsent.items()):
            while waiting and self._try(session, waiting[0]):
                waiting.popleft()
            if not waiting:
                del self._unsent[session]

    def forget(self, session: str) -> None:
        """A session is over."""
        self._unsent.pop(session, None)


class Serving:
    """The thread that serves a store. `failed` is called with what ends it."""

    def __init__(
        self,
        log_: Log,
        bus: Bus,
        identity: Identity,
        *,
        endpoint: Bus | None,
        failed: Callable[[BaseException], None],
        publishing: Publishing | None = None,
        recorded: tuple[str, ...] = (),
    ) -> None:
        self._log = log_
        self._failed = failed
        self._publishing = publishing
        self._bus = bus
        self.machine = Machine(log_, identity, now(), recorded=recorded)
        store = f"{log_.store_id:016x}"
        #: The name of an inproc domain on which programs of this process ask.
        self.channel = f"store-{store}-{secrets.token_hex(4)}"
        inside = Bus(ConnectionConfig(scheme="inproc", domain=self.channel))
        be_private(inside)
        self._inside = inside
        self._doors = [Door(inside, store, private=True), Door(bus, store, private=False)]
        if endpoint is not None:
            self._doors.append(Door(endpoint, store, private=True))
        #: Which door a session uses.
        self._used: dict[str, Door] = {}
        self._waiting: deque[tuple[Door, Message]] = deque()
        self._bell = _core.Bell()
        for source, door in enumerate(self._doors, 1):
            door.attach_bell(self._bell, source)
        self._listening = Listening(bus, self._bell)
        self._listen()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._pin = self.machine.pin
        self._thread = threading.Thread(target=self._run, name="shoal-serve", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    @property
    def pin(self) -> int | None:
        """The lowest offset that a queue or subscription needs, as of the last turn."""
        return self._pin

    def status(self) -> dict[str, Any]:
        """How queues, subscriptions and sessions are."""
        with self._lock:
            return self.machine.status()

    def took(self, first: int, end: int) -> None:
        """Rows came into the log, durable, that no request brought."""
        with self._lock:
            self.machine.took(now(), first, end)
        self._bell.ring(0)

    def set_space(self, full: str | None, low: str | None) -> None:
        """How the disk is."""
        with self._lock:
            self.machine.set_space(full, low)

    def _run(self) -> None:
        poller = select.poll()
        poller.register(self._bell.fileno(), select.POLLIN)
        more = False
        try:
            while not self._stopping.is_set():
                stuck = any(door.is_stuck for door in self._doors)
                if not more and not self._waiting and not self._listening.has_more:
                    left_s = min(self.machine.poll_timeout() - time.monotonic(), WAIT_MAX_S)
                    poller.poll(max(0.0, min(left_s, RETRY_S) if stuck else left_s) * 1000)
                self._listening.rang(self._bell.take())
                more = self._turn()
        except (StoreError, OSError) as error:
            if not self._stopping.is_set():
                self._failed(error)
        except ShoalError as error:
            if not self._stopping.is_set():
                self._failed(StoreError(f"the store cannot serve any more: {error}"))
        except Exception as error:
            # A mistake of ours. Nobody is to wait for a store that lives and answers nothing.
            log.exception("the store cannot serve any more")
            self._failed(StoreError(f"the store cannot serve any more: {error!r}"))

    def _turn(self) -> bool:
        """Take what came, make it durable, answer; whether there is more to give out at once."""
        for door in self._doors:
            for message in door.take():
                self._waiting.append((door, message))
            door.retry()
        with self._lock:
            at = now()
            if at.mono_s >= self.machine.poll_timeout():
                self.machine.handle_timeout(at)
            has_committed = self._handle(at)
            for rows in self._listening.take(TURN_BYTES):
                self.machine.hear(at, rows)
            is_unsettled = self.machine.append(now())
        if is_unsettled:
            self._log.sync()
        with self._lock:
            more = self.machine.settle(now())
            outgoing, silent = self.machine.poll_transmit(), self.machine.poll_silent()
            self._pin = self.machine.pin
        # Whoever is told that it subscribes misses nothing from then on.
        self._listen()
        self._send(outgoing)
        if self._publishing is not None:
            for publisher in silent:
                self._publishing.publish_again(publisher)
            if has_committed:
                self._publishing.wake()
        return more

    def _listen(self) -> None:
        wanted = self.machine.poll_wanted()
        if wanted is not None:
            self._listening.follow(wanted)

    def _handle(self, at: Now) -> bool:
        has_committed, size = False, 0
        while self._waiting and size < TURN_BYTES:
            door, message = self._waiting.popleft()
            try:
                body = message.body
            except ShoalError as error:
                log.warning("a request cannot be read: %s", error)
                continue
            if isinstance(body, dict):
                session = body.get("session")
                if (
                    isinstance(session, str)
                    and SESSION.fullmatch(session)
                    and (body.get("op") == "hello" or session not in self._used)
                ):
                    self._used[session] = door
                has_committed |= body.get("op") == "commit"
                rows = body.get("rows")
                size += len(rows) if isinstance(rows, bytes) else 100
            self.machine.handle(at, body)
        return has_committed

    def _send(self, outgoing: list[tuple[str, dict[str, Any]]]) -> None:
        for session, body in outgoing:
            door = self._used.get(session)
            if door is not None:
                door.send(session, body)
            if body["op"] == "gone" and body["consumer"] is None:
                self._forget(session)
        if len(self._used) > CLIENTS_MAX:
            known = {each["session"] for each in self.status()["sessions"]}
            for session in [each for each in self._used if each not in known]:
                self._forget(session)

    def _forget(self, session: str) -> None:
        door = self._used.pop(session, None)
        if door is not None:
            door.forget(session)

    def stop(self) -> None:
        """Tell clients that the store closes, and end the thread; what it took is durable."""
        self._stopping.set()
        self._bell.ring(0)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def close(self, *, failed: bool) -> None:
        """After `stop`: note how far everybody is, unless the log failed."""
        self._listening.follow(set())
        if not failed:
            try:
                for rows in self._listening.take(TURN_BYTES):
                    self.machine.hear(now(), rows)
                self.machine.close(now())
                self.machine.append(now())
                self._log.sync()
                self.machine.settle(now())
                self._send(self.machine.poll_transmit())
            except ShoalError as error:
                log.warning("the store did not note everything before it closed: %s", error)
        for door in self._doors:
            if door.bus is not self._bus:
                door.bus.close(0.5)


def listening(connection: ConnectionConfig, host: str, port: int) -> tuple[Bus, str]:
    """A bus to which clients connect by TCP, and where."""
    from shoal.link.address import Target

    config = dataclasses.replace(
        ConnectionConfig(scheme="tcp", host=host, port=port, domain=connection.domain),
        connections_max=CLIENTS_MAX,
    )
    bus = Bus(config)
    # Clients that died have not everything, and what it is they are told by the next run.
    be_private(bus)
    try:
        return bus, bus.listen(Target("tcp", host, port).url)
    except BaseException:
        bus.close(0)
        raise
