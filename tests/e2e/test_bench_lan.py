"""The LAN of namespaces, and the benchmark on it. Needs root."""

import json
import os
import subprocess
import sys

import pytest

from shoal_bench import lab
from shoal_bench.errors import ExperimentError
from shoal_bench.lab import Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="making network namespaces needs root")


def test_hosts_reach_each_other_by_multicast_and_nothing_is_left_behind() -> None:
    with Lab(2) as made:
        owner = f"{lab.PREFIX}{os.getpid()}"
        assert owner in lab._owners()
        done = subprocess.run([*made.within(0), "ip", "route", "get", "239.192.74.1"], capture_output=True)
        assert b"dev eth0" in done.stdout
    assert owner not in lab._owners()


def test_what_a_killed_owner_left_is_taken_down_by_the_next() -> None:
    script = "import os; from shoal_bench.lab import Lab\nwith Lab(2): os.kill(os.getpid(), 9)"
    killed = subprocess.Popen([sys.executable, "-c", script])
    killed.wait(timeout=30)
    owner = f"{lab.PREFIX}{killed.pid}"
    assert owner in lab._owners()
    with Lab(1):
        assert owner not in lab._owners()


def test_a_lab_that_cannot_be_made_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ExperimentError, match="install the package iproute2"), Lab(1):
        pass


def test_the_benchmark_counts_every_message_at_every_host() -> None:
    options = ["--subscribers", "2", "--rounds", "1", "--seconds", "0.2", "--json", "-"]
    command = [sys.executable, "-m", "shoal.cli", "bench", "lan", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert 0 < result["goodput_mbit_s"] < result["ethernet_payload_mbit_s"]
    assert result["ratio_2_to_1"] == pytest.approx(
        result["to_2"]["goodput_mbit_s"] / result["to_1"]["goodput_mbit_s"]
    )
