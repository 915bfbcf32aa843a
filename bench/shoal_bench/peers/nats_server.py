"""The program nats-server, on loopback; its processor time counts as its clients'."""

import contextlib
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from shoal.processes.children import ending_with_us
from shoal_bench.cpu import process_cpu_s
from shoal_bench.errors import ExperimentError
from shoal_bench.peers import servers

#: The server drops a client that has more than this waiting, so it is more than a transfer moves.
SERVER_CONFIG = """
listen: "127.0.0.1:{port}"
max_pending: 4GB
max_payload: 8MB
write_deadline: "60s"
"""


def is_installed() -> bool:
    """Whether there is a server to start."""
    return servers.nats_server() is not None


@contextlib.contextmanager
def server(port: int) -> Iterator[Callable[[], float]]:
    """A server for the duration; gives a function that tells its processor time in seconds."""
    program = servers.nats_server()
    if program is None:
        raise ExperimentError("nats-server is not here: run scripts/peers")
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "nats.conf")
        config.write_text(SERVER_CONFIG.format(port=port))
        process = subprocess.Popen(
            ending_with_us([program, "-c", str(config)]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield lambda: process_cpu_s(process.pid)
        finally:
            process.kill()
            process.wait()
