"""The pipelines over a real store, as functions and as commands."""

import json

import pytest
from conftest import finish, prices
from typer.testing import CliRunner

import shoal
from shoal.cli.app import app
from shoal.spark.pipelines import archive, audit, iceberg, replay, stats


def command(*words, status=0):
    """What `shoal pipeline` prints, in the session of the tests."""
    done = CliRunner().invoke(app, ["pipeline", *words])
    assert done.exit_code == status, done.output
    return done


def test_an_archive_holds_each_message_once_and_goes_on_where_it_stopped(spark, store, client, tmp_path):
    directory = tmp_path / "archive"

    def archived(**options):
        query = archive.archive(spark, "prices/>", directory, store=store.address, options=options)
        finish(query)
        return sorted(row["offset"] for row in archive.load(spark, directory).select("offset").collect())

    client.write(prices(300))
    assert archived(maxOffsetsPerTrigger="100") == list(range(300))
    # An epoch that was written when the driver died, and one that was not finished.
    (directory / "_checkpoint" / "commits" / "2").unlink()
    (directory / "_checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    (directory / "_writing" / "epoch=0000000003").mkdir(parents=True)
    client.write(prices(50))
    assert archived() == list(range(350))
    table = iceberg.open_table("market.prices", directory)
    assert iceberg.refresh(table, directory) == 12
    before, after = archive.compact(directory)
    assert (before, after) == (12, 3)
    assert archived() == list(range(350))
    assert iceberg.refresh(table, directory) == 3
    scanned = table.catalogue.load_table("market.prices").scan().to_arrow()
    assert sorted(scanned["offset"].to_pylist()) == list(range(350))


def test_an_audit_finds_what_is_doubled_or_out_of_order(spark, store, client, monkeypatch):
    client.write(prices(100))
    found = audit.audit(spark, store=store.address)
    assert found.messages == 100
    assert found.is_clean
    rows = [(offset, "p", 1, number) for offset, number in enumerate([1, 2, 5, 4, 5, 8])] + [
        (9, "q", 1, None)
    ]
    broken = spark.createDataFrame(rows, "offset BIGINT, publisher STRING, chain INT, number BIGINT")
    gap = spark.createDataFrame(
        [(3, "p", 1, 6, 7, 2, "lost"), (5, "p", 1, 9, 12, 4, "away")],
        "after_offset BIGINT, publisher STRING, chain INT, first BIGINT, last BIGINT, count BIGINT, "
        "reason STRING",
    )
    monkeypatch.setattr(audit.common, "read", lambda _, options: gap if "gaps" in options else broken)
    found = audit.audit(spark)
    (chain,) = found.chains
    assert (found.messages, found.unnumbered, found.lost, found.unheard) == (7, 1, 2, 4)
    assert (chain.first, chain.last, chain.unseen) == (1, 8, 3)
    assert (chain.duplicates, chain.out_of_order, chain.examples) == (1, 1, (3, 4))
    assert not found.is_clean


def test_statistics_tell_rate_size_and_delay(spark, store, client):
    client.write(prices(300))
    found = stats.stats(spark, "prices/>", window="1h", store=store.address, to_topic="stats")
    assert sum(each.messages for each in found) == 300
    assert {each.topic for each in found} == {"prices/0", "prices/1", "prices/2"}
    assert sum(each.bytes for each in found) == sum(map(len, client.read("prices/>")["body"].to_pylist()))
    published = [json.loads(body) for body in client.read("stats")["body"].to_pylist()]
    assert {each["of_topic"] for each in published} == {"prices/0", "prices/1", "prices/2"}


def test_delays_are_told_by_percentiles(spark):
    rows = spark.range(1, 1001).selectExpr(
        "'t' AS topic", "'p' AS publisher", "CAST(id % 2 AS INT) AS chain", "timestamp_micros(0) AS stored",
        "timestamp_micros(-id * 1000) AS timestamp", "CAST('xx' AS BINARY) AS body",
    )  # fmt: skip
    (row,) = stats.summarise(stats.histogram(rows, 10.0)).collect()
    assert row["messages"] == 1000
    assert row["bytes"] == 2000
    assert row["delay_p50_ms"] == pytest.approx(500, rel=0.045)
    assert row["delay_p99_ms"] == pytest.approx(990, rel=0.045)
    assert row["delay_max_ms"] == 1000
    assert sorted(row["chains"]) == [0, 1]


def test_followed_statistics_show_each_window_when_it_is_complete(spark, store, client, tmp_path):
    from test_source import wait_until

    shown = []
    query = stats.follow_stats(
        spark,
        "prices/>",
        checkpoint=tmp_path / "checkpoint",
        shown=shown.extend,
        window="200ms",
        store=store.address,
        to_topic="stats",
        options={"startingOffsets": "earliest"},
    )
    try:
        written = 0

        def complete():
            nonlocal written
            client.write(prices(3))
            written += 3
            return len(shown) >= 3

        wait_until(complete)
        assert query.exception() is None
        assert 0 < sum(each.messages for each in shown) < written
        assert client.read("stats").num_rows >= 3
    finally:
        query.stop()


def test_a_replay_publishes_an_archive_again_in_order(spark, store, client, tmp_path):
    client.write(prices(200))
    finish(archive.archive(spark, "prices/>", tmp_path, store=store.address))
    with shoal.connect("inproc://replay") as bus, bus.subscribe("again/>") as subscription:
        done = replay.replay(
            spark,
            tmp_path,
            bus,
            speed=0,
            prefix="again",
            topics="prices/0,prices/1",
            property_schema="size BIGINT",
        )
        received = subscription.receive_nowait(1000)
    assert done.messages == len(received) == 134
    assert [message.body["n"] for message in received] == [n for n in range(200) if n % 3 != 2]
    assert received[-1].topic == "again/prices/1"
    assert received[-1].properties == {"region": "US", "size": 199}


def test_commands_audit_and_say_what_is_wrong(spark, store, client, tmp_path):
    client.write(prices(10))
    done = command("audit", "--store", str(store.directory), "--json", "-")
    assert json.loads(done.stdout)["messages"] == 10
    wrong = command("stats", "--store", store.address, "--window", "long", status=2)
    assert "option window must be a time such as 250ms" in wrong.stderr
    wrong = command("stats", "--store", store.address, "--option", "colour=red", status=2)
    assert "format shoal has no option colour when it reads" in wrong.stderr
    assert "Traceback" not in wrong.stderr
    away = ("--store", "grpc://127.0.0.1:1", "--option", "storeTimeout=200ms")
    for words in (("audit",), ("stats", "--window", "1h"), ("archive", ">", str(tmp_path / "archive"))):
        failed = command(*words, *away, status=1)
        assert "no store answered at grpc://127.0.0.1:1" in failed.stderr
        assert "Traceback" not in failed.stderr
