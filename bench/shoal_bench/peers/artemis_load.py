"""The load of a cell of the FioranoMQ study through Artemis's own Java client, in a process of its own."""

import json
import queue
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

from shoal.processes.children import ending_with_us
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers
from shoal_bench.seeds.cell import Cell, Group

SOURCE = Path(__file__).with_name("ArtemisLoad.java")
READY_S = 120.0


class ArtemisLoad:
    """Publishers and subscribers against a server that runs; leaving its context ends them."""

    def __init__(self, port: int, cell: Cell, seconds: float, every_s: float, core: int | None) -> None:
        home = servers.artemis()
        if home is None:
            raise ExperimentError("ActiveMQ Artemis is not here: run scripts/peers")
        pinned = [] if core is None else ["taskset", "-c", str(core)]
        command = [*pinned, "java", "-cp", f"{home}/lib/*", str(SOURCE), str(port)]
        self._cell = cell
        self._cpu_s: Callable[[], float] = lambda: 0.0
        self._heard: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self._samples: list[dict[str, float]] = []
        self._process = subprocess.Popen(
            ending_with_us(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, name="reads Artemis's load", daemon=True)
        self._reader.start()
        self._tell("\n".join(plan(cell, seconds, every_s)))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert stream is not None
            stream.close()

    def wait_ready(self) -> None:
        """Wait until all are connected."""
        self._next(READY_S)

    def begin(self, cpu_s: Callable[[], float]) -> None:
        """Let publishers start; `cpu_s` is read with each sample."""
        self._cpu_s = cpu_s
        self._tell("")

    def wait(self, timeout_s: float) -> bool:
        """Wait for the load to end, but not for longer; true if it has."""
        self._reader.join(timeout_s)
        return not self._reader.is_alive()

    def samples(self, timeout_s: float) -> list[dict[str, float]]:
        """Wait for the end: what each interval added up to. Every copy must have arrived."""
        result = self._next(timeout_s)["result"]
        expected = result["sent"] * self._cell.r
        if result["received"] != expected:
            raise ExperimentError(
                f"{result['sent']} messages were sent, and {result['received']} of {expected} copies arrived"
            )
        return self._samples

    def _tell(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def _next(self, timeout_s: float) -> dict[str, Any]:
        try:
            heard = self._heard.get(timeout=timeout_s)
        except queue.Empty:
            raise ExperimentError(f"Artemis's load said nothing within {timeout_s:g} s") from None
        if heard is None:
            assert self._process.stderr is not None
            raise ExperimentError(f"Artemis's load ended: {self._process.stderr.read()[-2000:]}")
        return heard

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # The client's logger may speak, too.
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            if "at_s" in said:
                counts = {"received": said["sent"], "dispatched": said["received"], "evaluated": 0}
                self._samples.append({"at_s": said["at_s"], "cpu_s": self._cpu_s(), **counts})
            else:
                self._heard.put(said)
        self._heard.put(None)


def plan(cell: Cell, seconds: float, every_s: float) -> Iterator[str]:
    """The lines that `ArtemisLoad.java` reads."""
    yield "\t".join(map(str, (seconds, every_s, cell.publishers, cell.size, cell.r)))
    for word, groups in (("subscribe", cell.matching), ("idle", cell.idle)):
        for group in groups:
            first, *others = (f"{_address(topic)}\t{selector(group)}" for topic in group.topics)
            yield from [f"{word}\t{first}", *(f"beside\t{other}" for other in others)] * group.count
    for topic, headers in cell.messages():
        named = [f"{name}={value}" for name, value in headers.get("properties", {}).items()]
        yield "\t".join(["message", _address(topic), headers.get("correlation_id", ""), *named])
    yield "ready"


def _address(topic: str) -> str:
    """A topic as Artemis writes it: levels end with dots."""
    return topic.replace("/", ".")


def selector(group: Group) -> str:
    """A group's filter as a JMS selector; JMS has no ranges of correlation ids, so these are spelt out."""
    if group.correlation is None:
        return group.selector or ""
    if not group.correlation.startswith("["):
        return f"JMSCorrelationID = '{group.correlation}'"
    low, _, high = group.correlation.strip("[]").partition(";")
    numbers = range(int(low.removeprefix("#")), int(high.removeprefix("#")) + 1)
    return " OR ".join(f"JMSCorrelationID = '#{number}'" for number in numbers)
