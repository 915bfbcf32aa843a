"""The examples run: the notebook from top to bottom, and the join of two topics."""

import importlib.util
import json
import os
import sys
import time
from pathlib import Path

import nbclient
import nbformat
import pyarrow as pa
from conftest import finish

EXAMPLES = Path(__file__).parents[2] / "examples" / "spark"


def test_the_notebook_runs_from_top_to_bottom(monkeypatch):
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(EXAMPLES / "tour.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("image/png" in output.get("data", {}) for output in shown), "the chart is shown"


def test_orders_are_joined_with_the_quotes_of_the_second_before(spark, store, client, tmp_path):
    spec = importlib.util.spec_from_file_location("join", EXAMPLES / "join.py")
    assert spec is not None
    assert spec.loader is not None
    join = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(join)

    def write(topic, **body):
        client.write(pa.table({"body": [json.dumps(body)], "body_kind": ["mapping"]}), topic=topic)

    write("quotes/A", symbol="A", bid=1.0)
    time.sleep(1.5)  # that quote is too old for the order
    write("quotes/A", symbol="A", bid=2.0)
    write("quotes/B", symbol="B", bid=3.0)
    write("orders/A", symbol="A", size=10)
    query = join.start(spark, store.address, str(tmp_path / "checkpoint"), once=True)
    finish(query)
    found = [json.loads(body) for body in client.read("fills")["body"].to_pylist()]
    assert [(each["symbol"], each["size"], each["bid"]) for each in found] == [("A", 10, 2.0)]
