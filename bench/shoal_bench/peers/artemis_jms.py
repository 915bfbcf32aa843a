"""A transfer through Artemis's own Java client: a publisher and a subscriber, a process each."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers
from shoal_bench.shaped import ShapedTransfer

SOURCE = Path(__file__).with_name("ArtemisTransfer.java")
#: Messages before the timed ones, until the virtual machine has compiled what it runs.
WARM = 50_000
PATIENCE_S = 120.0


def is_installed() -> bool:
    """Whether there is a server, and a Java that compiles."""
    return servers.artemis() is not None and shutil.which("javac") is not None


def transfer(port: int, size: int, count: int) -> ShapedTransfer:
    """One transfer through a server that runs."""
    with (
        JavaSide("subscribe", port, count, size) as subscriber,
        JavaSide("publish", port, count, size) as publisher,
    ):
        subscriber.wait_ready()
        publisher.wait_ready()
        publisher.tell()
        received = subscriber.result()
        publisher.tell()
        sent = publisher.result()
    return ShapedTransfer(
        msg_s=(count - 1) / received["seconds"],
        cpu_us=received["cpu_s"] * 1e6,
        publisher_cpu_us=sent["cpu_s"] * 1e6,
    )


class JavaSide:
    """One of the two processes; leaving its context ends it."""

    def __init__(self, role: str, port: int, count: int, size: int) -> None:
        home = servers.artemis()
        if home is None:
            raise ExperimentError("ActiveMQ Artemis is not here: run scripts/peers")
        command = ["java", "-cp", f"{home}/lib/*", str(SOURCE), role, *map(str, (port, WARM, count, size))]
        self._role = role
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def _heard(self) -> Mapping[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The client's logger may speak, too.
            if line.startswith("{"):
                said: Mapping[str, Any] = json.loads(line)
                return said
        _, errors = self._process.communicate()
        raise ExperimentError(f"Artemis's client ended ({self._role}): {errors[-2000:]}")

    def wait_ready(self) -> None:
        """Wait until it is connected."""
        self._heard()

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def result(self) -> Mapping[str, Any]:
        """Wait until it is done: what it measured."""
        result: Mapping[str, Any] = self._heard()["result"]
        return result
