"""The programs of the pages about Spark run as they stand, one after the other."""

import json
import re
from pathlib import Path

from conftest import prices
from test_source import wait_until

import shoal.spark

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"
PAGE = DOCS / "how-to" / "spark.md"
TUTORIAL = DOCS / "tutorial" / "spark.md"
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


def test_the_tutorial_leads_where_it_says(spark, store, client, tmp_path, monkeypatch):
    monkeypatch.setattr(shoal.spark, "session", lambda *_, **__: spark)
    programs = [
        code.replace("grpc://127.0.0.1:7475", store.address)
        .replace("./checkpoint", str(tmp_path / "checkpoint"))
        .replace("shoal.connect()", f'shoal.connect(interface="lo", domain="{store.domain}")')
        for code in FENCE.findall(TUTORIAL.read_text())
    ]
    publish, *others = programs
    known = {}
    exec(compile(publish, str(TUTORIAL), "exec"), known)
    wait_until(lambda: client.latest("prices/*")["rows"] == 1000)
    try:
        for code in others:
            exec(compile(code, str(TUTORIAL), "exec"), known)
        means = client.read("means/>", columns=["topic", "body"]).to_pylist()
        told = {row["topic"]: json.loads(row["body"]) for row in means}
        assert told == {"means/prices/ACME": {"mean": 105.0}, "means/prices/OTTO": {"mean": 104.0}}
        wait_until(lambda: known["query"].lastProgress is not None)
        exec(compile(publish, str(TUTORIAL), "exec"), known)
        # Bids of 106 to 109 are high: four of ten.
        wait_until(lambda: client.latest("high/>")["rows"] == 400)
    finally:
        known["query"].stop()


def test_the_readme_publishes_what_spark_finds(spark, store, client, tmp_path, monkeypatch):
    monkeypatch.setattr(shoal.spark, "session", lambda *_, **__: spark)
    [program] = [code for code in FENCE.findall(README.read_text()) if "shoal.spark" in code]
    program = program.replace("grpc://127.0.0.1:7475", store.address)
    program, waits, _ = program.partition("query.awaitTermination()")
    assert waits
    known = {}
    exec(compile(program.replace("./checkpoint", str(tmp_path / "checkpoint")), str(README), "exec"), known)
    try:
        wait_until(lambda: known["query"].lastProgress is not None)
        with shoal.connect(interface="lo", domain=store.domain) as bus:
            assert bus.wait_for_subscribers("prices/ACME", timeout_s=60)
            for bid in (104, 106):
                bus.publish("prices/ACME", {"bid": bid})
        wait_until(lambda: client.latest("high/>")["rows"] == 1)
    finally:
        known["query"].stop()
