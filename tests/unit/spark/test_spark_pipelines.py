import json
import threading
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shoal.errors import ConfigError
from shoal.spark.explain import sentence
from shoal.spark.pipelines import archive, common, stats
from shoal.spark.pipelines.replay import Pace
from shoal.spark.pipelines.stats import WindowStats, drawn, plot
from shoal.spark.progress import describe, rows_behind, stop, wait

DAY = datetime(2026, 10, 1, 23, 59, 59, tzinfo=UTC)


def rows(*topics, start=0, day=DAY):
    stored = [day + timedelta(seconds=at) for at in range(len(topics))]
    return pa.record_batch(
        {
            "offset": pa.array(range(start, start + len(topics)), pa.int64()),
            "topic": list(topics),
            "stored": pa.array(stored, pa.timestamp("us", "UTC")),
        }
    )


def offsets(directory):
    return [
        at for file in archive.parquet_files(directory) for at in pq.read_table(file)["offset"].to_pylist()
    ]


def test_files_are_kept_by_date_and_topic(tmp_path):
    with archive.Files(tmp_path, "part-00000") as files:
        files.write(rows("a/b", "c", "a/b"))
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.parquet"))
    assert found == [
        "date=2026-10-01/topic=a%2Fb/part-00000.parquet",
        "date=2026-10-02/topic=a%2Fb/part-00000.parquet",
        "date=2026-10-02/topic=c/part-00000.parquet",
    ]


def test_only_so_many_files_are_open_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "OPEN_FILES_MAX", 2)
    with archive.Files(tmp_path, "part") as files:
        for _ in range(2):
            files.write(rows("a", "b", "c"))
        assert len(files._open) == 2
    assert files.rows == 6
    assert sum(pq.read_metadata(path).num_rows for path in tmp_path.rglob("*.parquet")) == 6


def epoch(directory, name, batch):
    with archive.Files(directory / f"epoch={name}", "part-00000") as files:
        files.write(batch)


def test_compaction_keeps_every_row_in_its_order(tmp_path):
    epoch(tmp_path, "0000000000", rows("a", "a"))
    epoch(tmp_path, "0000000001", rows("a", start=2))
    assert archive.compact(tmp_path) == (3, 2)
    assert [path.name for path in archive.epochs(tmp_path)] == ["epoch=0000000000-0000000001"]
    assert sorted(offsets(tmp_path)) == [0, 1, 2]
    epoch(tmp_path, "0000000002", rows("a", start=3))
    archive.compact(tmp_path)
    assert [path.name for path in archive.epochs(tmp_path)] == ["epoch=0000000000-0000000002"]
    assert sorted(offsets(tmp_path)) == [0, 1, 2, 3]


@pytest.mark.parametrize("deleted", [0, 1, 2])
@pytest.mark.parametrize("renamed", [False, True])
def test_a_compaction_that_was_interrupted_is_finished_by_the_next_start(tmp_path, deleted, renamed):
    names = ["0000000000", "0000000001"]
    for at, name in enumerate(names):
        epoch(tmp_path, name, rows("a", start=at))
    made = "epoch=0000000000-0000000001"
    epoch(tmp_path / "_writing", "0000000000-0000000001", rows("a", "a"))
    (tmp_path / "_compaction.json").write_text(
        json.dumps({"made": made, "of": [f"epoch={n}" for n in names]})
    )
    for name in names[:deleted]:
        archive.shutil.rmtree(tmp_path / f"epoch={name}")
    if renamed:
        (tmp_path / "_writing" / made).rename(tmp_path / made)
    archive.prepare(tmp_path)
    assert [path.name for path in archive.epochs(tmp_path)] == [made]
    assert sorted(offsets(tmp_path)) == [0, 1]
    assert not (tmp_path / "_compaction.json").exists()


def test_an_epoch_that_was_written_or_compacted_is_not_written_again(tmp_path):
    epoch(tmp_path, "0000000000-0000000004", rows("a"))
    epoch(tmp_path, "0000000005", rows("a"))
    assert archive.write_epoch(None, tmp_path, 3) is None
    assert archive.write_epoch(None, tmp_path, 5) is None


def test_an_archive_must_be_a_directory(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(ConfigError, match="must be a directory, and is a file"):
        archive.prepare(tmp_path / "x")
    with pytest.raises(ConfigError, match="nothing was archived there yet"):
        archive.load(None, tmp_path)


class Time:
    def __init__(self):
        self.now, self.slept = 100.0, []

    def clock(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(round(seconds, 6))
        self.now += seconds


def test_a_replay_keeps_the_spacing_divided_by_its_speed():
    time = Time()
    pace = Pace(2.0, time.clock, time.sleep)
    for published_us in (5_000_000, 6_000_000, 6_000_000, 7_500_000):
        pace.wait(published_us)
    assert time.slept == [0.5, 0.75]
    time.now += 3.0
    pace.wait(7_500_000)
    assert pace.late_max_s == pytest.approx(3.0)


def test_a_replay_at_speed_0_never_waits():
    time = Time()
    pace = Pace(0, time.clock, time.sleep)
    for published_us in (0, 10**12):
        pace.wait(published_us)
    assert time.slept == []
    with pytest.raises(ConfigError, match="speed must be 0"):
        Pace(-1)


def test_a_plot_is_an_image(tmp_path):
    pytest.importorskip("matplotlib")
    found = [
        WindowStats(DAY + timedelta(seconds=10 * at), "a", "0" * 16, 5, 10, 0.5, 1.0, 1.0, 2.0, 3.0, 0)
        for at in range(3)
    ]
    plot(found, tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_single_window_can_be_seen_in_a_plot():
    pytest.importorskip("matplotlib")
    found = [WindowStats(DAY, "a", "0" * 16, 5, 10, 0.5, 1.0, 1.0, 2.0, 3.0, 0)]
    rates, delays = drawn(found).axes
    for axes, value in ((rates, 0.5), (delays, 2.0)):
        (line,) = axes.lines
        assert line.get_marker() == "o"
        (first, last), (low, high) = axes.get_xlim(), axes.get_ylim()
        assert last - first < 1 / 24
        assert low == 0 < value < high


PROGRESS = {
    "batchId": 3,
    "numInputRows": 2000,
    "processedRowsPerSecond": 4000.4,
    "durationMs": {"triggerExecution": 500},
    "sources": [
        {"latestOffset": '{"incarnation": "x", "offset": 9, "rowsBehind": 1234}'},
        {"latestOffset": None},
    ],
}


def test_progress_is_one_line_with_the_lag():
    assert (
        describe(PROGRESS) == "micro-batch 3, 2,000 rows, 4,000 rows/s, 500 ms, 1,234 behind, about 1 s left"
    )
    assert rows_behind({"sources": [{"latestOffset": {"rowsBehind": 7}}]}) == 7
    assert rows_behind({"sources": [{"latestOffset": "junk"}]}) is None
    assert rows_behind(None) is None


def test_what_went_wrong_is_found_in_a_trace():
    trace = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed: Traceback (most recent call last):\n"
        '  File "x.py", line 5, in f\n    raise ConfigError(\n'
        "shoal.errors.ConfigError: option mode must be history or live, not 'x'\n SQLSTATE: 38000"
    )
    assert sentence(ValueError(trace)) == "option mode must be history or live, not 'x'"
    assert sentence(ValueError("Traceback\nKeyError: 'x'\n\nJVM stuff")) == "KeyError: 'x'"
    assert sentence(ValueError("first\nsecond")) == "first"
    assert sentence(ValueError()) == "ValueError"


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(minutes=1)


def counted(start, topic, publisher, *chains):
    return stats.WindowStats(start, topic, publisher, 10, 100, 1.0, 10.0, None, None, None, 0), chains


def test_losses_are_told_for_each_publisher_and_topic():
    rows = [counted(NOON, "a", "p", 1, 2), counted(NOON, "b", "p", 2), counted(NOON, "a", "q", 1)]
    gaps = [
        stats.Gap(NOON, "p", 1, 3),  # only a came on this chain
        stats.Gap(NOON, "p", 2, 5),  # a and b did
        stats.Gap(NOON, "p", 3, 7),  # nothing did
        stats.Gap(NOON, "q", 1, 1),
        stats.Gap(LATER, "q", 1, 2),  # nothing came in that window
    ]
    found = stats.with_losses(rows, gaps)
    assert [(each.start, each.topic, each.publisher, each.messages, each.lost) for each in found] == [
        (NOON, "?", "p", 0, 12),
        (NOON, "a", "p", 10, 3),
        (NOON, "a", "q", 10, 1),
        (NOON, "b", "p", 10, 0),
        (LATER, "?", "q", 0, 2),
    ]
    assert sum(each.lost for each in found) == sum(gap.lost for gap in gaps)


def test_gaps_are_read_of_the_same_range_as_messages_or_of_another():
    options = common.source_options(
        "a", "grpc://s:1", "x = 1", {"startingoffsets": "5", "minPartitions": "2"}
    )
    assert common.gap_options(options) == {"store": "grpc://s:1", "startingoffsets": "5", "gaps": "true"}
    since = {"startingTimestamp": "7"}
    assert common.gap_options(options, since) == {"store": "grpc://s:1", "gaps": "true"} | since


class FakeQuery:
    """A query that processes a micro-batch for so many looks, and can be stopped then."""

    def __init__(self, busy):
        self.busy, self.isActive, self.lastProgress = busy, True, None
        self.stopped_while_busy = None

    @property
    def status(self):
        self.busy -= 1
        return {"message": "Processing new data" if self.busy > 0 else "Waiting for data to arrive"}

    def awaitTermination(self, seconds):  # noqa: N802 - Spark's name
        return not self.isActive

    def stop(self):
        self.isActive, self.stopped_while_busy = False, self.busy > 0


def test_a_query_is_stopped_between_two_micro_batches():
    stopping = threading.Event()
    stopping.set()
    query = FakeQuery(busy=3)
    wait(query, print, stopping=stopping)
    assert query.stopped_while_busy is False


def test_a_micro_batch_that_does_not_end_is_cut_short():
    query = FakeQuery(busy=1 << 60)
    stop(query, patience_s=0.0)
    assert query.stopped_while_busy is True
