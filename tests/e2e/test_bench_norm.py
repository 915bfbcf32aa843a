"""The NORM benchmark as a user runs it, with little data."""

import json
import subprocess
import sys


def bench(*options: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "shoal.cli", "bench", "norm", "--rounds", "1", "--bytes", "20000000"]
    return subprocess.run([*command, *options], capture_output=True, text=True, timeout=100)


def test_loss_is_repaired_and_the_repairs_are_counted() -> None:
    done = bench("--loss", "2", "--peers", "", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["shoal"]["gbit_s"] > 0
    assert result["shoal"]["cpu_s_per_gb"] > 0
    assert result["kernel"]["gbit_s"] > 0
    assert result["share_of_kernel"] == result["shoal"]["gbit_s"] / result["kernel"]["gbit_s"]
    # Two percent are dropped; a repair may be dropped too.
    assert 0.01 < result["shoal"]["repair_overhead"] < 0.1


def test_parity_is_compared_with_none_and_repairs_what_is_lost_unasked() -> None:
    done = bench("--loss", "5", "--fec", "rs", "--parity", "16", "--peers", "", "--json", "-")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    coded, plain = result["shoal"], result["shoal_no_code"]
    assert coded["parity_overhead"] >= 0.2
    assert plain["parity_overhead"] == 0
    assert coded["repair_overhead"] < plain["repair_overhead"] / 2
    assert result["ratio_to_no_code"] == coded["gbit_s"] / plain["gbit_s"]


def test_parity_that_cannot_be_is_refused() -> None:
    done = bench("--fec", "rs", "--block", "200", "--parity", "60")
    assert done.returncode == 2
    assert "at most 255 symbols" in " ".join(done.stderr.replace("│", " ").split())
