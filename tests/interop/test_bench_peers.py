"""The NORM benchmark with libnorm beside it, with little data."""

import json
import subprocess
import sys


def test_both_contestants_are_measured_and_compared() -> None:
    command = [sys.executable, "-m", "shoal.cli", "bench", "norm", "--rounds", "1", "--bytes", "10000000"]
    done = subprocess.run([*command, "--json", "-"], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ratio"] == result["shoal"]["gbit_s"] / result["libnorm"]["gbit_s"]
    assert result["libnorm"]["cpu_s_per_gb"] > 0
