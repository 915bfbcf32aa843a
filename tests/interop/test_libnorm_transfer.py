"""The benchmark's libnorm contestant, run as the benchmark runs it: two processes."""

import json
import subprocess
import sys

import pytest

TOTAL_BYTES = 20_000_000


def start(side: str, port: int, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "shoal_bench.peers.libnorm", side]
    command += ["--port", str(port), "--total-bytes", str(TOTAL_BYTES), "--timeout-s", "60", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("loss_percent", ["0", "1"])
def test_the_whole_content_arrives_and_both_sides_report_it(free_udp_port: int, loss_percent: str) -> None:
    with start("receive", free_udp_port, "--loss-percent", loss_percent) as receiver:
        with start("send", free_udp_port) as sender:
            sent, sender_errors = sender.communicate(timeout=60)
        received, receiver_errors = receiver.communicate(timeout=60)
    assert (sender.returncode, receiver.returncode) == (0, 0), sender_errors + receiver_errors
    for report in (json.loads(sent), json.loads(received)):
        assert report["bytes"] == TOTAL_BYTES
        assert report["seconds"] > 0
        assert report["cpu_s"] > 0
        assert report["gbit_s"] == pytest.approx(TOTAL_BYTES * 8 / report["seconds"] / 1e9)


def test_a_receiver_without_a_sender_fails_and_says_where_it_stood(free_udp_port: int) -> None:
    with start("receive", free_udp_port, "--timeout-s", "0.2") as receiver:
        _, errors = receiver.communicate(timeout=30)
    assert receiver.returncode == 1
    assert "nothing came for 0.2 s, at byte 0" in errors
