"""Rate control on a bottleneck between hosts, as the benchmark measures it. Needs root."""

import json
import os
import subprocess
import sys

import pytest

from shoal_bench.sharing import Flow

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")


def test_every_flow_gets_through_a_bottleneck() -> None:
    contests = ["alone", "beside_tcp", "unpaced_alone"]
    options = ["--contests", ",".join(contests), "--rounds", "1", "--seconds", "3", "--json", "-"]
    command = [sys.executable, "-m", "shoal.cli", "bench", "sharing", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # How well they do is for the simulator to assert: this machine may have other work.
    for contest in contests:
        assert result[contest]["goodput_mbit_s"] > 0
        assert result[contest]["share_of_payload"] < 1.5, "the bottleneck is one"
    assert result["beside_tcp"]["tcp_mbit_s"] > 0


def test_a_flow_tells_when_it_reached_a_rate() -> None:
    flow = Flow("norm_cc", 100.0, [(100.0, 0), (100.1, 0), (100.2, 12_500), (100.3, 137_500)])
    assert flow.goodput_mbit_s(0.2, 0.3) == pytest.approx(10.0)
    assert flow.time_to_mbit_s(5.0, seconds=1.0) == pytest.approx(0.3)
    assert flow.time_to_mbit_s(50.0, seconds=1.0) == 1.0
