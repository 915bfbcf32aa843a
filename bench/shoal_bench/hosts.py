"""Hosts that sides of an experiment run on: this machine, a network namespace, or another machine's agent."""

import logging
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

import shoal
from shoal.errors import ProcessFailedError
from shoal.processes.worker import Worker
from shoal_bench.agent import topic
from shoal_bench.errors import ExperimentError
from shoal_bench.frames import Channel, FrameRefusedError
from shoal_bench.lab import Lab
from shoal_bench.roles import parse

log = logging.getLogger(__name__)

PING_S = 1.0


class Running(Protocol):
    """A side that runs: what a `Worker` is."""

    progress: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: Any) -> None: ...

    def wait_progress(self, timeout_s: float = ...) -> None:
        """Wait until it has reported progress for the first time."""

    def wait(self, timeout_s: float) -> bool:
        """Wait for it to end, but not for longer; true if it has."""

    def tell(self) -> None:
        """Let it go on."""

    def result(self, timeout_s: float = ...) -> Mapping[str, Any]:
        """Wait for its result."""


class Host(Protocol):
    """Where registered roles run."""

    @property
    def address(self) -> str:
        """The host's IPv4 address."""

    def start(self, role: str, **options: object) -> Running:
        """Start a role (see `roles`) there."""


@dataclass(frozen=True)
class LocalHost:
    """This machine, or some of its cores."""

    cpus: str | None = None
    address: str = "127.0.0.1"

    def start(self, role: str, **options: object) -> Running:
        """Start a role."""
        within = () if self.cpus is None else ("taskset", "-c", self.cpus)
        return _worker(role, within, options)


@dataclass(frozen=True)
class NamespaceHost:
    """A host of a lab."""

    lab: Lab
    number: int

    @property
    def address(self) -> str:
        """Its address in the lab."""
        return self.lab.address(self.number)

    def start(self, role: str, **options: object) -> Running:
        """Start a role there."""
        return _worker(role, self.lab.within(self.number), options)


def _worker(role: str, within: Sequence[str], options: Mapping[str, object]) -> Worker:
    module, parsed = parse(role, dict(options))
    return Worker(module, role, within=within, **parsed)


class AgentHost:
    """A machine where `shoal bench agent` runs. May be used by one thread."""

    def __init__(self, bus: shoal.Bus, name: str, secret: bytes) -> None:
        self.name = name
        self.address = ""
        self._bus, self._channel = bus, Channel(secret, name, is_agent=False)
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._sides: dict[str, RemoteWorker] = {}
        #: Frames that were refused.
        self.refused = 0
        bus.subscribe(topic(name, "out"), self._arrived)

    def start(self, role: str, **options: object) -> "RemoteWorker":
        """Start a role there."""
        side = RemoteWorker(self, secrets.token_hex(4), role)
        with self._lock:
            self._sides[side.id] = side
        self.say({"do": "start", "id": side.id, "role": role, "options": options})
        return side

    def wait_here(self, timeout_s: float) -> bool:
        """Wait until the agent announced itself."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self.address), timeout_s)

    def say(self, body: Mapping[str, Any]) -> None:
        """Send a command."""
        with self._lock:
            frame = self._channel.seal(body)
            self._bus.publish(topic(self.name, "in"), frame)

    def end(self, side: "RemoteWorker") -> None:
        """Forget a side, which is killed if it runs."""
        self.say({"do": "kill", "id": side.id})
        with self._lock:
            self._sides.pop(side.id, None)

    def _arrived(self, message: shoal.Message) -> None:
        with self._changed:
            try:
                announced = self._channel.announced(message.body)
                if announced is not None:
                    self._answer(announced)
                    return
                body = self._channel.open(message.body)
            except FrameRefusedError as error:
                self.refused += 1
                log.debug("refused a frame of %s: %s", self.name, error)
                return
            if "here" in body:
                self.address = str(body["here"])
            elif (side := self._sides.get(str(body.get("id")))) is not None:
                side.take(body)
            self._changed.notify_all()

    def _answer(self, nonce: str) -> None:
        """Answer an announcement; it may be a replay, so that nothing else comes of it."""
        if not self._channel.peer:
            self._bus.publish(topic(self.name, "in"), self._channel.seal({"do": "ping"}, to=nonce))

    def wait_for(self, timeout_s: float, holds: Any) -> bool:
        """Wait until something holds after a frame."""
        with self._changed:
            return bool(self._changed.wait_for(holds, timeout_s))


class RemoteWorker:
    """A side that an agent runs; the same calls as a `Worker`."""

    def __init__(self, host: AgentHost, number: str, role: str) -> None:
        self.id, self.role, self._host = number, role, host
        self.progress = 0
        self._result: Mapping[str, Any] | None = None
        self._failed: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.end(self)

    def take(self, body: Mapping[str, Any]) -> None:
        """What the agent says of it."""
        self.progress = body.get("progress", self.progress)
        self._result = body.get("result", self._result)
        self._failed = body.get("failed", self._failed)

    def _is_over(self) -> bool:
        return self._result is not None or self._failed is not None

    def wait_progress(self, timeout_s: float = 20.0) -> None:
        """Wait until it has reported progress for the first time."""
        if not self._host.wait_for(timeout_s, lambda: self.progress or self._is_over()):
            self._fail(f"reported nothing within {timeout_s:g} s")
        if self._failed is not None:
            self._fail("failed")

    def wait(self, timeout_s: float) -> bool:
        """Wait for it to end, but not for longer; true if it has."""
        return self._host.wait_for(timeout_s, self._is_over)

    def tell(self) -> None:
        """Let it go on."""
        self._host.say({"do": "tell", "id": self.id})

    def result(self, timeout_s: float = 60.0) -> Mapping[str, Any]:
        """Wait for its result."""
        if not self.wait(timeout_s):
            self._fail(f"did not finish within {timeout_s:g} s")
        if self._result is None:
            self._fail("failed")
        assert self._result is not None
        return self._result

    def _fail(self, what: str) -> None:
        said = f":\n{self._failed}" if self._failed else ""
        raise ProcessFailedError(f"the process '{self.role}' on {self._host.name} {what}{said}")


class Control:
    """The coordinator's side of agents: a TCP domain of its own, for as long as its context lasts."""

    def __init__(self, url: str, names: Sequence[str], secret: bytes) -> None:
        self._bus = shoal.listen(url, router=True)
        self.hosts = [AgentHost(self._bus, name, secret) for name in names]
        self._over = threading.Event()
        self._pinging = threading.Thread(target=self._ping, name="pings agents", daemon=True)

    def __enter__(self) -> Self:
        self._pinging.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._pinging.join()
        for host in self.hosts:
            if host.address:
                host.say({"do": "end"})
        self._bus.close(linger_s=2.0)

    def wait(self, timeout_s: float) -> None:
        """Wait until all agents are here."""
        deadline = time.monotonic() + timeout_s
        absent = [
            host.name for host in self.hosts if not host.wait_here(max(0.0, deadline - time.monotonic()))
        ]
        if absent:
            raise ExperimentError(
                f"no agent {', '.join(absent)} came within {timeout_s:g} s. Start it there: "
                "shoal bench agent --control URL --secret-file FILE --name NAME. Is the secret the same?"
            )

    def _ping(self) -> None:
        while not self._over.wait(PING_S):
            for host in self.hosts:
                if host.address:
                    host.say({"do": "ping"})
