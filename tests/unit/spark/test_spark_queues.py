"""What Spark asks of a queue, asked of a real store over Flight, without Spark's JVM."""

import pickle

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

import shoal
from shoal import history
from shoal.config import resolve as resolve_connection
from shoal.errors import ConfigError, DataLossError
from shoal.spark.ddl import parse_schema
from shoal.spark.options import for_batch, for_stream, read_options
from shoal.spark.queues import QueueReader, QueueStreamReader, divide
from shoal.store import Store, resolve
from shoal.store.role import renew

ALL = ReadAllAvailable()
SCHEMA = parse_schema("x", "offset BIGINT, topic STRING, body STRING")


class Shop:
    """A store in this process, and programs that send to its queue."""

    def __init__(self, directory):
        self.directory = directory
        self.domain = f"shop-{directory.name}"
        self.open()

    def open(self):
        connection = resolve_connection(f"inproc://{self.domain}", {})
        self.store = Store(resolve(self.directory, flight="127.0.0.1:0"), connection)
        self.store.wait_open(30)

    def restart(self):
        self.store.close()
        self.open()

    def send(self, *bodies, queue="orders", **options):
        with shoal.connect(f"inproc://{self.domain}") as bus:
            for body in bodies:
                bus.queue(queue).send(body, **options)

    def receive(self, count, queue="orders"):
        with shoal.connect(f"inproc://{self.domain}") as bus:
            return [bus.queue(queue).receive(30).body for _ in range(count)]

    def left(self, queue="orders"):
        """What a program would still get from the queue."""
        with shoal.connect(f"inproc://{self.domain}") as bus:
            return [message.body for message in bus.queue(queue).browse()]

    def reader(self, **given):
        chosen = {"queue": "orders", "subscription": "billing", "store": str(self.directory), **given}
        return QueueStreamReader(for_stream(read_options(chosen)), SCHEMA)

    def batch(self, **given):
        chosen = {"queue": "orders", "store": str(self.directory), **given}
        return QueueReader(for_batch(read_options(chosen)), SCHEMA)


@pytest.fixture
def shop(tmp_path):
    started = Shop(tmp_path)
    yield started
    started.store.close()


def bodies(reader, parts):
    """What tasks get, which have copies of the reader."""
    copies = [(pickle.loads(pickle.dumps(reader)), pickle.loads(pickle.dumps(part))) for part in parts]
    return [row["body"] for copy, part in copies for batch in copy.read(part) for row in batch.to_pylist()]


def take(reader, start, limit=ALL):
    """One micro-batch: its end, and its bodies."""
    end = reader.latestOffset(start, limit)
    return end, bodies(reader, reader.partitions(start, end))


def test_a_micro_batch_is_acknowledged_when_the_next_is_asked_for_and_not_before(shop):
    shop.send("1", "2", "3")
    reader = shop.reader(maxOffsetsPerTrigger="2")
    start = reader.initialOffset()
    end, first = take(reader, start, ReadMaxRows(2))
    assert (first, end["offset"] > start["offset"]) == (["1", "2"], True)
    assert shop.left() == ["3"], "what is set aside is nobody else's"
    end, second = take(reader, end, ReadMaxRows(2))
    assert second == ["3"]
    assert reader.latestOffset(end, ALL) == end, "no empty micro-batch"
    shop.restart()
    assert reader.latestOffset(end, ALL) == end
    assert shop.left() == []


def test_the_same_start_gives_the_same_messages_whatever_happened_meanwhile(shop):
    shop.send("1", "2")
    start = shop.reader().initialOffset()
    end, first = take(shop.reader(), start)
    shop.send("3")
    shop.restart()
    again = shop.reader()
    assert again.initialOffset() == start, "a query that lost its checkpoint begins with what it had"
    assert take(again, start) == (end, first) == (end, ["1", "2"])
    assert bodies(again, again.partitions(start, end)) == first
    assert take(again, end)[1] == ["3"]


def test_messages_that_come_back_are_taken_though_they_are_older(shop):
    shop.send("1")
    with shoal.connect(f"inproc://{shop.domain}") as bus:
        consumer = bus.queue("orders").consume(ack="manual", prefetch=1)
        assert consumer.receive(30).body == "1"
        shop.send("prefetched", "2")
        reader = shop.reader()
        end, first = take(reader, reader.initialOffset())
        assert first == ["2"]
        consumer.close()
    following, second = take(reader, end)
    assert (second, following["offset"] > end["offset"]) == (["1", "prefetched"], True)


def test_only_messages_that_match_are_taken(shop):
    for region in ("EU", "US", "EU"):
        shop.send(region, properties={"region": region})
    reader = shop.reader(selector="region = 'EU'")
    assert take(reader, reader.initialOffset())[1] == ["EU", "EU"]
    assert shop.left() == ["US"]


def test_what_was_released_is_data_loss_for_a_micro_batch_that_was_begun(shop):
    shop.send("1")
    reader = shop.reader()
    start = reader.initialOffset()
    end, _ = take(reader, start)
    shop.store.ask("unreserve", name="billing")
    with pytest.raises(DataLossError, match="not reserved as 'billing' any more: an operator released them"):
        reader.partitions(start, end)
    assert shop.reader(failOnDataLoss="false").partitions(start, end) == []
    assert take(reader, end)[1] == ["1"], "they went back to the queue, and the query gets them again"


def test_a_restored_store_is_another_one(shop):
    shop.send("1")
    reader = shop.reader()
    end, _ = take(reader, reader.initialOffset())
    shop.store.close()
    renew(shop.directory)
    shop.open()
    with pytest.raises(DataLossError, match="it is another store, or was restored"):
        shop.reader().latestOffset(end, ALL)
    assert take(shop.reader(failOnDataLoss="false"), end)[1] == []


def test_available_now_leaves_what_is_sent_later_and_acknowledges_the_last_micro_batch(shop):
    shop.send("1", "2")
    reader = shop.reader(maxOffsetsPerTrigger="2")
    end = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    shop.send("3")
    end, found = take(reader, end, ReadMaxRows(2))
    assert found == ["1", "2"]
    assert reader.latestOffset(end, ReadMaxRows(2)) == end
    shop.restart()
    assert shop.left() == ["3"], "nothing of it is set aside, and what was done does not come back"


def test_a_batch_looks_at_what_is_there_and_takes_nothing(shop):
    shop.send("1", "2", "3", properties={"region": "EU"})
    shop.send("other", queue="other")
    shop.send("4", delivery_delay_s=3600)
    assert shop.receive(1) == ["1"]
    reader = shop.batch(minPartitions="2", selector="region = 'EU'")
    parts = reader.partitions()
    assert (len(parts), bodies(reader, parts)) == (2, ["2", "3"])
    assert shop.left() == ["2", "3"]
    with pytest.raises(ConfigError, match="option queue is 'nothing': there is no queue 'nothing'"):
        shop.batch(queue="nothing").partitions()


def test_a_name_belongs_to_one_queue(shop):
    shop.send("1")
    shop.reader().latestOffset(shop.reader().initialOffset(), ALL)
    with pytest.raises(shoal.HistoryError, match="'billing' is a reservation of the queue 'orders'"):
        shop.reader(queue="other").initialOffset()


def test_a_queue_with_reserved_messages_is_not_deleted(shop):
    shop.send("1")
    reader = shop.reader()
    reader.latestOffset(reader.initialOffset(), ALL)
    with pytest.raises(
        shoal.ShoalError,
        match="reserved as 'billing': give them back first, with 'shoal queue release billing",
    ):
        shop.store.ask("delete", queue="orders")


def test_limits_are_told_to_spark_and_the_lag_too(shop):
    assert shop.reader(maxBytesPerTrigger="9").getDefaultReadLimit() == ReadMaxBytes(9)
    assert shop.reader().getDefaultReadLimit() == ALL
    shop.send("1", "2", "3")
    reader = shop.reader(maxOffsetsPerTrigger="1")
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(1))
    assert reader.reportLatestOffset()["rowsBehind"] == 2


def test_rows_staged_for_a_queue_are_its_messages_once_and_wake_whoever_waits(shop):
    with (
        shoal.connect(f"inproc://{shop.domain}", client_id="desk") as bus,
        bus.queue("orders").consume() as consumer,
        bus.subscribe("vwap", durable="desk-7") as durable,
        history.connect(shop.directory) as client,
    ):
        rows = pa.table({"body": [b"1", b"2"]})
        for _ in range(2):
            client.stage("s", rows, topic="_queue/orders")
            client.commit("job", 1, ["s"])
        assert [consumer.receive(30).body for _ in range(2)] == [b"1", b"2"]
        assert consumer.receive(0.0) is None
        client.write(rows, topic="vwap")
        assert [durable.receive(30).body for _ in range(2)] == [b"1", b"2"]
    (queue,) = shop.store.status()["queues"]
    assert (queue["name"], queue["messages"]) == ("orders", 0)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"queue": "a"}, r"option queue \(a\) needs option subscription"),
        ({"queue": "a", "subscribe": "b", "subscription": "s"}, "give exactly one of the options"),
        ({"queue": "a/*", "subscription": "s"}, "must be the name of one queue, without wildcards"),
        (
            {"queue": "a", "subscription": "s", "startingOffsets": "earliest"},
            "startingOffsets means nothing with queue",
        ),
        ({"queue": "a", "subscription": "s", "mode": "live"}, "mode means nothing with queue"),
    ],
)
def test_options_that_cannot_work_are_refused(given, complaint):
    with pytest.raises(ConfigError, match=complaint):
        for_stream(read_options(given))


def test_offsets_are_divided_by_messages_and_by_runs():
    runs = [(0, 4), (7, 7), (9, 12)]
    assert list(divide(runs, 3)) == [[(0, 2)], [(3, 4), (7, 7)], [(9, 11)], [(12, 12)]]
    assert list(divide(runs, 100, runs_max=2)) == [[(0, 4), (7, 7)], [(9, 12)]]
