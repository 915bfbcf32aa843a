"""Files between the `shoal norm` command and libnorm."""

import random
import subprocess
import sys
import time
from pathlib import Path

from shoal_bench.peers.libnorm import EventType, File, Instance, SyncPolicy

SHOAL = [sys.executable, "-m", "shoal.cli", "norm"]
GROUP = "239.192.74.213"
LIBNORM, SHOAL_NODE = 21, 22
PATIENCE_S = 60.0


def shoal(command: str, port: int, *arguments: object) -> "subprocess.Popen[str]":
    where = ["--group", GROUP, "--port", str(port), "--interface", "lo"]
    return subprocess.Popen(
        [*SHOAL, command, *map(str, arguments), *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def make_file(path: Path) -> Path:
    path.write_bytes(random.Random(7).randbytes(3_000_000))
    return path


def test_libnorm_gets_and_confirms_a_file_that_the_command_sends(free_udp_port: int, tmp_path: Path) -> None:
    path = make_file(tmp_path / "file")
    (cache := tmp_path / "cache").mkdir()
    with Instance(cache_directory=cache) as instance:
        session = instance.session(GROUP, free_udp_port, LIBNORM)
        session.set_sync_policy(SyncPolicy.ALL)
        session.set_rx_loss(3.0)
        session.start_receiver()
        sender = shoal("send", free_udp_port, path, "--to", LIBNORM, "--rate", 100, "--parity", 8)
        received = None
        deadline = time.monotonic() + PATIENCE_S
        while received is None or sender.poll() is None:
            assert time.monotonic() < deadline, received
            event = instance.next_event(timeout_s=0.2)
            if event and event.type == EventType.RX_OBJECT_COMPLETED and isinstance(event.object, File):
                received = event.object.path.read_bytes()
        output, errors = sender.communicate(timeout=PATIENCE_S)
    assert (sender.returncode, errors) == (0, "")
    assert f"confirmed by {LIBNORM}" in output
    assert received == path.read_bytes()


def test_the_command_gets_a_file_that_libnorm_sends(free_udp_port: int, tmp_path: Path) -> None:
    path = make_file(tmp_path / "file")
    inbox = tmp_path / "inbox"
    options = ("--node", SHOAL_NODE, "--count", 1, "--drop", 0.03, "--linger", 2)
    receiver = shoal("receive", free_udp_port, inbox, *options)
    assert receiver.stderr is not None
    receiver.stderr.readline()
    with Instance() as instance:
        session = instance.session(GROUP, free_udp_port, LIBNORM)
        session.set_grtt(0.01)
        session.set_backoff_factor(1.0)
        session.set_tx_rate(100e6)
        session.start_sender(block_symbols=64, parity_symbols=8, fec_id=5)
        session.add_acking_node(SHOAL_NODE)
        session.set_watermark(session.enqueue_file(path, info=b"from-libnorm"))
        session.wait_acknowledged(timeout_s=PATIENCE_S)
    output, errors = receiver.communicate(timeout=PATIENCE_S)
    assert (receiver.returncode, errors) == (0, "")
    assert output == f"{inbox}/from-libnorm 3000000 bytes from {LIBNORM}\n"
    assert (inbox / "from-libnorm").read_bytes() == path.read_bytes()
