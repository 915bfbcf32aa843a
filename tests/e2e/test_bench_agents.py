"""Agents in network namespaces that a 100 Mbit/s LAN joins: checked, then measured. Needs root."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from shoal_bench.lab import Lab

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

SHOAL = [sys.executable, "-m", "shoal.cli", "bench"]
PORT = 7490


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A coordinator's host, and two with an agent each."""
    secret = tmp_path / "bench.key"
    secret.write_text("a secret of enough bytes\n")
    with Lab(3) as made, ExitStack() as stack:
        control = f"tcp://{made.address(0)}:{PORT}"
        for number in (1, 2):
            words = ["agent", "--control", control, "--secret-file", str(secret), "--name", f"h{number}"]
            process = subprocess.Popen([*made.within(number), *SHOAL, *words])
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield made


def coordinate(lab: Lab, *words: str) -> "subprocess.CompletedProcess[str]":
    common = ["--control", f"tcp://{lab.address(0)}:{PORT}"]
    return subprocess.run(
        [*lab.within(0), *SHOAL, *words, *common], capture_output=True, text=True, timeout=110
    )


def test_agents_are_checked_and_measure_a_cell_between_hosts(lab: Lab, tmp_path: Path) -> None:
    secret = ["--secret-file", str(tmp_path / "bench.key")]
    checked = coordinate(lab, "check", "h1", "h2", *secret)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert checked.stdout.count("100%") == 4, checked.stdout
    words = ["seeds", "fiorano-size", "--quick", "--cells", "1", "--seconds", "1", "--no-strict"]
    words += ["--hosts", "h1,h2", *secret, "--store", str(tmp_path / "runs"), "--json", "-"]
    ran = coordinate(lab, *words)
    assert ran.returncode == 0, ran.stderr
    (cell,) = json.loads(ran.stdout)["experiments"]["fiorano-size"]["cells"]
    assert (cell["contestant"], cell["overall_msg_s"] > 0) == ("routed", True)


def test_another_secret_gets_no_agent(lab: Lab, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.key"
    wrong.write_text("another secret of enough bytes\n")
    refused = coordinate(lab, "check", "h1", "h2", "--secret-file", str(wrong), "--wait", "5")
    assert refused.returncode == 1
    assert "Is the secret the same?" in refused.stderr
