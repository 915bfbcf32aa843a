"""ActiveMQ Artemis: its server as the benchmark configures it, and a client that speaks STOMP 1.2.

The journal is its asynchronous one where the system has libaio, otherwise files written by Java, and is
synced before a receipt is sent; the time it collects writes is that of a sync of this disk.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Self

from shoal.processes.children import ending_with_us
from shoal_bench.errors import ExperimentError
from shoal_bench.norm import free_port
from shoal_bench.peers import servers

PATIENCE_S = 180.0
QUEUE = "/queue/bench"
#: The log line of a server that serves.
ACTIVE = "AMQ221007"

BROKER = """<?xml version='1.0'?>
<configuration xmlns="urn:activemq">
  <core xmlns="urn:activemq:core">
    <name>bench</name>
    <persistence-enabled>true</persistence-enabled>
    <security-enabled>false</security-enabled>
    <journal-type>{journal}</journal-type>
    <journal-directory>data/journal</journal-directory>
    <bindings-directory>data/bindings</bindings-directory>
    <large-messages-directory>data/large</large-messages-directory>
    <paging-directory>data/paging</paging-directory>
    <journal-datasync>true</journal-datasync>
    <journal-min-files>2</journal-min-files>
    <journal-pool-files>20</journal-pool-files>
    <journal-file-size>10M</journal-file-size>
    <journal-buffer-timeout>{buffer_ns}</journal-buffer-timeout>
    <journal-max-io>4096</journal-max-io>
    <max-disk-usage>-1</max-disk-usage>
    <global-max-size>-1</global-max-size>
    <acceptors>
      <acceptor name="stomp">tcp://{address}:{port}?protocols=STOMP,CORE;anycastPrefix=/queue/;useEpoll=true</acceptor>
    </acceptors>
    <addresses><address name="bench"><anycast><queue name="bench"/></anycast></address></addresses>
  </core>
</configuration>
"""


def is_installed() -> bool:
    """Whether there is a server to start."""
    return servers.artemis() is not None


@contextlib.contextmanager
def server(port: int, directory: Path, sync_s: float) -> Iterator[Callable[[], float]]:
    """A server for the duration, with its journal in a directory; gives its processor time in seconds."""
    with Broker(port=port, directory=directory, sync_s=sync_s) as broker:
        yield broker.cpu_s


class Broker:
    """A server for as long as its context lasts.

    Args:
        port: where it listens; a free port by default.
        address: the address it listens at.
        directory: where its journal is; a temporary one by default.
        sync_s: how long it collects writes.
        core: the core it is pinned to.
        within: a command that runs another, such as `ip netns exec NAME`.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        address: str = "127.0.0.1",
        directory: Path | None = None,
        sync_s: float = 0.001,
        core: int | None = None,
        within: Sequence[str] = (),
    ) -> None:
        self.port, self.address = port or free_port(), address
        self._directory, self._sync_s = directory, sync_s
        self._within = [*within, *(() if core is None else ("taskset", "-c", str(core)))]
        self._stack = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def cpu_s(self) -> float:
        """Processor time it took."""
        return _cpu_s(self.pid)

    def _start(self) -> None:
        directory = self._directory or Path(
            self._stack.enter_context(tempfile.TemporaryDirectory(prefix="shoal-bench-"))
        )
        instance = _instance(directory, self.address, self.port, self._sync_s)
        self._stack.callback(shutil.rmtree, instance, ignore_errors=True)
        log = self._stack.enter_context((directory / "artemis.log").open("wb"))
        self._process = subprocess.Popen(
            ending_with_us([*self._within, str(instance / "bin" / "artemis"), "run"]),
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        self._stack.callback(self._end)
        _wait(self._process, directory / "artemis.log")

    def _end(self) -> None:
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, 9)
        self._process.wait()


def _instance(directory: Path, address: str, port: int, sync_s: float) -> Path:
    """What the server runs from."""
    home = servers.artemis()
    if home is None:
        raise ExperimentError("ActiveMQ Artemis is not here: run scripts/peers")
    instance = directory / "artemis"
    options = (
        "--silent",
        "--user=bench",
        "--password=bench",
        "--allow-anonymous",
        "--no-autotune",
        "--no-web",
    )
    made = subprocess.run(
        [str(home / "bin" / "artemis"), "create", str(instance), *options],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        raise ExperimentError(f"Artemis could not be set up: {made.stderr or made.stdout}")
    journal = "ASYNCIO" if any(Path("/usr/lib").glob("*/libaio.so.1*")) else "NIO"
    config = BROKER.format(address=address, port=port, buffer_ns=int(sync_s * 1e9), journal=journal)
    (instance / "etc" / "broker.xml").write_text(config)
    # Nothing of a console is wanted.
    bootstrap = instance / "etc" / "bootstrap.xml"
    kept = [line for line in bootstrap.read_text().splitlines() if "<web" not in line and "</web" not in line]
    bootstrap.write_text("\n".join(line for line in kept if "binding" not in line and "app " not in line))
    return instance


def _wait(process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Until its log says that it serves."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        said = log.read_text(errors="replace")
        if process.poll() is not None:
            raise ExperimentError(f"Artemis ended: {said[-2000:]}")
        if ACTIVE in said:
            return
        time.sleep(0.1)
    raise ExperimentError(f"Artemis did not start within {PATIENCE_S:g} s: {said[-2000:]}")


def _cpu_s(group: int) -> float:
    """Processor time of a process group: the server is started by a script."""
    total = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rpartition(")")[2].split()
            if int(fields[2]) == group:
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Stomp:
    """A connection. For one thread."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._sent = self._received = 0
        self._send(b"CONNECT\naccept-version:1.2\nhost:bench\nlogin:bench\npasscode:bench\n\n\0")
        if not self._frame().startswith(b"CONNECTED"):
            raise ExperimentError("Artemis refuses the connection")

    def _send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def _frame(self) -> bytes:
        """The next frame; one with a body of its own length may have zeros in it."""
        while True:
            head, found, _ = self._buffer.partition(b"\n\n")
            if found:
                at = head.find(b"content-length:")
                if at >= 0:
                    length = int(head[at + 15 :].split(b"\n", 1)[0])
                    end = len(head) + 2 + length
                    if len(self._buffer) > end:
                        frame, self._buffer = self._buffer[:end], self._buffer[end + 1 :].lstrip(b"\n")
                        return frame
                elif (end := self._buffer.find(b"\0", len(head))) >= 0:
                    frame, self._buffer = self._buffer[:end], self._buffer[end + 1 :].lstrip(b"\n")
                    return frame
            more = self._socket.recv(1 << 16)
            if not more:
                raise ExperimentError("Artemis closed the connection")
            self._buffer = (self._buffer + more).lstrip(b"\n") if not self._buffer else self._buffer + more

    def publish(self, body: bytes, window: int) -> None:
        """Send a message, and wait until all but a window are stored; a window of 0 waits for this one."""
        self._sent += 1
        self._send(
            b"SEND\ndestination:%s\npersistent:true\nreceipt:%d\ncontent-length:%d\n\n%s\0"
            % (QUEUE.encode(), self._sent, len(body), body)
        )
        while self._sent - self._received > window:
            self._receipt()

    def _receipt(self) -> None:
        frame = self._frame()
        if not frame.startswith(b"RECEIPT"):
            raise ExperimentError(f"Artemis says {frame[:200]!r}")
        self._received += 1

    def flush(self) -> None:
        """Wait until everything is stored."""
        while self._received < self._sent:
            self._receipt()

    def subscribe(self, prefetch: int) -> None:
        """Begin to receive, acknowledging each message."""
        self._send(
            b"SUBSCRIBE\nid:1\ndestination:%s\nack:client-individual\nconsumer-window-size:%d\n\n\0"
            % (QUEUE.encode(), prefetch * 2048)
        )

    def receive(self) -> bytes:
        """The next message, acknowledged."""
        frame = self._frame()
        if not frame.startswith(b"MESSAGE"):
            raise ExperimentError(f"Artemis says {frame[:200]!r}")
        head, _, body = frame.partition(b"\n\n")
        ack = next(line[4:] for line in head.split(b"\n") if line.startswith(b"ack:"))
        self._send(b"ACK\nid:%s\n\n\0" % ack)
        return body

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
