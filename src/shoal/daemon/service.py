"""A daemon as a process: its file, its signals, and the process that started it."""

import contextlib
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from shoal.daemon import notify
from shoal.daemon.config import DaemonConfig, load
from shoal.daemon.daemon import Daemon
from shoal.daemon.logs import Logs
from shoal.daemon.running import Running
from shoal.descriptors import limit
from shoal.errors import ShoalError
from shoal.messages import daemon as notices
from shoal.system import raise_descriptor_limit

log = logging.getLogger("shoal.daemon")

#: How often the daemon looks after itself at the least.
TURN_S = 0.5
#: A daemon that ends gives its programs this time to go to other daemons, and looks for signals meanwhile.
LEAVE_S, DRAIN_STEP_S = 8.0, 0.25
#: Descriptors for all but connections: its own links, files, HTTP, and those that are kept free.
DESCRIPTORS_BESIDE = 64


class Signals:
    """What signals asked for. The handlers only set flags: Python calls them between any two steps."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.reload = threading.Event()
        #: Whether programs are to be sent elsewhere; `None` if no signal said so.
        self.drain: bool | None = None

    def end(self, _number: int, _frame: FrameType | None) -> None:
        """SIGTERM, SIGINT."""
        self.ended.set()

    def again(self, _number: int, _frame: FrameType | None) -> None:
        """SIGHUP."""
        self.reload.set()

    def begin_drain(self, _number: int, _frame: FrameType | None) -> None:
        """SIGUSR1."""
        self.drain = True

    def end_drain(self, _number: int, _frame: FrameType | None) -> None:
        """SIGUSR2."""
        self.drain = False

    @contextlib.contextmanager
    def caught(self) -> Iterator[None]:
        """Catch them while this lasts."""
        handlers = {signal.SIGTERM: self.end, signal.SIGINT: self.end}
        if sys.platform != "win32":
            handlers[signal.SIGHUP] = self.again
            handlers[signal.SIGUSR1] = self.begin_drain
            handlers[signal.SIGUSR2] = self.end_drain
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def run(path: Path) -> None:
    """Be the daemon that a file describes, until SIGTERM or SIGINT. SIGHUP reads the file again.

    Raises:
        ShoalError: the file is wrong, or something it names cannot be opened.
    """
    config = load(path)
    signals, logs = Signals(), Logs(config.log)
    try:
        with signals.caught():
            # Each connection takes a descriptor.
            raise_descriptor_limit()
            _compare_descriptor_limit(config)
            with Daemon(config) as daemon:
                notices.READY(name=config.name, what=_what(daemon)).log(log)
                notify.ready(_what(daemon))
                with Running(config):
                    _loop(daemon, path, signals, logs)
                notify.stopping()
                _leave(daemon, signals)
                notices.ENDED(name=daemon.config.name).log(log)
    finally:
        logs.close()


def _loop(daemon: Daemon, path: Path, signals: Signals, logs: Logs) -> None:
    watchdog_s = notify.watchdog_s()
    fed_s = time.monotonic()
    while not signals.ended.is_set():
        if signals.reload.is_set():
            signals.reload.clear()
            notify.reloading()
            _reload(daemon, path, logs)
            notify.ready(_what(daemon))
        if (wanted := signals.drain) is not None:
            signals.drain = None
            daemon.begin_drain() if wanted else daemon.end_drain()
        daemon.turn(TURN_S)
        if watchdog_s is not None and time.monotonic() - fed_s >= watchdog_s:
            fed_s = time.monotonic()
            notify.alive()


def _leave(daemon: Daemon, signals: Signals) -> None:
    """Send programs to other daemons; a second signal ends it at once."""
    signals.ended.clear()
    until = time.monotonic() + LEAVE_S
    daemon.begin_drain()
    while not signals.ended.is_set() and time.monotonic() < until:
        if not daemon.drain(DRAIN_STEP_S):
            return


def _reload(daemon: Daemon, path: Path, logs: Logs) -> None:
    try:
        config: DaemonConfig = load(path)
        logs.use(config.log)
        done = daemon.reload(config)
    except ShoalError as error:
        notices.RELOAD_FAILED(path=path, why=error).log(log)
        return
    notices.RELOADED(path=path, changes=", ".join(done) or "nothing changed").log(log)


def _what(daemon: Daemon) -> str:
    config = daemon.config
    links = ", ".join(config.open_links()) or "none"
    http = f"; http at {daemon.http_url}" if daemon.http_url else ""
    return f"domain {config.domain}, links {links}{http}"


def _compare_descriptor_limit(config: DaemonConfig) -> None:
    """Say so where there are fewer than connections may need."""
    listening = [link.connection.scheme for link in config.open_links().values() if link.listens]
    if not listening:
        return
    # A transport in Python has a pipe beside its socket.
    each = 1 if {"tcp", "tls"} >= set(listening) else 3
    connections = config.connection.connections_max
    if each * connections + DESCRIPTORS_BESIDE > limit():
        notices.DESCRIPTORS_SHORT(
            connections=connections, needed=each * connections + DESCRIPTORS_BESIDE, limit=limit()
        ).log(log)
