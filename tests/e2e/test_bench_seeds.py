"""`shoal bench seeds` with real processes: a cell is measured, and its samples are in the store."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal import history
from shoal.processes.store import StoreProcess
from shoal_bench.seeds import catalogue


def seeds(store: Path, *words: str) -> "tuple[dict[str, Any], str]":
    command = [sys.executable, "-m", "shoal.cli", "bench", "seeds", *words, "--quick", "--no-strict"]
    done = subprocess.run(
        [*command, "--store", store, "--json", "-"], capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_cell_is_measured_and_kept(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    result, said = seeds(store, "presumo-filters", "--seconds", "1")
    cell, multicast = result["experiments"]["presumo-filters"]["cells"]
    assert (cell["contestant"], multicast["contestant"]) == ("routed", "multicast")
    assert multicast["overall_msg_s"] > 0
    assert cell["overall_msg_s"] > 0
    # A hundred subscribers with two filters beside the one that matches: the index looks at three at most.
    assert cell["evaluated_per_message"] <= 3
    assert (cell["valid"], cell["why"]) == (False, "not judged")
    assert "cell 1 of 2" in said
    with StoreProcess(store, record="bench/>") as kept, history.connect(kept.address) as client:
        rows = client.read(f"bench/{result['run']}/>")
    assert rows.num_rows >= 1


# Within 90 s on a machine with nothing else to do.
@pytest.mark.timeout(400)
def test_every_experiment_runs(tmp_path: Path) -> None:
    result, said = seeds(tmp_path / "runs", "all", "--seconds", "0.25", "--cells", "1", "--peers", "")
    skipped = {name for name in catalogue.EXPERIMENTS if f"Skipping the experiment {name}:" in said}
    assert set(result["experiments"]) == set(catalogue.EXPERIMENTS) - skipped
    for name, experiment in result["experiments"].items():
        for cell in experiment["cells"]:
            assert cell[experiment["headline"]] is not None, (name, cell)
            # A smoke run counts for nothing.
            assert (cell["valid"], cell["why"]) == (False, "not judged"), name
    assert result["judged"] is False
