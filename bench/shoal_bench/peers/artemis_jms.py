"""A transfer through Artemis's own Java client: a publisher and a subscriber, a process each."""

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import mean
from types import TracebackType
from typing import Any, Self

from shoal.processes.children import ending_with_us
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers
from shoal_bench.shaped import ShapedTransfer

SOURCE = "ArtemisTransfer.java"
#: Messages before the timed ones, until the virtual machine has compiled what it runs.
WARM = 50_000
PATIENCE_S = 120.0


def is_installed() -> bool:
    """Whether there is a server, and a Java that compiles."""
    return servers.artemis() is not None and shutil.which("javac") is not None


def transfer(
    port: int,
    size: int,
    count: int,
    *,
    address: str = "127.0.0.1",
    publisher: Sequence[str] = (),
    subscribers: Sequence[Sequence[str]] = ((),),
    warm: int = WARM,
) -> ShapedTransfer:
    """One transfer through a server that runs; the slowest subscriber counts.

    `publisher` and each of `subscribers` is the command that runs another on the side's host.
    """
    server = f"{address}:{port}"
    with ExitStack() as stack:

        def start(role: str, within: Sequence[str]) -> JavaProgram:
            return stack.enter_context(JavaProgram(SOURCE, role, server, warm, count, size, within=within))

        receiving = [start("subscribe", within) for within in subscribers]
        sending = start("publish", publisher)
        for side in (*receiving, sending):
            side.wait_ready()
        sending.tell()
        received = [side.result() for side in receiving]
        sending.tell()
        sent = sending.result()
    return ShapedTransfer(
        msg_s=(count - 1) / max(each["seconds"] for each in received),
        cpu_us=mean(each["cpu_s"] for each in received) * 1e6,
        publisher_cpu_us=sent["cpu_s"] * 1e6,
    )


class JavaProgram:
    """A program of Artemis's client in a process of its own; leaving its context ends it."""

    def __init__(self, source: str, *words: object, within: Sequence[str] = ()) -> None:
        home = servers.artemis()
        if home is None:
            raise ExperimentError("ActiveMQ Artemis is not here: run scripts/peers")
        path = Path(__file__).with_name(source)
        command = [*within, "java", "-cp", f"{home}/lib/*", str(path), *map(str, words)]
        self._role = str(words[0])
        self._process = subprocess.Popen(
            ending_with_us(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
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
