"""The role `host`: starts, stops and reloads the daemons whose files are in one directory, on signed orders.

A daemon is a child process, `python -m shoal.daemon FILE`, in a session of its own: it goes on when the
host's daemon ends, and the next one finds it by its pid file. Its standard error goes into NAME.log beside
the file.
"""

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal._core import Message
from shoal.bus.dispatch import OwnThread
from shoal.config.orders import HostKey, Order, OrderRefusedError, Orders, answer
from shoal.daemon.host_config import HostConfig
from shoal.errors import ConfigError, ShoalError
from shoal.messages import console as notices

if TYPE_CHECKING:
    from shoal.bus.connection import Connection

log = logging.getLogger("shoal.daemon")

#: How long a daemon may take to end before it is killed, and to fail after its start.
END_S, START_S = 10.0, 0.7
#: Lines of a log that an answer has, bytes that are read for them, and the size at which a start begins a new
#: log.
LOG_LINES, LOG_READ, LOG_BYTES_MAX = 200, 32 << 10, 10 << 20
#: Daemons of one directory.
DAEMONS_MAX = 200
_ANSWER_S = 2.0


class Daemons:
    """The daemons of one directory, as child processes. For one thread at a time."""

    def __init__(self, directory: Path, own: Path | None) -> None:
        """`own` is the file of the daemon that has the role: it takes no orders about itself."""
        self.directory = directory.resolve()
        self._own = None if own is None else own.resolve()
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    def obey(self, order: Order) -> dict[str, Any]:
        """Do what an order says: the answer."""
        if order.order == "list":
            return {"daemons": [self._about(name) for name in self._names()]}
        name = order.daemon
        if name not in self._names():
            raise OrderRefusedError(f"there is no {name}.toml in {self.directory}")
        act: dict[str, Callable[[str], dict[str, Any]]] = {
            "start": self._start,
            "stop": self._stop,
            "reload": self._reload,
            "check": self._check,
            "log": self._log,
        }
        return act[order.order](name)

    def _names(self) -> list[str]:
        """Only names that are in the directory count, so no order leads out of it."""
        files = (
            path for path in sorted(self.directory.glob("*.toml")) if path.is_file() and path != self._own
        )
        return [path.stem for path in files][:DAEMONS_MAX]

    def _file(self, name: str, ending: str) -> Path:
        return self.directory / f"{name}.{ending}"

    def _about(self, name: str) -> dict[str, Any]:
        pid, child = self._pid(name), self._children.get(name)
        status = None if child is None else child.poll()
        began = None
        if pid is not None:
            with contextlib.suppress(OSError):
                began = self._file(name, "pid").stat().st_mtime
        return {"name": name, "running": pid is not None, "pid": pid, "since": began, "ended_with": status}

    def _pid(self, name: str) -> int | None:
        """The process of a daemon, if it runs: a child, or one that an earlier run of the host started."""
        child = self._children.get(name)
        if child is not None and child.poll() is None:
            return child.pid
        try:
            pid = int(self._file(name, "pid").read_text(encoding="ascii"))
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        # A number of a process is used again.
        return pid if str(self._file(name, "toml")).encode() in command else None

    def _start(self, name: str) -> dict[str, Any]:
        if (pid := self._pid(name)) is not None:
            raise OrderRefusedError(f"{name} runs already, as process {pid}")
        self._check(name)
        said = self._file(name, "log")
        if said.exists() and said.stat().st_size > LOG_BYTES_MAX:
            said.replace(said.with_suffix(".log.1"))
        with said.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "shoal.daemon", str(self._file(name, "toml"))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self.directory,
                start_new_session=True,
                env={key: value for key, value in os.environ.items() if key != "NOTIFY_SOCKET"},
            )
        self._children[name] = child
        self._file(name, "pid").write_text(str(child.pid), encoding="ascii")
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(START_S)
            raise OrderRefusedError(f"{name} ended at once with status {status}: see its log")
        return {"daemon": self._about(name)}

    def _stop(self, name: str) -> dict[str, Any]:
        pid = self._running(name)
        os.kill(pid, signal.SIGTERM)
        until = time.monotonic() + END_S
        while self._pid(name) is not None:
            if time.monotonic() > until:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                break
            time.sleep(0.02)
        return {"daemon": self._about(name)}

    def _reload(self, name: str) -> dict[str, Any]:
        self._check(name)
        os.kill(self._running(name), signal.SIGHUP)
        return {"daemon": self._about(name)}

    def _running(self, name: str) -> int:
        pid = self._pid(name)
        if pid is None:
            raise OrderRefusedError(f"{name} does not run")
        return pid

    def _check(self, name: str) -> dict[str, Any]:
        # The daemon's own module reads this one.
        from shoal.daemon.config import load

        try:
            config = load(self._file(name, "toml"))
        except ConfigError as error:
            raise OrderRefusedError(f"its file is wrong: {error}") from None
        return {"domain": config.domain, "links": sorted(config.links)}

    def _log(self, name: str) -> dict[str, Any]:
        try:
            with self._file(name, "log").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LOG_READ))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return {"lines": lines[-LOG_LINES:]}


class Host:
    """Takes orders on a thread of its own, until it is closed."""

    def __init__(self, connection: "Connection", config: HostConfig, own: Path | None) -> None:
        self._key = HostKey.read(Path(config.key_file))
        if not Path(config.directory).is_dir():
            raise ConfigError(f"host.directory is {config.directory!r}, and must be a directory")
        self._orders, self._daemons = Orders(self._key), Daemons(Path(config.directory), own)
        target = weakref.ref(connection)

        def hear(message: Message) -> None:
            self._hear(target(), message)

        subscription = connection.node.open_subscription(self._key.topic)
        self._thread = OwnThread(subscription, hear, lambda message, error: None)
        self._end = weakref.finalize(connection, self._thread.close)
        self._end.atexit = False

    def close(self) -> None:
        """Take no more orders."""
        self._end()

    def _hear(self, connection: "Connection | None", message: Message) -> None:
        if connection is None or connection.closed or message.reply_to is None:
            return
        host = self._key.host
        try:
            order = self._orders.check(time.time(), message.body)
        except (OrderRefusedError, ShoalError) as error:
            # A stranger learns nothing, not even that a host is here.
            notices.HOST_ORDER_REFUSED(host=host, why=error).log(log)
            return
        try:
            told = {"ok": True, **self._daemons.obey(order)}
        except (OrderRefusedError, OSError) as error:
            told = {"ok": False, "why": str(error)}
        if order.order in ("start", "stop", "reload"):
            result = "done" if told["ok"] else f"refused, {told['why']}"
            notices.HOST_ORDER(
                host=host, order=order.order, daemon=order.daemon, who=order.who, result=result
            ).log(log)
        with contextlib.suppress(ShoalError):
            connection.node.publish(
                message.reply_to,
                answer(self._key, order.nonce, json.loads(json.dumps(told))),
                correlation_id=message.correlation_id,
                priority=message.priority,
                timeout_s=_ANSWER_S,
            )
