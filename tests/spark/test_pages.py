"""The programs of the page about Spark run as they stand, one after the other."""

import re
from pathlib import Path

from conftest import prices
from test_source import wait_until

import shoal.spark

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "spark.md"
FENCE = re.compile(r"^```python[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def test_programs_run_as_they_stand(spark, store, client, tmp_path, monkeypatch):
    client.write(prices(30))
    monkeypatch.setattr(shoal.spark, "session", lambda *_, **__: spark)
    stored = f'.format("shoal").option("store", "{store.address}")'
    live = f'.format("shoal").option("domain", "{store.domain}").option("bus", "norm://?interface=lo")'
    known = {}
    try:
        for code in FENCE.findall(PAGE.read_text()):
            code = code.replace('.option("store", "grpc://127.0.0.1:7475")', "")
            code = code.replace('.format("shoal")', live if '"live"' in code else stored)
            code = code.replace("/var/lib/vwap", str(tmp_path / "vwap"))
            if "lastProgress" in code:
                client.write(prices(30))
                wait_until(lambda: known["query"].lastProgress is not None)
            exec(compile(code, str(PAGE), "exec"), known)
    finally:
        for query in spark.streams.active:
            query.stop()
    known["publish"](spark.sql("SELECT 'x' AS body"), 0)
    assert client.read("out").num_rows == 1
