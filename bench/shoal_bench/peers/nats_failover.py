"""nats-py's programs of `failover`: clients that know two servers of one cluster.

Clients try to connect again after 100 ms (nats-py's default is two seconds), and keep what is published
meanwhile, up to 64 MB.
"""

import asyncio
import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from shoal.processes.children import ending_with_us
from shoal_bench.contestant import PATIENCE_S
from shoal_bench.errors import ExperimentError
from shoal_bench.failover_sides import TICK_S, Pace, Tally
from shoal_bench.peers import servers

SUBJECT = "failover.data"
PORT, CLUSTER_PORT = 4222, 6222
RECONNECT_S, PENDING_BYTES = 0.1, 64 << 20
SERVER_CONFIG = """
listen: "0.0.0.0:{port}"
max_pending: 256MB
cluster {{ name: failover, listen: "{here}:{cluster}", routes: ["nats-route://{other}:{cluster}"] }}
"""


@contextlib.contextmanager
def server(here: str, other: str, within: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A server of the cluster, on a host with this address, beside one with the other."""
    program = servers.nats_server()
    if program is None:
        raise ExperimentError("nats-server is not here: run scripts/peers")
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "nats.conf")
        config.write_text(
            SERVER_CONFIG.format(port=PORT, cluster=CLUSTER_PORT, here=here, other=other), encoding="utf-8"
        )
        process = subprocess.Popen(
            [*within, *ending_with_us([program, "-c", str(config)])],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


async def _connect(addresses: list[str]) -> Client:
    async def quiet(_error: Exception) -> None:
        """A connection that breaks is what is measured."""

    return await asyncio.wait_for(
        nats.connect(
            [f"nats://{address}:{PORT}" for address in addresses],
            dont_randomize=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_S,
            pending_size=PENDING_BYTES,
            error_cb=quiet,
        ),
        PATIENCE_S,
    )


def publish(addresses: list[str], pace: Pace, over: Callable[[], bool]) -> None:
    """Publish what is due until it is over."""
    asyncio.run(_publish(addresses, pace, over))


async def _publish(addresses: list[str], pace: Pace, over: Callable[[], bool]) -> None:
    client = await _connect(addresses)
    while not over():
        for body in pace.due():
            # A message that does not fit counts as lost.
            with contextlib.suppress(nats.errors.OutboundBufferLimitError):
                await client.publish(SUBJECT, body)
        await asyncio.sleep(TICK_S)
    await client.flush(timeout=int(PATIENCE_S))
    await client.close()


def subscribe(addresses: list[str], tally: Tally, over: Callable[[], bool]) -> int:
    """Take what comes until it is over; NATS reports no losses."""
    asyncio.run(_subscribe(addresses, tally, over))
    return 0


async def _subscribe(addresses: list[str], tally: Tally, over: Callable[[], bool]) -> None:
    async def take(message: Msg) -> None:
        tally.take(message.data)

    client = await _connect(addresses)
    await client.subscribe(SUBJECT, cb=take, pending_msgs_limit=0, pending_bytes_limit=0)
    while not over():
        await asyncio.sleep(0.05)
    await client.close()
