"""Writing to a real store with a real Spark: what becomes of rows, and that each becomes one message."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import finish, prices
from pyspark.errors import PySparkException
from test_source import follow, wait_until

import shoal
import shoal.spark
from shoal.spark.explain import sentence


def save(frame, store, **options):
    frame.write.format("shoal").option("store", store.address).options(**options).mode("append").save()


def test_columns_become_messages_and_subscribers_get_them(spark, store, client):
    rows = spark.sql(
        "SELECT concat('out/', id) AS topic, CAST(concat('text ', id) AS STRING) AS body, "
        "named_struct('region', 'EU', 'size', id) AS properties, 7 AS priority, concat('c', id) AS "
        "correlation_id, "
        "'quote' AS type FROM range(3)"
    )
    with shoal.connect(interface="lo", domain=store.domain) as bus, bus.subscribe("out/>") as subscription:
        save(rows.coalesce(1), store)
        received = [subscription.receive(20.0) for _ in range(3)]
    assert [(each.topic, each.body) for each in received] == [(f"out/{n}", f"text {n}") for n in range(3)]
    last = received[-1]
    assert (last.properties, last.priority, last.type) == ({"region": "EU", "size": 2}, 7, "quote")
    assert last.correlation_id == "c2"
    stored = client.read("out/>")
    assert stored["body_kind"].to_pylist() == ["text"] * 3


def test_a_session_that_another_thread_made_can_write_here(spark, store, client):
    def save_here():
        shoal.spark.session(spark=spark)
        save(spark.range(3).selectExpr("CAST(id AS STRING) AS body"), store, topic="t")

    with ThreadPoolExecutor(1) as pool:
        pool.submit(save_here).result(60)
    assert client.read("t").num_rows == 3


def test_rows_without_a_body_become_mappings(spark, store, client):
    save(spark.sql("SELECT 'ACME' AS symbol, 1.5D AS vwap, CAST(NULL AS INT) AS n"), store, topic="vwap")
    (row,) = client.read("vwap").to_pylist()
    assert (row["body_kind"], json.loads(row["body"])) == ("mapping", {"symbol": "ACME", "vwap": 1.5})


def test_a_batch_that_has_an_id_is_written_once(spark, store, client):
    for _ in range(2):
        save(spark.range(100).selectExpr("CAST(id AS STRING) AS body"), store, topic="t", writeId="mine")
    assert client.read("t").num_rows == 100
    save(
        spark.range(5).selectExpr("CAST(id AS STRING) AS body"),
        store,
        topic="t",
        writeId="mine",
        writeNumber="1",
    )
    assert client.read("t").num_rows == 105
    save(spark.range(5).selectExpr("CAST(id AS STRING) AS body"), store, topic="t")
    assert client.forget("mine"), "an id is remembered"


def test_a_batch_that_fails_leaves_nothing(spark, store, client):
    failing = spark.range(0, 1000, 1, 4).selectExpr(
        "CAST(IF(id = 900, raise_error('no'), id) AS STRING) AS body"
    )
    with pytest.raises(PySparkException):
        save(failing, store, topic="t")
    assert client.read("t").num_rows == 0


def test_a_stream_from_store_to_store_copies_each_message_once(spark, store, client, tmp_path):
    client.write(prices(500))

    def copy(**options):
        frame = follow(spark, store, maxOffsetsPerTrigger="150", columns="topic,body,body_kind")
        return (
            frame.selectExpr("concat('copy/', topic) AS topic", "body", "body_kind")
            .writeStream.format("shoal")
            .option("store", store.address)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .options(**options)
            .trigger(availableNow=True)
            .start()
        )

    finish(copy())
    bodies = client.read("copy/>")["body"].to_pylist()
    assert bodies == client.read("prices/>")["body"].to_pylist()
    # The last micro-batch as after a crash between the store's commit and Spark's own.
    commits = tmp_path / "checkpoint" / "commits"
    for name in ("3", ".3.crc"):
        (commits / name).unlink()
    finish(copy())
    assert client.read("copy/>").num_rows == 500
    assert client.status() is not None


def test_at_least_once_publishes_without_a_common_commit(spark, store, client):
    frame = spark.range(0, 100, 1, 4).selectExpr("CAST(id AS STRING) AS body")
    save(frame, store, topic="t", deliveryGuarantee="at-least-once")
    assert sorted(int(body) for body in client.read("t")["body"].to_pylist()) == list(range(100))


@pytest.mark.parametrize(
    ("select", "options", "said"),
    [
        ("1 AS body", {"topic": "t"}, "column body is int, and must be binary or string or struct"),
        ("'x' AS body", {}, "rows have no column topic"),
        (
            "'x' AS body, 1 AS colour",
            {"topic": "t"},
            "column colour has no place in a message that has a body",
        ),
        ("'x' AS body", {"topic": "t/*"}, "option topic must be one topic"),
        ("'x' AS body", {"topic": "t", "acks": "all"}, "format shoal has no option acks when it writes"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(spark, any_store, select, options, said):
    with pytest.raises(PySparkException) as raised:
        save(spark.sql(f"SELECT {select}"), any_store, **options)
    assert said in sentence(raised.value)
    assert said in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)


def test_messages_cannot_be_overwritten(spark, any_store):
    with pytest.raises(PySparkException) as raised:
        spark.sql("SELECT 'x' AS body").write.format("shoal").option("store", any_store.address).option(
            "topic", "t"
        ).mode("overwrite").save()
    assert 'use mode("append")' in sentence(raised.value)


def test_live_mode_reads_the_network_and_says_that_it_may_lose(spark, store, tmp_path):
    rows = []
    frame = (
        spark.readStream.format("shoal")
        .option("mode", "live")
        .option("subscribe", "live/>")
        .option("domain", store.domain)
        .option("bus", "norm://?interface=lo")
        .option("bodySchema", "n INT")
        .load()
    )
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(row["n"] for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        with shoal.connect(interface="lo", domain=store.domain) as bus:
            # The store records everything and is one subscriber; the query is the other.
            assert bus.wait_for_subscribers("live/a", 2, 60.0)
            for number in range(100):
                bus.publish("live/a", {"n": number})
            bus.flush()
        wait_until(lambda: len(rows) == 100)
        assert rows == list(range(100))
    finally:
        query.stop()
