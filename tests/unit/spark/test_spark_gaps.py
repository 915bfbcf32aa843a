import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from shoal.errors import ConfigError, DataLossError
from shoal.spark.ddl import parse_schema
from shoal.spark.gaps import GapReader, GapStreamReader
from shoal.spark.options import for_batch, for_stream, read_options
from shoal.spark.reader import batch_reader
from shoal.spark.rows import full_schema
from shoal.spark.source import ShoalSource

ALL = ReadAllAvailable()


def options(**given):
    return read_options({"gaps": "true", **given})


def batch(**given):
    chosen = for_batch(options(**given))
    return GapReader(chosen, full_schema(chosen))


def stream(**given):
    chosen = for_stream(options(**given))
    return GapStreamReader(chosen, full_schema(chosen))


def at(offset, incarnation="one"):
    return {"incarnation": incarnation, "offset": offset}


def numbers(reader, parts):
    return [row["first"] for part in parts for rows in reader.read(part) for row in rows.to_pylist()]


@pytest.fixture
def history(fake):
    """Gaps before the messages 2 and 5, and one behind the last."""
    fake.store(*["a"] * 6)
    for number, offset in enumerate((2, 5, 6), 1):
        fake.lose(offset, number)
    return fake


def test_a_batch_has_the_gaps_of_its_range(history):
    assert numbers(batch(), batch().partitions()) == [1, 2, 3]
    assert numbers(batch(), batch(startingOffsets="3").partitions()) == [2, 3]
    assert numbers(batch(), batch(endingOffsets="5").partitions()) == [1]
    assert numbers(batch(), batch(endingOffsets="6").partitions()) == [1, 2]
    assert batch(startingOffsets="5", endingOffsets="5").partitions() == []


def test_a_stream_gives_each_gap_once(history):
    following = stream(startingOffsets="earliest")
    start = following.initialOffset()
    end = following.latestOffset(start, ALL)
    assert end == at(6)
    copy = pickle.loads(pickle.dumps(following))
    assert numbers(copy, following.partitions(start, end)) == [1, 2]
    assert following.latestOffset(end, ALL) == end, "one behind the last message waits for another message"
    history.store("a", "a")
    assert following.latestOffset(end, ALL) == at(8)
    assert numbers(copy, following.partitions(end, at(8))) == [3]


def test_a_micro_batch_of_nothing_has_no_parts(history):
    assert stream().partitions(at(0), at(0)) == []


def test_without_a_gap_there_is_no_micro_batch(history):
    following = stream()
    assert following.initialOffset() == at(6)
    del history.gaps_stored[-1]
    history.store("a", "a")
    assert following.latestOffset(at(6), ALL) == at(6)
    history.store("a")
    history.lose(9, 4)
    history.store("a")
    assert following.latestOffset(at(6), ALL) == at(10)
    assert numbers(following, following.partitions(at(6), at(10))) == [4]


def test_available_now_leaves_what_comes_later(history):
    following = stream()
    following.prepareForTriggerAvailableNow()
    history.store("a")
    assert following.latestOffset(at(3), ALL) == at(6)
    assert following.latestOffset(at(6), ALL) == at(6)


def test_gaps_that_were_dropped_unread_are_an_error_or_a_warning(history):
    history.floor = 4
    with pytest.raises(DataLossError, match="no longer has what matches from offset 1 to 3"):
        stream().latestOffset(at(1), ALL)
    going_on = stream(failOnDataLoss="false")
    assert going_on.latestOffset(at(1), ALL) == at(6)
    assert numbers(going_on, going_on.partitions(at(1), at(6))) == [2]


def test_another_incarnation_is_an_error_or_begins_anew_once(history):
    history.incarnation = "two"
    for offset in (2, 100):
        with pytest.raises(DataLossError, match="incarnation"):
            stream().latestOffset(at(offset), ALL)
    going_on = stream(failOnDataLoss="false")
    assert going_on.latestOffset(at(100), ALL) == at(6, "two")
    assert numbers(going_on, going_on.partitions(at(100), at(6, "two"))) == [1, 2]
    assert going_on.latestOffset(at(6, "two"), ALL) == at(6, "two"), "what was handed over is not again"


def test_what_means_nothing_to_gaps_is_refused():
    for name, value in (("subscribe", "a"), ("selector", "x = 1"), ("maxOffsetsPerTrigger", "5")):
        with pytest.raises(ConfigError, match=f"option {name} means nothing with gaps=true"):
            options(**{name: value})
    with pytest.raises(
        ConfigError, match="the schema names topic string; gaps are rows of after_offset bigint"
    ):
        GapReader(options(), parse_schema("x", "topic STRING"))


def test_the_option_chooses_the_reader():
    chosen = options()
    assert isinstance(batch_reader(chosen, full_schema(chosen)), GapReader)
    source = ShoalSource({"gaps": "true"})
    assert isinstance(source.streamReader(source.schema()), GapStreamReader)
