"""The store: a log in a directory, and a member of a domain that fills it.

It has a connection of its own, so that what an application publishes beside it reaches it as it reaches
anybody, and recording runs without the application's interpreter lock.
"""

import atexit
import dataclasses
import logging
import os
import secrets
import socket
import sqlite3
import threading
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from shoal._core import Log
from shoal.bus.connection import Connection
from shoal.bus.inside import begin, begin_instead, join_beside
from shoal.bus.store_protocol import queue_name
from shoal.bus.sync import Bus
from shoal.config import ConnectionConfig
from shoal.config.access import AccessFile
from shoal.config.target import LOOPBACK, Target
from shoal.config.tokens import Principals
from shoal.errors import StoreError, StoreFailedError
from shoal.messages import store as notices
from shoal.store import holds
from shoal.store.asking import Asker
from shoal.store.certificate import certificate_of
from shoal.store.config import StoreConfig, is_loopback
from shoal.store.forwarder import Forwarding
from shoal.store.founding import is_member
from shoal.store.held import Held
from shoal.store.history_door import HistoryDoor
from shoal.store.keeping import Keeper
from shoal.store.losses import Losses, loss_of
from shoal.store.machine import Identity
from shoal.store.presence import LISTEN_S, Presence, description
from shoal.store.projection import Projection
from shoal.store.publishing import Publishing
from shoal.store.recording import Recording
from shoal.store.rules import Rules
from shoal.store.serving import Serving, listening
from shoal.store.staged import Staged
from shoal.store.status import Rate, write_status
from shoal.store.syncing import Syncing
from shoal.system import free_bytes

log = logging.getLogger("shoal.store")

#: How often the store looks after itself.
KEEP_EVERY_S = 1.0
#: How often it lists its topics, for which it reads the last segment.
TOPICS_EVERY_S = 10.0

#: The log keeps under this key how often it had an owner.
_TERM = "term"

_open: "weakref.WeakSet[Store]" = weakref.WeakSet()


class Store:
    """An open store. May be shared between threads.

    Opening it locks the directory, recovers the log, joins the domain and begins to record. Close it, or use
    it in a `with` statement.
    """

    def __init__(
        self,
        config: StoreConfig,
        connection: ConnectionConfig,
        *,
        beside: bool = False,
        held: Held | None = None,
    ) -> None:
        """A store that is `beside` a connection of its program joins where that is, by `join`.

        One that is `held` by a group serves the group's log, and leaves it open when it ends.
        """
        self.config = config
        self._held = held
        self.domain = connection.domain
        self.name = config.name
        #: The process it belongs to: a forked child has no part in it.
        self.process = os.getpid()
        self._error: BaseException | None = None
        self._closing = threading.Event()
        self._failed = threading.Event()
        self._lock = threading.RLock()
        self._history: HistoryDoor | None = None
        self._began_s = time.time()
        self._warned = False
        #: Why the log is longer than it was to be, if it is.
        self._swollen: str | None = None
        #: What it could not do in its last turn.
        self._trouble: str | None = None
        self._losses = Losses()
        #: What is wrong with the token file, if that was logged.
        self._bad_tokens: str | None = None
        #: Another one after each start.
        self._run = secrets.token_hex(8)
        #: Who may use it; none is everybody who reaches it.
        self._principals = None if config.tokens is None else Principals(config.tokens, connection.domain)
        #: What they may do; without a file, everything that their roles allow.
        self._rules = Rules(None if config.access is None else AccessFile(config.access))
        self._bad_rules: str | None = None
        self.log = _open_log(config) if held is None else held.log
        try:
            #: What it shows to those who connect; none is without encryption.
            self.certificate = certificate_of(config, [socket.gethostname(), LOOPBACK])
            self._keeper = Keeper(self.log, config, Projection(config.path / "state.sqlite"))
            # What is committed is published to everybody, however long that takes.
            self._bus = Bus(dataclasses.replace(connection, when_full="block"))
            (begin_instead if beside else begin)(self._bus)
        except BaseException:
            self._close_log()
            raise
        patterns = [rule.pattern for rule in config.record]
        self._recording = Recording(
            self.log,
            self._bus,
            patterns,
            queue_bytes_max=config.queue_bytes_max,
            stored=config.patterns,
            failed=self._fail,
        )
        self._rate = Rate()
        self._syncing = Syncing(self.log, config.sync_every_s, self._fail)
        self._recording.start()
        self._publishing = Publishing(self.log, self._bus, self._fail)
        try:
            self._open_door(connection)
        except BaseException:
            self._stop_recording()
            raise
        self._keeping = threading.Thread(target=self._keep, name="shoal-keep", daemon=True)
        self._keeping.start()
        _open.add(self)
        self._write_status()
        if config.flight is not None:
            try:
                if held is not None:
                    held.end_history()
                self._history = HistoryDoor(self, config, self._principals, self._rules, self.certificate)
            except BaseException:
                self.close()
                raise

    def _open_door(self, connection: ConnectionConfig) -> None:
        """Serve clients, and say so once it is sure that nobody else keeps the same."""
        self.log.put(_TERM, (_term_of(self.log) + 1).to_bytes(8, "little"))
        identity = Identity(
            name=self.name,
            run=self._run,
            term=_term_of(self.log),
            patterns=self.config.patterns,
            node=self._bus.node,
            forwards=tuple(
                queue_name(pattern) or pattern for rule in self.config.forward for pattern in rule.patterns
            ),
        )
        self._door, self.urls = self._listen(connection)
        self._serving = Serving(
            self.log,
            self._bus,
            identity,
            endpoint=self._door,
            failed=self._fail,
            publishing=self._publishing,
            recorded=tuple(rule.pattern for rule in self.config.record),
            principals=self._principals,
            rules=self._rules,
            forward=self.config.forward,
            held=self._held,
        )
        self._staged = Staged(self.log, self._serving)
        self._presence = Presence(
            self._bus,
            lambda: description(
                self.log,
                identity,
                self._began_s if self._held is None else self._held.since,
                self.urls,
                self._open_state(),
                self.domain,
            ),
            self._fail,
            doors=[] if self._door is None else [self._door],
            # Within one process everybody is heard of at once, and who owns a group was elected.
            listen_s=0.05 if connection.scheme == "inproc" or self._held is not None else LISTEN_S,
            is_grouped=self._held is not None,
            # Nobody proves on the bus to be a store; where tokens count, that is not enough.
            gives_way=self._principals is None,
        )
        self._forwarding = Forwarding(
            self.config.forward,
            self._serving,
            domain=self.domain,
            bytes_max=connection.message_bytes_max,
        )
        self._serving.start()
        for rule in self.config.queues:
            self.ask("declare", queue=rule.name, **rule.options)
        self._presence.start()

    def _listen(self, connection: ConnectionConfig) -> tuple[Bus | None, list[str]]:
        """Where clients connect by TCP: the bus, and its addresses. None if they cannot."""
        if self.config.listen == "off" or (self.config.listen is None and connection.scheme == "inproc"):
            return None, []
        # The address of the domain's interface, with the port of its socket.
        own = str(self._bus.link().get("address") or "").rpartition(":")[0].strip("[]") or LOOPBACK
        if self.config.listen is not None:
            host, port = self.config.listen_address()
        else:
            # What is encrypted on multicast must not be readable elsewhere unless somebody asked.
            has_key = connection.key is not None or connection.key_file is not None
            host, port = LOOPBACK if has_key else own, 0
        bus, url = listening(connection, host, port, self.certificate)
        is_wide = host in ("0.0.0.0", "::")
        if is_wide:
            url = Target("tcp" if self.certificate is None else "tls", own, int(url.rpartition(":")[2])).url
        if is_wide or not is_loopback(host):
            self._warn_of_clear(url)
        return bus, [url]

    def _warn_of_clear(self, url: str) -> None:
        """Say what others on the network can do, beyond this machine."""
        if self._principals is None:
            notices.DOOR_OPEN(url=url).log(log)
        if self.certificate is None:
            notices.DOOR_IN_CLEAR(url=url).log(log)

    def join(self, url: str) -> None:
        """Connect to where the program that has it is connected, or listens: a link is nobody else's."""
        self._bus.connect(url)

    def join_beside(self, beside: Connection) -> None:
        """Connect to the program that has it, and that others connect to."""
        join_beside(self._bus, beside)

    def _stop_recording(self) -> None:
        self._recording.stop()
        self._publishing.stop()
        self._syncing.stop()
        self._bus.close(0)
        self._keeper.projection.close()
        self._close_log()

    def _close_log(self) -> None:
        if self._held is None:
            self.log.close()

    # What others ask of it.

    @property
    def channel(self) -> str:
        """The name of an inproc domain on which programs of this process ask."""
        return self._serving.channel

    def wait_open(self, timeout_s: float | None = None) -> bool:
        """Wait until the store serves clients; false if the time was over first.

        Raises:
            StoreError: what it failed with, for example because another store keeps the same.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._presence.open.wait(0.02):
            if self._error is not None:
                raise self._error
            if deadline is not None and time.monotonic() >= deadline:
                return False
        return True

    @property
    def floor(self) -> int:
        """The offset at which history begins."""
        return self.log.floor

    @property
    def endpoint(self) -> str | None:
        """Where history is served, if it is."""
        return None if self._history is None else self._history.endpoint

    @property
    def fingerprint(self) -> str | None:
        """The fingerprint of its certificate, which clients pin; none without TLS."""
        return None if self.certificate is None else self.certificate.fingerprint

    @property
    def failure(self) -> BaseException | None:
        """What ended the store, if anything did."""
        return self._error

    def commit(self, scope: str | None, number: int, stagings: list[str]) -> tuple[int, int, bool]:
        """Make stagings visible and durable, and have them published: first offset, end, repeated."""
        done = self._staged.commit(scope, number, stagings)
        self._publishing.wake()
        return done

    def expect(self, staging: str, sizes: Mapping[str, tuple[int, int]], *, more: bool = True) -> None:
        """Rows of a staging go to these destinations: messages and bytes of each.

        Raises:
            StoreRefusedError: clients may not send there.
        """
        self._staged.expect(staging, sizes, more=more)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Ask what clients ask, from any thread of this process."""
        asker = Asker(f"inproc://{self.channel}", f"{self.log.store_id:016x}", self.channel)
        try:
            return asker.ask(op, **fields)
        finally:
            asker.close()

    def hold(self, name: str, offset: int) -> None:
        """Keep everything from an offset on until the hold is moved or released."""
        holds.hold(self.log, name, offset)
        self.log.sync()

    def release(self, name: str) -> bool:
        """Release a hold; whether there was one."""
        released = holds.release(self.log, name)
        self.log.sync()
        return released

    def holds(self) -> dict[str, int]:
        """Every hold, by its name."""
        return holds.holds_of(self.log)

    def lost_before(self, patterns: list[str]) -> int:
        """The offset after the last message that retention removed and that matches; 0 if there is none."""
        with self._lock:
            return self._keeper.lost_before(patterns)

    def sync(self) -> int:
        """Return when everything recorded so far is durable, with the offset after the last message."""
        return self.log.sync()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until the store failed or was closed; false if the time was over first.

        Raises:
            StoreError: what it failed with.
        """
        over = self._failed.wait(timeout_s)
        if self._error is not None:
            raise self._error
        return over

    def status(self, topics_older_s: float = 0.0) -> dict[str, Any]:
        """What it has, what it does and how it is; topics perhaps as they were `topics_older_s` ago."""
        with self._lock:
            topics = self._keeper.topics(topics_older_s)
            disk = self._keeper.disk_bytes()
        count, written, seconds, longest, last = self.log.sync_stats()
        messages, size = self._recording.recorded
        created, read, torn, took = self.log.recovered
        rate = self._rate
        return {
            "name": self.name,
            "domain": self.domain,
            "path": str(self.config.path.resolve()),
            "pid": os.getpid(),
            "since": self._began_s,
            "at": time.time(),
            "incarnation": self.log.incarnation,
            "state": self._state(),
            "floor": self.log.floor,
            "end": self.log.durable_end,
            "topics": topics,
            "segments": len(self.log.segments()),
            "disk_bytes": disk,
            "record": [
                {"pattern": rule.pattern, "keep_s": rule.keep_s, "keep_bytes": rule.keep_bytes}
                for rule in self.config.record
            ],
            "keep_s": self.config.keep_s,
            "keep_bytes": self.config.keep_bytes,
            "holds": self.holds(),
            "losses_waiting": self._losses.waiting,
            "unpublished_rows": sum(end - first for first, end in self.log.unpublished()),
            "stagings": len(self.log.stagings()),
            "recorded": {"messages": messages, "bytes": size, "repeated": self._recording.repeated},
            "rate": {"messages_s": rate.messages_s, "bytes_s": rate.bytes_s},
            "sync": {
                "count": count,
                "bytes": written,
                "mean_ms": 1000 * seconds / count if count else None,
                "longest_ms": 1000 * longest,
                "last_ms": 1000 * last,
            },
            "recovery": {"created": created, "bytes_read": read, "bytes_torn": torn, "seconds": took},
            "flight": self.endpoint,
            "urls": self.urls,
            "fingerprint": self.fingerprint,
            "store": f"{self.log.store_id:016x}",
            "durable": list(self.log.durable),
            "term": _term_of(self.log),
            "patterns": list(self.config.patterns),
            "group": None if self._held is None else self._held.status(),
            **self._serving_status(),
        }

    def _serving_status(self) -> dict[str, Any]:
        served = self._serving.status()
        return {**served, "forwards": self._forwarding.status(served["forwards"])}

    def _open_state(self) -> str:
        """How it is, for clients."""
        if self._error is not None:
            return "failed"
        if self._closing.is_set():
            return "closing"
        return "open" if self._recording.refused is None else "full"

    def _state(self) -> str:
        if self._error is not None:
            return f"failed: {self._error}"
        if self._recording.refused is not None:
            return f"full: {self._recording.refused}"
        return "closed" if self._closing.is_set() else "recording" if self.config.record else "open"

    # What it does by itself.

    def _keep(self) -> None:
        while not self._closing.wait(KEEP_EVERY_S):
            try:
                self._turn()
            except StoreFailedError as error:
                self._fail(error)
                return
            except (StoreError, sqlite3.Error, OSError) as error:
                # The log has what was recorded. Files beside it wait for room, or for a descriptor.
                if str(error) != self._trouble:
                    notices.MAINTENANCE_FAILED(why=error).log(log)
                self._trouble = str(error)
            else:
                self._trouble = None

    def _turn(self) -> None:
        """What is due every second. Whatever fails, what comes first is what makes room again."""
        self._look_at_disk()
        self._read_tokens()
        self._forwarding.turn()
        try:
            self._note_losses()
            with self._lock:
                self._keeper.turn(pin=self._serving.pin)
            # Retention did what it may: readers need what is too much now.
            self._swollen = self._too_much_kept()
            self._rate.take(time.monotonic(), *self._recording.recorded)
        finally:
            # A backup waits for it.
            write_status(self.config.path, self.status(TOPICS_EVERY_S))

    def _read_tokens(self) -> None:
        """Notice files of tokens and rules that changed; one that cannot be used changes nothing."""
        wrong = None if self._principals is None else self._principals.refresh()
        if wrong is not None and wrong != self._bad_tokens:
            notices.TOKENS_UNREADABLE(why=wrong).log(log)
        self._bad_tokens = wrong
        wrong = self._rules.refresh()
        if wrong is not None and wrong != self._bad_rules:
            notices.RULES_UNREADABLE(why=wrong).log(log)
        self._bad_rules = wrong

    def _write_status(self) -> None:
        """Tell how it is; a disk without room for that keeps no store from starting or closing."""
        try:
            write_status(self.config.path, self.status())
        except OSError as error:
            notices.STATUS_NOT_WRITTEN(why=error).log(log)

    def _note_losses(self) -> None:
        for event in self._bus.events(timeout_s=0.0):
            loss = loss_of(event) if self.config.record else None
            if loss is not None:
                self._losses.add(loss)
        self._losses.note(self.log)

    def _look_at_disk(self) -> None:
        config = self.config
        free = free_bytes(config.path)
        if free < config.min_free_bytes:
            why = (
                f"the disk of {config.path} has {free} bytes left, less than min_free_bytes"
                f" ({config.min_free_bytes})"
            )
            self._recording.pause(why)
            self._serving.set_space(f"{why}: free some space, or have messages consumed", why)
            return
        self._recording.resume()
        low = self._swollen
        if free < config.warn_free_bytes:
            low = (
                f"the disk of {config.path} has only {free} bytes left, less than warn_free_bytes"
                f" ({config.warn_free_bytes})"
            )
        self._serving.set_space(None, low)
        if free < config.warn_free_bytes and not self._warned:
            notices.DISK_LOW(path=config.path, free=free, least=config.min_free_bytes).log(log)
        self._warned = free < config.warn_free_bytes

    def _too_much_kept(self) -> str | None:
        """Why whoever needs old messages keeps too much of the log, if that is so."""
        most = self.config.keep_bytes
        sealed = sum(segment["bytes"] for segment in self.log.segments()[:-1])
        if most is None or sealed <= most:
            return None
        return f"the store in {self.config.path} has {sealed} bytes, more than keep_bytes ({most})"

    def _fail(self, error: BaseException) -> None:
        """Stop for good: nobody knows what is on the disk."""
        if self._error is None:
            self._error = error
            if self._held is None or not self._held.is_deposed:
                notices.STORE_STOPPED(path=self.config.path, why=error).log(log)
        self._failed.set()

    def close(self) -> None:
        """Record what has arrived, make it durable, let go of the directory. Closing again does nothing."""
        if self._closing.is_set():
            return
        self._closing.set()
        if self._history is not None:
            self._history.close()
        self._presence.stop()
        self._forwarding.close()
        self._serving.stop()
        self._recording.stop()
        self._publishing.stop()
        if self._keeping is not threading.current_thread():
            self._keeping.join()
        if self._error is None and self._held is not None and self._held.is_deposed:
            self._error = StoreError("another store owns the group now")
        self._serving.close(failed=self._error is not None)
        self._bus.close(1.0)
        self._syncing.stop()
        try:
            if self._error is None:
                self.log.sync()
                self._keeper.project()
                self._write_status()
            self._close_log()
        except StoreError as error:
            self._fail(error)
        self._keeper.projection.close()
        self._failed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.config.path} {self._state()}>"


def open_beside(path: str | Path, connection: ConnectionConfig, **options: Any) -> Store:
    """The store of a program that connects with `store=path`."""
    from shoal.store.config import resolve

    # A connection has patterns and addresses of its own, so those of its store say whose they are.
    told = {name.removeprefix("store_"): value for name, value in options.items()}
    return Store(resolve(path, **told), connection, beside=True)


def renew(path: Path) -> tuple[str, str]:
    """Begin a new incarnation of a store that was restored from a copy: the former one, and the new."""
    if not any(path.glob("[0-9]*.log")):
        raise StoreError(f"{path} has no log")
    log_ = _open_log(StoreConfig(path=path))
    try:
        former = log_.incarnation
        log_.renew(os.urandom(16))
        return former, log_.incarnation
    finally:
        log_.close()


def _term_of(log_: Log) -> int:
    return int.from_bytes(log_.get(_TERM) or b"", "little")


@atexit.register
def _close_all() -> None:
    """Close whoever is open when the interpreter exits; connections are closed after this."""
    for store in list(_open):
        if store.process == os.getpid():
            store.close()


def log_options(config: StoreConfig) -> dict[str, Any]:
    """How the log of a store is kept."""
    return {
        "holder": f"the store {config.name!r} of process {os.getpid()} on {socket.gethostname()}",
        "segment_bytes": config.segment_bytes,
        "buffer_bytes_max": config.buffer_bytes_max,
        "state_bytes_max": min(32 << 20, config.segment_bytes // 2),
    }


def _open_log(config: StoreConfig) -> Log:
    if is_member(config.path):
        raise StoreError(
            f"{config.path} belongs to a member of a group: start it with --group, or take another directory"
        )
    log_ = Log(config.path, store_id=secrets.randbits(64), incarnation=os.urandom(16), **log_options(config))
    created, read, torn, seconds = log_.recovered
    if torn:
        notices.TORN_TAIL(size=torn).log(log)
    if not created:
        notices.STORE_OPENED(path=config.path, size=read, seconds=seconds).log(log)
    return log_
