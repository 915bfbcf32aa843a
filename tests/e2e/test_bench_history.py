"""A small run of the benchmark of a store and its history."""

import json
import subprocess
import sys

import pytest


@pytest.mark.timeout(300)
def test_everything_recorded_is_read_back_and_measured() -> None:
    options = [
        "--rows",
        "100000",
        "--messages",
        "100000",
        "--rounds",
        "1",
        "--stored",
        "100000",
        "--json",
        "-",
    ]
    command = [sys.executable, "-m", "shoal.cli", "bench", "history", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # How fast it is depends on what else this machine does.
    for name in ("recording_64", "recording_1024"):
        assert result[name]["msg_s"] > 0
    for name in ("reading", "reading_all_columns"):
        assert result[name]["rows_s"] > 0
    assert result["disk"]["write_mb_s"] > 0
    assert result["selector"]["selected"] == 10_000
    assert result["recovery"]["gigabytes"] > 0
    assert result["memory"]["messages"] == 100_000
