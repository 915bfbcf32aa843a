import logging
import uuid

import pytest

import shoal
from shoal.spark.live import LiveReader
from shoal.spark.options import read_options
from shoal.spark.rows import full_schema


@pytest.fixture
def domain():
    return f"inproc://{uuid.uuid4().hex}"


@pytest.fixture
def reader(domain):
    options = read_options(
        {
            "mode": "live",
            "subscribe": "prices/*,news",
            "bus": domain,
            "selector": "size > 1",
            "columns": "topic,priority,body,n,region,size,mean,open",
            "propertySchema": "region STRING, size INT, mean DOUBLE, open BOOLEAN",
            "bodySchema": "n INT",
        }
    )
    made = LiveReader(options, full_schema(options))
    yield made
    made.close()


def rows_of(reader, start):
    batches, end = reader.read(start)
    return [row for batch in batches for row in batch.to_pylist()], end


def test_rows_are_made_of_what_comes_from_now_on(reader, domain, caplog):
    with shoal.connect(domain) as bus:
        bus.publish("prices/A", {"n": 0}, properties={"size": 9})
        with caplog.at_level(logging.WARNING, "shoal.spark"):
            start = reader.initialOffset()
        assert "at most once" in caplog.text
        bus.publish("prices/A", {"n": 1}, properties={"size": 2, "region": "EU", "mean": 1, "open": True})
        bus.publish("prices/A", {"n": 2}, properties={"size": 1})
        bus.publish("news", "text", properties={"size": 3, "region": 7, "mean": True, "open": 1}, priority=7)
        first, end = rows_of(reader, start)
        rest, end = rows_of(reader, end) if end["received"] < 2 else ([], end)
    known = {row["topic"]: row for row in first + rest}
    assert known == {
        "prices/A": {
            "topic": "prices/A", "priority": 4, "body": b'{"n": 1}', "n": 1,
            "region": "EU", "size": 2, "mean": 1.0, "open": True,
        },
        # What has another type than declared is null, as from a store.
        "news": {
            "topic": "news", "priority": 7, "body": b"text", "n": None,
            "region": None, "size": 3, "mean": None, "open": None,
        },
    }  # fmt: skip
    assert end == {"received": 2}


def test_what_a_failed_micro_batch_had_is_told_as_lost(reader, caplog):
    with caplog.at_level(logging.WARNING, "shoal.spark"):
        assert list(reader.readBetweenOffsets({"received": 3}, {"received": 10})) == []
    assert "lost 7 messages of an unfinished micro-batch" in caplog.text
