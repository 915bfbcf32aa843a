"""The benchmarks of publish and subscribe as a user runs them, with few messages."""

import json
import subprocess
import sys

import pytest

from shoal_bench.peers import nats_server

pytestmark = pytest.mark.timeout(300)

PEERS = [
    "zenoh",
    "zmq",
    pytest.param("nats", marks=pytest.mark.skipif(not nats_server.is_installed(), reason="no nats-server")),
]


def bench(*options: str, rounds: str = "1") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "shoal.cli", "bench", *options, "--rounds", rounds, "--json", "-"]
    return subprocess.run(command, capture_output=True, text=True, timeout=280)


def compare_throughput(peer: str, size: str) -> None:
    done = bench("throughput", "--size", size, "--subscribers", "2", "--peers", peer, "--count", "2000")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    ours, theirs = result["shoal"], result[peer]
    assert ours["msg_s"] == max(result[name]["msg_s"] for name in ("shoal_loop", "shoal_callback"))
    assert ours["gbit_s"] == pytest.approx(ours["msg_s"] * int(size) * 8 / 1e9)
    assert ours["cpu_s_per_million"] > 0
    assert result["ratio_to_best_peer"] == pytest.approx(ours["msg_s"] / theirs["msg_s"])


@pytest.mark.parametrize("peer", PEERS)
def test_throughput_compares_with_a_peer(peer: str) -> None:
    compare_throughput(peer, "64")


def test_throughput_of_long_messages_compares_with_a_peer() -> None:
    compare_throughput("zmq", "20000")


@pytest.mark.parametrize("peer", PEERS)
def test_latency_compares_with_a_peer(peer: str) -> None:
    done = bench("latency", "--peers", peer, "--count", "200")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    for contestant in (result["shoal"], result[peer]):
        assert 0 < contestant["p50_us"] <= contestant["p99_us"] <= contestant["p999_us"]
    assert result[peer]["ratio_p50"] == pytest.approx(result[peer]["p50_us"] / result["shoal"]["p50_us"])


def test_selectors_are_measured_in_a_node_too() -> None:
    options = ("--count", "10", "--rate", "0.5", "--messages", "2000")
    done = bench("selectors", *options, rounds="5")
    assert done.returncode == 0, done.stderr
    node = json.loads(done.stdout)["node"]
    for side in (node["none"], node["one"], *node["properties"]["5"].values()):
        if isinstance(side, dict):
            assert side["msg_s"] > 0
            assert side["cpu_us_per_message"] > 0
    assert node["one_selector_overhead"] > -1


def test_what_a_subscriber_in_trouble_costs_the_others_is_measured() -> None:
    done = bench("slow", "--subscribers", "3", "--seconds", "1.5", "--stopped", "1")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["none"]["share"] == 1.0
    for trouble in ("stopped", "tenth", "lossy"):
        assert result[trouble]["share"] == pytest.approx(result[trouble]["msg_s"] / result["none"]["msg_s"])
    assert result["share_min"] == min(result[name]["share"] for name in ("stopped", "tenth", "lossy"))
    assert result["stopped"]["expelled"] >= 1


def test_what_a_crowd_that_comes_and_goes_costs_a_publisher_is_measured() -> None:
    options = ("--nodes", "8", "--rate", "200", "--seconds", "2", "--life", "1", "--kill-every", "0.7")
    done = bench("churn", *options)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["alone"]["lost"] == result["churn"]["lost"] == 0
    assert result["churn"]["joined"] > 8
    assert result["churn"]["left"] > 0
    assert result["rate_share"] > 0
    assert result["cpu_ratio"] > 0


def test_messages_with_headers_are_compared_with_plain_bytes() -> None:
    done = bench("jms", "--count", "2000", "--peers", "")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["plain"]["times_plain_cpu"] == 1.0
    for shape in ("jms", "jms_read"):
        assert result[shape]["times_plain_cpu"] > 0
        assert result[shape]["publisher_cpu_us_per_message"] > 0
