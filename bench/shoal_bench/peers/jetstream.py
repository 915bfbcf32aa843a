"""NATS JetStream: a server that syncs every message before it acknowledges it, and nats-py."""

import asyncio
import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import nats
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig

from shoal.processes.children import ending_with_us
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers

PATIENCE_S = 60.0
STREAM, SUBJECT = "bench", "bench.messages"

SERVER_CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: 8MB
jetstream {{
  store_dir: "{directory}"
  sync_interval: always
}}
"""


CLUSTER_CONFIG = """
server_name: "n{number}"
cluster {{
  name: "bench"
  listen: "127.0.0.1:{own}"
  routes: [{routes}]
}}
"""


def is_installed() -> bool:
    """Whether there is a server to start."""
    return servers.nats_server() is not None


@contextlib.contextmanager
def server(port: int, directory: Path, _sync_s: float) -> Iterator[Callable[[], float]]:
    """A server for the duration; gives its processor time in seconds."""
    program = servers.nats_server()
    if program is None:
        raise ExperimentError("nats-server is not here: run scripts/peers")
    config = directory / "nats.conf"
    config.write_text(SERVER_CONFIG.format(port=port, directory=directory / "jetstream"))
    process = subprocess.Popen(
        ending_with_us([program, "-c", str(config)]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        asyncio.run(_make_stream(port))
        yield lambda: _cpu_s(process.pid)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def cluster(ports: list[int], routes: list[int], directory: Path) -> Iterator[Callable[[], float]]:
    """Three servers with three copies of the stream; gives their processor time in seconds."""
    program = servers.nats_server()
    if program is None:
        raise ExperimentError("nats-server is not here: run scripts/peers")
    processes: list[subprocess.Popen[bytes]] = []
    listed = ", ".join(f'"nats://127.0.0.1:{route}"' for route in routes)
    try:
        for number, (port, own) in enumerate(zip(ports, routes, strict=True), 1):
            config = directory / f"nats-{number}.conf"
            text = SERVER_CONFIG.format(port=port, directory=directory / f"jetstream-{number}")
            config.write_text(text + CLUSTER_CONFIG.format(number=number, own=own, routes=listed))
            command = ending_with_us([program, "-c", str(config)])
            processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        try:
            asyncio.run(_make_stream(ports[0], replicas=3))
        except ExperimentError as error:
            ended = sum(process.poll() is not None for process in processes)
            raise ExperimentError(f"{error}; {ended} of 3 servers have ended") from error
        yield lambda: sum(_cpu_s(process.pid) for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _quiet(_error: Exception) -> None:
    """What goes wrong is raised; the client would log that the server is not up yet, too."""


async def connect(port: int) -> Any:
    """A connection, waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await nats.connect(f"nats://127.0.0.1:{port}", allow_reconnect=False, error_cb=_quiet)
        except (OSError, nats.errors.Error) as error:
            if time.monotonic() > deadline:
                raise ExperimentError(f"no nats-server answered: {error}") from error
            await asyncio.sleep(0.05)


async def _make_stream(port: int, replicas: int = 1) -> None:
    client = await connect(port)
    config = StreamConfig(
        name=STREAM,
        subjects=[SUBJECT],
        storage=StorageType.FILE,
        retention=RetentionPolicy.WORK_QUEUE,
        num_replicas=replicas,
    )
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            await client.jetstream().add_stream(config)
            break
        except nats.errors.Error as error:
            # Servers of a cluster elect a leader first.
            if replicas == 1 or time.monotonic() > deadline:
                raise ExperimentError(f"the stream was not made: {error}") from error
            await asyncio.sleep(0.2)
    await client.close()


async def publish(
    port: int, bodies: Iterable[bytes], window: int, go: Callable[[], None]
) -> tuple[float, float]:
    """Publish bodies, waiting for each, or for all but a window: when it began and ended."""
    client = await connect(port)
    stream = client.jetstream()
    await asyncio.to_thread(go)
    began = time.monotonic()
    if window == 0:
        for body in bodies:
            await stream.publish(SUBJECT, body, timeout=PATIENCE_S)
    else:
        room = asyncio.Semaphore(window)

        async def one(body: bytes) -> None:
            try:
                await stream.publish(SUBJECT, body, timeout=PATIENCE_S)
            finally:
                room.release()

        waiting = set()
        for body in bodies:
            await room.acquire()
            task = asyncio.create_task(one(body))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
    ended = time.monotonic()
    await client.close()
    return began, ended


async def consume(port: int, count: int, go: Callable[[], None]) -> tuple[float, float]:
    """Receive and acknowledge so many messages: when it began and ended."""
    client = await connect(port)
    config = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, max_ack_pending=10_000)
    pull = await client.jetstream().pull_subscribe(SUBJECT, durable="bench", config=config)
    await asyncio.to_thread(go)
    began, left = time.monotonic(), count
    while left:
        for message in await pull.fetch(min(left, 100), timeout=PATIENCE_S):
            await message.ack()
            left -= 1
    await client.flush()
    ended = time.monotonic()
    await client.close()
    return began, ended
