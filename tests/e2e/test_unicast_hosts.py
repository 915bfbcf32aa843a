"""NORM over unicast addresses between two hosts of their own. Needs root."""

import os
from typing import Any

import pytest

from shoal.processes.worker import Worker
from shoal_bench.lab import Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")

SIDES = "shoal_bench.norm_sides"
BYTES = 10_000_000


@pytest.mark.parametrize("loss_percent", [0, 5])
@pytest.mark.parametrize(("source", "target"), [(0, 1), (1, 0)])
def test_a_stream_reaches_a_host_by_its_address(source: int, target: int, loss_percent: float) -> None:
    with Lab(2) as lab:
        common: dict[str, Any] = {
            "port": 7475,
            "interface": "eth0",
            "bytes": BYTES,
            "segment_bytes": 1400,
            "loss_percent": loss_percent,
            "window_bytes": 1 << 20,
        }

        def side(role: str, host: int, peer: int) -> Worker:
            return Worker(SIDES, role, within=lab.within(host), group=lab.address(peer), **common)

        with side("shoal receive", target, source) as receiver:
            receiver.wait_ready()
            with side("shoal send", source, target) as sender:
                sent, received = sender.result(), receiver.result()
    assert received["bytes"] == sent["bytes"] >= BYTES
    assert sent["repairs_sent"] > 0 or not loss_percent
