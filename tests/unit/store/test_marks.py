"""A store that was away: what comes again is not recorded again, and what does not come is told."""

import random
from pathlib import Path

import pytest
from log_twin import crc32c
from staging import stage
from test_log import open_log, record

import shoal
from shoal._core import Lanes, Log, Recorder


def recorded(log: Log, bus: shoal.Bus, *topics: str, patterns: tuple[str, ...] = ("a/>",)) -> list[Recorder]:
    """What one run of a store does: it records what is published meanwhile, one message for each topic."""
    lanes = Lanes(log, patterns)
    node = bus._connection.node
    subscriptions = [node.open_subscription(pattern) for pattern in patterns]
    recorders = [Recorder(log, each, lanes=lanes, at=at) for at, each in enumerate(subscriptions)]
    for topic in topics:
        bus.publish(topic, b"x")
    for each, recorder in zip(subscriptions, recorders, strict=True):
        each.close()
        assert recorder.run(1.0) is False
    log.sync()
    return recorders


def numbers(log: Log) -> list[int | None]:
    return [row[4] for row in log.rows(0, 1 << 60)]


def reopened(log: Log, path: Path) -> Log:
    log.close()
    return open_log(path)


def test_what_was_published_meanwhile_is_a_gap_once(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with shoal.connect("inproc://marks-gap") as bus:
        recorded(log, bus, *["a/b"] * 3)
        log = reopened(log, tmp_path)
        recorded(log, bus)
        for _ in range(5):
            bus.publish("a/b", b"x")
        log = reopened(log, tmp_path)
        recorded(log, bus, "a/b", "a/b")
        log = reopened(log, tmp_path)
        recorded(log, bus, "a/b")
    assert numbers(log) == [1, 2, 3, 9, 10, 11]
    publisher, chain = log.rows(0, 1)[0][2:4]
    [(after, *gap, _, away)] = log.gaps(0, 100)
    assert (after, gap, away) == (2, [publisher, chain, 4, 8, 5], True)


def test_what_is_in_the_log_is_not_recorded_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with shoal.connect("inproc://marks-again") as bus:
        recorded(log, bus, "a/b")
        publisher, chain = log.rows(0, 1)[0][2:4]
        # As if it had heard two more before it was killed, which now come again.
        log.append(publisher, chain, [(number, 0, record("a/b", b"x")) for number in (2, 3)])
        log = reopened(log, tmp_path)
        [recorder] = recorded(log, bus, *["a/b"] * 4)
        assert (recorder.recorded[0], recorder.repeated) == (2, 2)
    assert numbers(log) == [1, 2, 3, 4, 5]
    assert log.gaps(0, 100) == []


def test_recorders_of_two_patterns_do_not_hide_each_others_messages(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    patterns = ("a/b", "a/>")
    with shoal.connect("inproc://marks-two") as bus:
        recorded(log, bus, "a/b", "a/c", patterns=patterns)
        publisher, chain = log.rows(0, 1)[0][2:4]
        # One recorder got further than the other before it was killed.
        log.append(publisher, chain, [(4, 0, record("a/c", b"x"))])
        log = reopened(log, tmp_path)
        recorders = recorded(log, bus, "a/b", "a/c", "a/b", "a/c", patterns=patterns)
        assert [recorder.repeated for recorder in recorders] == [0, 1]
    assert sorted(number or 0 for number in numbers(log)) == [1, 2, 3, 4, 5, 6]
    assert log.gaps(0, 100) == []


def test_rows_that_were_written_in_are_no_marks(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    stage(log, "s", "a/b", [b"x"] * 9)
    log.commit("q", 1, ["s"])
    Lanes(log, ["a/>"])
    assert log.marks() == (9, [])


def test_who_records_is_asked_for_by_its_place(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with shoal.connect("inproc://marks-place") as bus:
        subscription = bus._connection.node.open_subscription("a/>")
        with pytest.raises(shoal.ConfigError, match="at is 1, and there are 1 patterns"):
            Recorder(log, subscription, lanes=Lanes(log, ["a/>"]), at=1)


@pytest.mark.parametrize("seed", range(6))
def test_marks_are_the_same_after_a_restart(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    log = open_log(tmp_path, segment_bytes=16 << 10)
    patterns = ("t/0", "t/>")
    Lanes(log, patterns)
    expected: dict[tuple[int, int, int], int] = {}
    reached: dict[tuple[int, int], int] = {}
    for _ in range(400):
        chain, at = (dice.randrange(5), dice.randrange(3)), dice.randrange(2)
        reached[chain] = reached.get(chain, 0) + dice.randrange(1, 4)
        row = (reached[chain], 0, record(f"t/{at}", bytes(dice.randrange(300))))
        log.append(*chain, [row], pattern=patterns[at])
        expected[crc32c(patterns[at].encode()), *chain] = reached[chain]
        if dice.random() < 0.03:
            # Without recorders a segment may end, too.
            if dice.random() < 0.5:
                log = reopened(log, tmp_path)
                log.seal()
            log = reopened(log, tmp_path)
            Lanes(log, patterns)
            assert {mark[:3]: mark[3] for mark in log.marks()[1]} == expected
    assert len(log.segments()) > 3


def test_what_a_recorder_without_room_throws_away_is_a_gap_and_little_is_kept(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with shoal.connect("inproc://marks-skipped") as bus:
        subscription = bus._connection.node.open_subscription("a/>", queue_bytes_max=10_000)
        recorder = Recorder(log, subscription, lanes=Lanes(log, ("a/>",)), at=0)
        bus.publish("a/b", b"x")
        recorder.skip(0.0)
        recorder.run(0.01)
        for _ in range(10):
            bus.publish("a/b", bytes(1000))
        recorder.skip(0.0)
        bus.publish("a/b", b"x")
        recorder.skip(0.0)
        subscription.close()
        assert recorder.run(1.0) is False
    log.sync()
    assert numbers(log) == [1, 12]
    publisher, chain = log.rows(0, 1)[0][2:4]
    [(after, *gap, _, away)] = log.gaps(0, 100)
    assert (after, gap, away) == (0, [publisher, chain, 2, 11, 10], False)
