"""An agent: runs registered roles on its host for a coordinator that knows the secret, and nothing else."""

import logging
import re
import socket
import threading
import time
from collections import deque
from contextlib import ExitStack
from typing import Any

import shoal
from shoal.errors import ProcessFailedError
from shoal.processes.worker import Worker
from shoal_bench.frames import FRAME_BYTES_MAX, Channel, FrameRefusedError
from shoal_bench.roles import RoleRefusedError, parse

log = logging.getLogger(__name__)

#: A session ends when its coordinator was silent for this time; its workers end with it.
SILENT_S = 10.0
ANNOUNCE_S = 0.5
TURN_S = 0.05
WORKERS_MAX = 64
#: Frames that wait, and their bytes; more are dropped.
FRAMES_MAX, FRAMES_BYTES_MAX = 1000, 8 << 20
#: Refused frames that are logged in a period.
REFUSED_LINES_MAX, REFUSED_PERIOD_S = 10, 60.0
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def topic(agent: str, way: str) -> str:
    """Where frames of an agent travel: `in` to it, `out` from it."""
    return f"bench/agents/{agent}/{way}"


class Waiting:
    """Frames that wait to be read, a bounded number of bytes. May be shared between threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._frames: deque[bytes] = deque()
        self._bytes = self._dropped = 0

    def put(self, frame: object) -> None:
        """Add a frame, unless there is no room for it."""
        with self._changed:
            if (
                not isinstance(frame, bytes)
                or len(frame) > FRAME_BYTES_MAX
                or len(self._frames) >= FRAMES_MAX
                or self._bytes + len(frame) > FRAMES_BYTES_MAX
            ):
                self._dropped += 1
            else:
                self._frames.append(frame)
                self._bytes += len(frame)
            self._changed.notify()

    def take(self, timeout_s: float) -> list[bytes]:
        """What waits; waits for it for a moment if nothing does."""
        with self._changed:
            self._changed.wait_for(lambda: self._frames or self._dropped, timeout_s)
            taken = list(self._frames)
            self._frames.clear()
            self._bytes = 0
            return taken

    def take_dropped(self) -> int:
        """How many there was no room for since the last call."""
        with self._changed:
            dropped, self._dropped = self._dropped, 0
            return dropped


class Agent:
    """One agent at a control domain. Call `turn` again and again."""

    def __init__(self, bus: shoal.Bus, name: str, secret: bytes, address: str, cpus: str | None) -> None:
        if not NAME.fullmatch(name):
            raise ValueError(f"a name has letters, digits, - and _, at most 64, not {name!r}")
        self._bus, self._name, self._secret, self._address = bus, name, secret, address
        self._within = () if cpus is None else ("taskset", "-c", cpus)
        self._frames = Waiting()
        self._channel = Channel(secret, name, is_agent=True)
        self._workers: dict[str, tuple[Worker, ExitStack, int]] = {}
        self._heard_at = self._announced_at = float("-inf")
        self._refusals: list[float] = []
        #: Frames that were refused.
        self.refused = 0
        bus.subscribe(topic(name, "in"), self._arrived)

    def _arrived(self, message: shoal.Message) -> None:
        self._frames.put(message.body)

    def turn(self, now: float) -> None:
        """Handle what came, forward what workers said, announce this agent while it is free."""
        for frame in self._frames.take(TURN_S):
            self.handle(now, frame)
        if dropped := self._frames.take_dropped():
            self._refuse(
                now, FrameRefusedError(f"{dropped} came while {FRAMES_MAX} waited, or were too long")
            )
        self._forward()
        if self._channel.peer and now - self._heard_at > SILENT_S:
            log.warning("The coordinator is silent for %g s: ending its session.", SILENT_S)
            self.end_session()
        if not self._channel.peer and now - self._announced_at >= ANNOUNCE_S:
            self._announced_at = now
            self._say({"announced": self._name})

    def handle(self, now: float, frame: object) -> None:
        """Do what a frame asks for, or refuse it."""
        try:
            is_new = not self._channel.peer
            body = self._channel.open(frame)
            self._heard_at = now
            if is_new:
                self._say({"here": self._address})
            self._do(body)
        except (FrameRefusedError, RoleRefusedError) as error:
            self._refuse(now, error)

    def _do(self, body: dict[str, Any]) -> None:
        known = self._workers.get(str(body.get("id")))
        match body.get("do"):
            case "ping":
                pass
            case "start":
                self._start(body)
            case "tell" if known is not None:
                known[0].tell()
            case "kill" if known is not None:
                self._end(str(body["id"]))
            case "end":
                self.end_session()
            case "tell" | "kill":
                # It ended meanwhile.
                pass
            case other:
                raise RoleRefusedError(f"there is no command {other!r:.100}")

    def _start(self, body: dict[str, Any]) -> None:
        number, role = body.get("id"), body.get("role")
        try:
            if not isinstance(number, str) or number in self._workers:
                raise RoleRefusedError("a worker needs an id of its own")
            if len(self._workers) >= WORKERS_MAX:
                raise RoleRefusedError(f"{WORKERS_MAX} workers run already")
            module, options = parse(role, body.get("options"))
        except RoleRefusedError as error:
            self._say({"id": number, "failed": f"refused: {error}"})
            raise
        stack = ExitStack()
        worker = stack.enter_context(Worker(module, str(role), within=self._within, **options))
        self._workers[number] = (worker, stack, 0)

    def _forward(self) -> None:
        for number, (worker, stack, told) in list(self._workers.items()):
            is_over = worker.wait(0.0)
            if worker.progress != told:
                self._workers[number] = (worker, stack, worker.progress)
                self._say({"id": number, "progress": worker.progress})
            if is_over:
                try:
                    self._say({"id": number, "result": worker.result(1.0)})
                except ProcessFailedError as error:
                    self._say({"id": number, "failed": str(error)})
                self._end(number)

    def _say(self, body: dict[str, Any]) -> None:
        self._bus.publish(topic(self._name, "out"), self._channel.seal(body))

    def _end(self, number: str) -> None:
        self._workers.pop(number)[1].close()

    def end_session(self) -> None:
        """End all workers; the next session has another nonce."""
        for number in list(self._workers):
            self._end(number)
        self._channel = Channel(self._secret, self._name, is_agent=True)

    def _refuse(self, now: float, why: Exception) -> None:
        self.refused += 1
        self._refusals = [at for at in self._refusals if now - at < REFUSED_PERIOD_S]
        if len(self._refusals) < REFUSED_LINES_MAX:
            self._refusals.append(now)
            log.warning("Refused a frame: %s.", why)


def address_towards(host: str, port: int) -> str:
    """This host's address, as the other one sees it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, port))
        return str(probe.getsockname()[0])


def serve(url: str, name: str, secret: bytes, cpus: str | None = None) -> None:
    """Be an agent until interrupted."""
    host, _, port = url.partition("://")[2].partition("?")[0].rpartition(":")
    with shoal.connect(url) as bus:
        agent = Agent(bus, name, secret, address_towards(host.strip("[]"), int(port)), cpus)
        try:
            while True:
                agent.turn(time.monotonic())
        finally:
            agent.end_session()
