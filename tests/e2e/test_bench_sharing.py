"""Rate control on a bottleneck between hosts: neither a crawl nor a collapse. Needs root."""

import json
import os
import subprocess
import sys

import pytest

from shoal.bench.sharing import Flow

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")


def test_shares_of_a_bottleneck_are_neither_a_crawl_nor_a_collapse() -> None:
    contests = "alone,beside_tcp,unpaced_alone"
    options = ["--contests", contests, "--rounds", "1", "--seconds", "4", "--json", "-"]
    command = [sys.executable, "-m", "shoal.cli", "bench", "sharing", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # Far from what a quiet machine shows, and farther from what a broken control does.
    assert result["alone"]["share_of_payload"] > 0.6
    assert result["alone"]["time_to_half_s"] < 2
    assert result["beside_tcp"]["share_of_payload"] > 0.6
    assert 0.1 < result["beside_tcp"]["ratio"] < 10
    assert result["unpaced_alone"]["share_of_payload"] > 0.15
    assert result["unpaced_alone"]["repairs_share"] < 3


def test_a_flow_tells_when_it_reached_a_rate() -> None:
    flow = Flow("norm_cc", 100.0, [(100.0, 0), (100.1, 0), (100.2, 12_500), (100.3, 137_500)])
    assert flow.goodput_mbit_s(0.2, 0.3) == pytest.approx(10.0)
    assert flow.time_to_mbit_s(5.0, seconds=1.0) == pytest.approx(0.3)
    assert flow.time_to_mbit_s(50.0, seconds=1.0) == 1.0
