"""`shoal tune` on the loopback interface, with subscribers that lose datagrams."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import shoal
from shoal.config import profile

SHOAL = [sys.executable, "-m", "shoal.cli", "tune"]


@pytest.fixture
def domain(request: pytest.FixtureRequest) -> str:
    return f"{request.node.name}-{os.getpid()}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path


def tune(domain: str, *options: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*SHOAL, "tune", "--seconds", "0.2", "--domain", domain, "--interface", "lo", *options],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


def test_a_little_loss_needs_nothing_and_can_be_saved(domain: str, folder: Path) -> None:
    got = threading.Event()
    with (
        shoal.connect(domain=domain, interface="lo", drop_received=0.05) as bus,
        bus.subscribe("tune", lambda _: got.set()),
    ):
        done = tune(domain, "--rate", "5000", "--save", "mine")
    assert (done.returncode, got.is_set()) == (0, True), done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("SD 0 ms: ")
    assert first.endswith("): good")
    assert rest[-1] == "[options]", "the defaults are good"
    assert profile.load("mine").options == {}


def test_loss_that_no_delay_helps_against_ends_with_the_verdict_and_the_doctor(domain: str) -> None:
    with (
        shoal.connect(domain=domain, interface="lo", drop_received=0.3) as bus,
        bus.subscribe("tune", lambda _: None),
    ):
        done = tune(domain, "--rate", "2000")
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    (verdict,) = [line for line in lines if "is at fault" in line]
    assert verdict.startswith("SD 5 ms, ES 50: ")
    assert any(line[5:8] == "D01" for line in lines), "the doctor looks at this machine"


def test_without_a_subscriber_it_says_what_to_do(domain: str) -> None:
    done = tune(domain)
    assert done.returncode == 1
    assert "shoal sub tune" in done.stderr


def test_a_dry_run_prints_the_steps(domain: str) -> None:
    done = tune(domain, "--dry-run", "--ibus")
    assert done.returncode == 0
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        *(f"SD {delay} ms" for delay in range(11)),
        "SD 5 ms, ES 50",
    ]
