"""Failover of routers between two LANs of namespaces, as the benchmark measures it. Needs root."""

import json
import os
import subprocess
import sys

import pytest

from shoal_bench import availability
from shoal_bench.failover import PEERS

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root"),
    pytest.mark.timeout(300),
]
HERE = availability.present(PEERS, PEERS, lambda *_: None)


def test_the_other_router_takes_over_and_every_message_is_counted() -> None:
    short = ["--rounds", "1", "--kills", "1", "--rate", "500", "--seconds", "6", "--peers", ",".join(HERE)]
    command = [sys.executable, "-m", "shoal.cli", "bench", "failover", *short, "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for name in ("shoal", *HERE):
        found = result[name]
        assert found["messages"] > 1000, name
        assert found["doubled"] == found["out_of_order"] == 0, name
        # How long the silence is depends on the machine; that messages came again does not.
        assert found["lost"] < found["messages"] / 2, name
        assert found["silence_max_s"] < 6.0, name
    assert result["shoal"]["silence_max_s"] > 0.01
    assert ("ratio_to_best_peer" in result) == bool(HERE)
