"""`shoal bench seeds` with real processes: a cell is measured, and its samples are in the store."""

import json
import subprocess
import sys
from pathlib import Path

from shoal import history
from shoal.processes.store import StoreProcess


def test_a_cell_is_measured_and_kept(tmp_path: Path) -> None:
    store = tmp_path / "runs"
    words = ["bench", "seeds", "presumo-filters", "--quick", "--seconds", "1", "--no-strict"]
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", *words, "--store", store, "--json", "-"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    (cell,) = result["experiments"]["presumo-filters"]["cells"]
    assert cell["overall_msg_s"] > 0
    # A hundred subscribers with two filters beside the one that matches: the index looks at three at most.
    assert cell["evaluated_per_message"] <= 3
    assert (cell["valid"], cell["why"]) == (False, "not judged")
    assert "cell 1 of 1" in done.stderr
    with StoreProcess(store, record="bench/>") as kept, history.connect(kept.address) as client:
        rows = client.read(f"bench/{result['run']}/>")
    assert rows.num_rows >= 1
