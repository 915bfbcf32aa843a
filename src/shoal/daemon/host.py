"""The role `host`: starts, stops and reloads the daemons whose files are in one directory, on signed orders.

A daemon is a child process or a unit of systemd, as the file of the host's own daemon says.
"""

import contextlib
import json
import logging
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from shoal._core import Message
from shoal.bus.dispatch import OwnThread
from shoal.config.orders import HostKey, Order, OrderRefusedError, Orders, answer
from shoal.daemon.children import Children
from shoal.daemon.host_config import HostConfig
from shoal.daemon.units import Units
from shoal.errors import ConfigError, ShoalError
from shoal.messages import console as notices

if TYPE_CHECKING:
    from shoal.bus.connection import Connection

log = logging.getLogger("shoal.daemon")

#: Daemons of one directory.
DAEMONS_MAX = 200
_ANSWER_S = 2.0


class Processes(Protocol):
    """What starts and stops daemons by their names."""

    def about(self, name: str) -> dict[str, Any]:
        """How a daemon is."""

    def start(self, name: str) -> None:
        """Start a daemon that does not run."""

    def stop(self, name: str) -> None:
        """End one that runs, and wait until it has."""

    def reload(self, name: str) -> None:
        """Have it read its file again."""

    def log(self, name: str) -> list[str]:
        """The last lines that it logged."""


class Daemons:
    """The daemons of one directory. For one thread at a time."""

    def __init__(self, directory: Path, own: Path | None, processes: Processes | None = None) -> None:
        """`own` is the file of the daemon that has the role: it takes no orders about itself."""
        self.directory = directory.resolve()
        self._own = None if own is None else own.resolve()
        self._processes = processes or Children(self.directory)

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
            "log": lambda name: {"lines": self._processes.log(name)},
        }
        return act[order.order](name)

    def _names(self) -> list[str]:
        """Only names that are in the directory count, so no order leads out of it."""
        files = (
            path for path in sorted(self.directory.glob("*.toml")) if path.is_file() and path != self._own
        )
        return [path.stem for path in files][:DAEMONS_MAX]

    def _about(self, name: str) -> dict[str, Any]:
        return {"name": name, **self._processes.about(name)}

    def _start(self, name: str) -> dict[str, Any]:
        about = self._about(name)
        if about["running"]:
            raise OrderRefusedError(f"{name} runs already, as process {about['pid']}")
        self._check(name)
        self._processes.start(name)
        return {"daemon": self._about(name)}

    def _stop(self, name: str) -> dict[str, Any]:
        self._check_runs(name)
        self._processes.stop(name)
        return {"daemon": self._about(name)}

    def _reload(self, name: str) -> dict[str, Any]:
        self._check(name)
        self._check_runs(name)
        self._processes.reload(name)
        return {"daemon": self._about(name)}

    def _check_runs(self, name: str) -> None:
        if not self._about(name)["running"]:
            raise OrderRefusedError(f"{name} does not run")

    def _check(self, name: str) -> dict[str, Any]:
        # The daemon's own module reads this one.
        from shoal.daemon.config import load

        try:
            config = load(self.directory / f"{name}.toml")
        except ConfigError as error:
            raise OrderRefusedError(f"its file is wrong: {error}") from None
        return {"domain": config.domain, "links": sorted(config.links)}


class Host:
    """Takes orders on a thread of its own, until it is closed."""

    def __init__(self, connection: "Connection", config: HostConfig, own: Path | None) -> None:
        self._key = HostKey.read(Path(config.key_file))
        if not Path(config.directory).is_dir():
            raise ConfigError(f"host.directory is {config.directory!r}, and must be a directory")
        units = None if config.units == "none" else Units(config.units)
        self._orders = Orders(self._key)
        self._daemons = Daemons(Path(config.directory), own, units)
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
