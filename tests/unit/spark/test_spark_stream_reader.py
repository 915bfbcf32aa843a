import logging
import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from shoal.errors import ConfigError, DataLossError, StoreUnavailableError
from shoal.spark.ddl import parse_schema
from shoal.spark.options import read_options
from shoal.spark.stream_reader import ShoalStreamReader

ALL = ReadAllAvailable()


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def reader(clock=None, **given):
    options = read_options({"subscribe": "a/>", **given})
    return ShoalStreamReader(options, parse_schema("x", "topic STRING"), clock or Clock())


def at(offset, incarnation="one"):
    return {"incarnation": incarnation, "offset": offset}


def test_a_stream_begins_at_the_end_unless_told_otherwise(fake):
    fake.store("a/1", "a/2")
    assert reader().initialOffset() == at(2)
    assert reader(startingOffsets="earliest").initialOffset() == at(0)
    assert reader(startingOffsets="1").initialOffset() == at(1)
    assert reader(startingTimestamp="1970-01-01T00:00:00.000002").initialOffset() == at(2)


def test_a_beginning_that_history_has_not_reached_is_refused(fake):
    fake.store("a/1", "a/2")
    assert reader(startingOffsets="2").initialOffset() == at(2)
    with pytest.raises(ConfigError, match=r"option startingOffsets is 3, and .* ends at 2: .* from 0 to 2"):
        reader(startingOffsets="3").initialOffset()


def test_an_offset_of_another_incarnation_cannot_be_a_beginning(fake):
    with pytest.raises(ConfigError, match="names an offset of incarnation two"):
        reader(startingOffsets='{"incarnation": "two", "offset": 0}').initialOffset()


def test_a_batch_ends_after_the_last_message_that_matches(fake):
    fake.store("a/1", "b/1", "a/2", "b/2", "b/3")
    assert reader().latestOffset(at(0), ALL) == at(3)


def test_without_a_match_there_is_no_micro_batch(fake):
    fake.store("b/1", "b/2")
    assert reader().latestOffset(at(0), ALL) == at(0)


def test_limits_count_messages_that_match(fake):
    fake.store("a/1", "b/1", "a/2", "a/3")
    limited = reader(maxOffsetsPerTrigger="2")
    assert limited.getDefaultReadLimit() == ReadMaxRows(2)
    assert limited.latestOffset(at(0), ReadMaxRows(2)) == at(3)
    assert limited.latestOffset(at(0), ALL) == at(4), "a trigger that wants all gets all"


def test_spark_is_told_the_first_limit_that_is_given():
    assert reader(maxBytesPerTrigger="9").getDefaultReadLimit() == ReadMaxBytes(9)
    assert reader(minOffsetsPerTrigger="9").getDefaultReadLimit() == ReadMinRows(9)
    assert reader().getDefaultReadLimit() == ALL


def test_a_micro_batch_waits_for_enough_messages_but_not_for_ever(fake):
    clock = Clock()
    waiting = reader(clock, minOffsetsPerTrigger="3", maxTriggerDelay="10s")
    fake.store("a/1")
    assert waiting.latestOffset(at(0), ReadMinRows(3)) == at(0)
    clock.now = 9.0
    assert waiting.latestOffset(at(0), ReadMinRows(3)) == at(0)
    clock.now = 10.0
    assert waiting.latestOffset(at(0), ReadMinRows(3)) == at(1)
    fake.store("a/2")
    assert waiting.latestOffset(at(1), ReadMinRows(3)) == at(1), "the wait begins anew"
    fake.store("a/3", "a/4")
    assert waiting.latestOffset(at(1), ReadMinRows(3)) == at(4)


def test_available_now_leaves_what_comes_later(fake):
    fake.store("a/1", "a/2")
    once = reader(minOffsetsPerTrigger="100")
    once.prepareForTriggerAvailableNow()
    fake.store("a/3")
    assert once.latestOffset(at(0), ReadMinRows(100)) == at(2)
    assert once.latestOffset(at(2), ReadMinRows(100)) == at(2)


def test_the_lag_counts_messages_that_match(fake):
    behind = reader()
    assert behind.reportLatestOffset() is None
    fake.store("a/1", "b/1")
    behind.latestOffset(at(0), ALL)
    fake.store("a/2", "b/2", "a/3", "b/3")
    assert behind.reportLatestOffset() == at(5) | {"rowsBehind": 2, "high": 6}


def test_parts_together_are_the_range(fake):
    fake.store(*["a/1"] * 10)
    parts = reader(maxRecordsPerPartition="4").partitions(at(2), at(10))
    assert [(part.start, part.end) for part in parts] == [(2, 6), (6, 10)]
    assert reader(minPartitions="2").partitions(at(5), at(5)) == []


def test_topics_of_an_expression_are_looked_up_each_time(fake):
    options = read_options({"subscribePattern": "a/[0-9]+"})
    found = ShoalStreamReader(options, parse_schema("x", "topic STRING"), Clock())
    assert found.latestOffset(at(0), ALL) == at(0)
    fake.store("a/1", "a/x")
    assert found.latestOffset(at(0), ALL) == at(1)
    fake.store("a/22")
    assert found.latestOffset(at(1), ALL) == at(3)
    (part,) = found.partitions(at(0), at(3))
    assert part.query.topics == ("a/1", "a/22")


def test_history_that_was_dropped_unread_is_an_error_that_names_it(fake):
    fake.store(*["a/1"] * 10)
    fake.floor = 6
    with pytest.raises(
        DataLossError,
        match=r"no longer has what matches from offset 2 to 5.*failOnDataLoss=false.*subscription",
    ):
        reader().latestOffset(at(2), ALL)
    with pytest.raises(DataLossError, match="no longer has what matches from offset 2 to 5"):
        reader().partitions(at(2), at(8))


def test_or_a_warning_that_names_it(fake, caplog):
    fake.store(*["a/1"] * 10)
    fake.floor = 6
    going_on = reader(failOnDataLoss="false")
    with caplog.at_level(logging.WARNING, "shoal.spark"):
        assert going_on.latestOffset(at(2), ALL) == at(10)
        (part,) = going_on.partitions(at(2), at(10))
    assert (part.start, part.end) == (6, 10)
    assert "no longer has what matches from offset 2 to 5" in caplog.text


def test_a_restored_store_is_another(fake):
    fake.store("a/1")
    fake.incarnation = "two"
    with pytest.raises(DataLossError, match=r"offset 5 of incarnation one.*is incarnation two"):
        reader().latestOffset(at(5), ALL)
    going_on = reader(failOnDataLoss="false")
    assert going_on.latestOffset(at(5), ALL) == at(1, "two")
    (part,) = going_on.partitions(at(5), at(1, "two"))
    assert (part.start, part.end, part.incarnation) == (0, 1, "two")
    with pytest.raises(DataLossError, match="start with a new checkpointLocation"):
        going_on.partitions(at(0), at(1))


def test_a_store_that_restarts_is_waited_for(fake):
    fake.store("a/1")
    fake.failures = 3
    assert reader().latestOffset(at(0), ALL) == at(1)


def test_but_not_for_ever(fake, monkeypatch):
    fake.failures = 1_000_000
    monkeypatch.setattr("shoal.spark.store.time.monotonic", iter(range(1000)).__next__)
    with pytest.raises(StoreUnavailableError, match=r"no store answered at .* \(option storeTimeout\)"):
        reader(storeTimeout="20s").initialOffset()


def test_a_store_of_another_domain_is_refused(fake):
    with pytest.raises(ConfigError, match=r"option domain says 'e', but the store at .* belongs to 'd'"):
        reader(domain="e").initialOffset()


def test_a_subscription_holds_what_is_not_read_yet(fake):
    fake.store("a/1", "a/2")
    holding = reader(subscription="me", startingOffsets="earliest")
    holding.initialOffset()
    assert fake.held == {"me": 0}
    holding.commit(at(2))
    assert fake.held == {"me": 2}


def test_a_query_that_is_started_again_holds_from_its_checkpoint(fake):
    fake.store("a/1", "a/2")
    reader(subscription="me").latestOffset(at(1), ALL)
    assert fake.held == {"me": 1}


def test_the_copy_for_the_tasks_has_no_connection(fake):
    used = reader()
    used.initialOffset()
    copy = pickle.loads(pickle.dumps(ShoalStreamReader(*_parts(used))))
    assert copy._opened is None


def _parts(used):
    return used._reading.options, parse_schema("x", "topic STRING")
