"""Reading a real store with a real Spark, in batches and as a stream."""

import json

import pyarrow as pa
import pytest
from conftest import finish, prices
from pyspark.errors import PySparkException
from pyspark.testing import assertDataFrameEqual

from shoal import history
from shoal.spark.explain import sentence
from shoal.spark.progress import QueryMetrics, rows_behind
from shoal.spark.rows import ROW_SCHEMA


def read(spark, at, **options):
    chosen = {"subscribe": "prices/>", "store": at.address, **options}
    return spark.read.format("shoal").options(**chosen)


def follow(spark, at, **options):
    chosen = {"subscribe": "prices/>", "store": at.address, "startingOffsets": "earliest", **options}
    return spark.readStream.format("shoal").options(**chosen).load()


def collect(frame, tmp_path, **trigger):
    """All rows that a stream gives until it ends, and its progress."""
    rows = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, number: rows.append((number, batch.collect())))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )
    finish(query)
    return rows, [json.loads(each.json) for each in query.recentProgress]


def test_rows_are_what_was_published(spark, store, client):
    client.write(prices(3))
    frame = read(spark, store).load()
    assert frame.schema == ROW_SCHEMA
    first, second, _ = frame.orderBy("offset").collect()
    assert (first["offset"], first["topic"], first["body_kind"]) == (0, "prices/0", "mapping")
    assert json.loads(second["body"]) == {"n": 1, "bid": 0.25}
    assert second["properties"] == {"region": "US", "size": "1"}
    assert second["stored"] is not None
    assert len(second["publisher"]) == 16


def test_properties_and_bodies_become_typed_columns(spark, store, client):
    client.write(prices(20))
    options = {"propertySchema": "region STRING, size INT", "bodySchema": "bid DOUBLE"}
    frame = read(spark, store, **options).schema("bid DOUBLE, region STRING, size INT").load()
    expected = spark.createDataFrame([(2.5, "EU", 10)], frame.schema)
    assertDataFrameEqual(frame.where("region = 'EU' AND size >= 5"), expected)


CONDITIONS = {
    "offset >= 50 AND offset < 60": 10,
    "topic = 'prices/1' AND region = 'EU'": 7,
    "region LIKE 'E%' AND size NOT IN (0, 10)": 18,
    "size > 150 OR region = 'EU'": 65,
    "topic IN ('prices/0', 'other') AND priority = 4": 67,
    # Properties of other types than declared, and none at all, are null.
    "region = '7'": 0,
    "NOT region <=> 'EU'": 182,
    "NOT region LIKE 'E%'": 180,
    "stored >= TIMESTAMP '2026-01-01' AND stored < TIMESTAMP '2200-01-01' AND size < 5": 5,
    "stored < TIMESTAMP '2026-01-01'": 0,
    "timestamp > TIMESTAMP '2026-01-01' AND size < 5": 5,
}


def odd():
    """Two messages whose properties are not as others'."""
    seven = pa.array([{"region": 7}], pa.struct([("region", pa.int64())]))
    yield pa.table({"topic": ["prices/odd"], "body": ["x"], "properties": seven})
    yield pa.table({"topic": ["prices/odd"], "body": ["x"]})


def test_every_query_on_a_frame_gets_its_own_rows(spark, store, client):
    client.write(prices(200))
    for rows in odd():
        client.write(rows)
    frame = read(spark, store, propertySchema="region STRING, size INT").load()
    # Spark itself checks these; the store, with pushFilters, all of them below.
    some = dict(list(CONDITIONS.items())[:3])
    assert {each: frame.where(each).count() for each in some} == some
    assert frame.where("size < 5").join(frame.where("size >= 195"), "region").count() == 20
    assert frame.count() == 202


def test_the_store_checks_filters_where_the_user_asks_for_it(spark, store, client):
    client.write(prices(200))
    for rows in odd():
        client.write(rows)
    pushing = read(spark, store, propertySchema="region STRING, size INT", pushFilters="true")
    assert {each: pushing.load().where(each).count() for each in CONDITIONS} == CONDITIONS
    assert scanned(pushing.load().where("region = 'EU'")) == 20
    assert scanned(pushing.load().where("stored < TIMESTAMP '2026-01-01'")) == 0
    assert pushing.load().count() == 202


def scanned(frame):
    """How many rows came from the source."""
    execution = frame._jdf.queryExecution()
    frame._jdf.collectToPython()
    plan = execution.executedPlan()
    while plan.children().size():
        plan = plan.children().head()
    return plan.metrics().get("numOutputRows").get().value()


def test_ranges_by_offset_and_time(spark, store, client):
    client.write(prices(5))
    middle = client.read(start=4, end=5, columns=["stored"])["stored"][0].as_py()
    client.write(prices(5))
    assert read(spark, store, startingOffsets="3", endingOffsets="8").load().count() == 5
    assert read(spark, store, startingTimestamp=middle.isoformat()).load().count() >= 5
    assert read(spark, store, subscribePattern="prices/[01]", subscribe=None).load().count() == 8


def test_a_read_is_split_between_tasks(spark, store, client):
    client.write(prices(1000))
    assert read(spark, store, minPartitions="4").load().rdd.getNumPartitions() == 4
    assert read(spark, store, maxRecordsPerPartition="100").load().rdd.getNumPartitions() == 10
    assert read(spark, store, subscribe="nothing").load().count() == 0


def test_a_stream_that_ends_reads_everything_once_within_its_limits(spark, store, client, tmp_path):
    client.write(prices(250))
    frame = follow(spark, store, maxOffsetsPerTrigger="100", columns="offset,topic")
    batches, progress = collect(frame, tmp_path)
    assert [len(rows) for _, rows in batches] == [100, 100, 50]
    assert [row["offset"] for _, rows in batches for row in rows] == list(range(250))
    assert [rows_behind(each) for each in progress if each["numInputRows"]] == [150, 50, 0]
    client.write(prices(5))
    batches, _ = collect(frame, tmp_path)
    assert [row["offset"] for _, rows in batches for row in rows] == list(range(250, 255))


def test_a_store_that_missed_nothing_has_no_gaps(spark, store, client, tmp_path):
    client.write(prices(3))
    options = {"store": store.address, "gaps": "true", "startingOffsets": "earliest"}
    assert spark.read.format("shoal").options(**options).load().count() == 0
    batches, _ = collect(spark.readStream.format("shoal").options(**options).load(), tmp_path)
    assert [row for _, rows in batches for row in rows] == []


def test_only_messages_that_match_make_micro_batches(spark, store, client, tmp_path):
    client.write(prices(100))
    frame = follow(spark, store, selector="region = 'EU'", columns="offset", maxOffsetsPerTrigger="6")
    batches, progress = collect(frame, tmp_path)
    assert [len(rows) for _, rows in batches] == [6, 4]
    assert progress[-1]["sources"][0]["endOffset"]["offset"] == 91
    client.write(prices(9, start=1))
    assert collect(frame, tmp_path)[0] == []


def test_a_stream_goes_on_after_the_store_was_killed(spark, mortal_store, tmp_path):
    store, client = mortal_store, history.connect(mortal_store.address)
    client.write(prices(10))
    metrics = QueryMetrics()
    spark.streams.addListener(metrics)
    rows = []
    query = (
        follow(spark, store, columns="offset", subscription="mine")
        .writeStream.foreachBatch(lambda batch, _: rows.extend(row["offset"] for row in batch.collect()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .queryName("survivor")
        .start()
    )
    try:
        wait_until(lambda: len(rows) == 10)
        assert client.holds() == {"mine": 0}
        store.kill()
        store.start()
        client.write(prices(10))
        wait_until(lambda: len(rows) == 20)
        assert rows == list(range(20))
        client.write(prices(1))
        wait_until(lambda: client.holds()["mine"] >= 20)
        assert query.exception() is None
        wait_until(lambda: 'shoal_spark_rows_behind{query="survivor"} 0' in metrics.text())
    finally:
        query.stop()
        client.close()
        spark.streams.removeListener(metrics)


def wait_until(reached, seconds=60):
    import time

    deadline = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"colour": "red"}, "format shoal has no option colour when it reads"),
        ({"startingOffsets": "soon"}, "option startingOffsets must be earliest, latest"),
        ({"store": "grpc://127.0.0.1:1", "storeTimeout": "200ms"}, "no store answered at grpc://127.0.0.1:1"),
        ({"store": "/nowhere"}, "store is '/nowhere', which does not exist: give the directory of a store"),
        ({"domain": "another"}, "option domain says 'another', but the store at"),
        ({"maxOffsetsPerTrigger": "5"}, "option maxOffsetsPerTrigger is for spark.readStream"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(spark, any_store, options, said):
    with pytest.raises(PySparkException) as raised:
        read(spark, any_store, **options).load().count()
    assert said in sentence(raised.value)
    assert said in str(raised.value).splitlines()[0]
    assert "Traceback" not in str(raised.value)


def test_a_schema_that_does_not_fit_is_said_in_one_sentence(spark, any_store):
    with pytest.raises(PySparkException) as raised:
        read(spark, any_store).schema("colour STRING").load().count()
    assert sentence(raised.value).startswith(
        "the schema names the column colour: it is none of the row schema"
    )
