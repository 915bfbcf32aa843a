"""The log as Python has it: what is appended, what is durable, what is read back."""

import itertools
import secrets
from pathlib import Path

import pytest

import shoal
from shoal._core import Log, Recorder, Turn, encode_record
from shoal.errors import StoreCorruptError, StoreLockedError, StoreRefusedError, TrimmedError


def open_log(path: Path, **options: int) -> Log:
    """A log with small segments."""
    options.setdefault("segment_bytes", 64 << 10)
    return Log(
        path, store_id=secrets.randbits(64), incarnation=secrets.token_bytes(16), holder="a test", **options
    )


def record(topic: str, body: bytes) -> bytes:
    """A message as it travels, with nothing but topic and body."""
    return encode_record(topic, body)


def append(log: Log, topic: str, *bodies: bytes) -> tuple[int, int]:
    """Append messages whose numbers go on from the log's end."""
    end = log.end
    records = [(end + at, 1_000_000 + end + at, record(topic, body)) for at, body in enumerate(bodies)]
    return log.append(0xABC, 3, records)


def bodies(log: Log, *patterns: str, start: int = 0) -> list[bytes]:
    """The bodies of what can be read."""
    rows = log.rows(start, 1 << 60, list(patterns), rows_max=1_000_000)
    return [row[6][4 + row[6][3] :] for row in rows]


def test_messages_are_readable_once_they_are_durable_and_stay_so(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    assert append(log, "a/b", b"one", b"two") == (0, 2)
    assert bodies(log) == []
    assert log.sync() == 2
    assert bodies(log) == [b"one", b"two"]
    incarnation = log.incarnation
    log.close()
    log = open_log(tmp_path)
    assert (log.incarnation, log.end, log.durable_end) == (incarnation, 2, 2)
    (first, *_), (_, _, publisher, chain, number, timestamp, _) = log.rows(0, 10)
    assert (first, publisher, chain, number, timestamp) == (0, 0xABC, 3, 1, 1_000_001)


def test_many_segments_read_as_one(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=16 << 10)
    expected = []
    for number in range(300):
        body = b"%d" % number * 100
        append(log, f"t/{number % 3}", body)
        expected.append(body)
    log.sync()
    assert len(log.segments()) > 3
    assert bodies(log) == expected
    while log.build_next_index():
        pass
    assert bodies(log) == expected
    assert bodies(log, "t/1") == expected[1::3]
    assert [topic[:2] for topic in log.topics(0, 300, ["t/*"])] == [("t/0", 100), ("t/1", 100), ("t/2", 100)]
    parts = log.split(0, 300, [], 4)
    assert parts[0][0] == 0
    assert parts[-1][1] == 300
    assert all(left[1] == right[0] for left, right in itertools.pairwise(parts))


def test_a_second_store_on_the_directory_is_refused_by_name(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(StoreLockedError, match="belongs to a test"):
        open_log(tmp_path)
    log.close()
    open_log(tmp_path).close()


def test_state_and_gaps_survive(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.put("hold/a", b"12")
    log.put("hold/b", b"34")
    log.put("hold/a", None)
    append(log, "a", b"x")
    log.gap(7, 1, 5, None, 9)
    log.close()
    log = open_log(tmp_path)
    assert log.items("hold/") == [("hold/b", b"34")]
    assert log.get("hold/a") is None
    assert [gap[:6] for gap in log.gaps(0, 10)] == [(0, 7, 1, 5, None, 9)]


def test_history_below_the_floor_is_trimmed(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=16 << 10)
    for number in range(100):
        append(log, "t", b"%d" % number * 400)
    log.sync()
    floor, removed = log.trim(50)
    assert 0 < floor <= 50
    assert removed
    assert log.floor == floor
    with pytest.raises(TrimmedError, match=f"history begins at {floor}") as trimmed:
        log.rows(0, 100)
    assert trimmed.value.floor == floor
    assert len(bodies(log, start=floor)) == 100 - floor


def test_compaction_keeps_what_survives_at_its_offset(tmp_path: Path) -> None:
    log = open_log(tmp_path, segment_bytes=16 << 10)
    for number in range(100):
        append(log, f"t/{number % 2}", b"%d" % number * 200)
    log.sync()
    first = log.segments()[0]
    assert log.compact(first["number"], ["t/0"])
    assert not log.compact(first["number"], ["t/0"]), "nothing is left to remove"
    offsets = [row[0] for row in log.rows(0, first["end"])]
    assert offsets == [offset for offset in range(first["end"]) if offset % 2 == 1]
    log.close()
    log = open_log(tmp_path, segment_bytes=16 << 10)
    assert [row[0] for row in log.rows(0, first["end"])] == offsets


def test_damage_is_named_and_nothing_is_changed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(20):
        append(log, "t", b"%d" % number * 100)
        log.sync()
    log.close()
    path = tmp_path / "0000000001.log"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)
    with pytest.raises(StoreCorruptError, match=r"0000000001.log is damaged from byte \d+"):
        open_log(tmp_path)
    assert path.read_bytes() == content


def test_a_commit_of_what_was_never_staged_is_refused(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with pytest.raises(StoreRefusedError, match='there is no staging "x"'):
        log.commit("q", 1, ["x"])
    assert log.commit("q", 1, []) == (0, 0, False)
    assert log.commit("q", 1, ["x"]) == (0, 0, True)
    assert log.commit("q", 0, ["x"]) == (-1, -1, True)


def test_a_recorder_appends_what_a_subscription_receives(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    with shoal.connect("inproc://recorder") as bus:
        subscription = bus._connection.node.open_subscription("prices/>")
        recorder = Recorder(log, subscription, unless=["prices/secret/*"])
        bus.publish("prices/ACME", b"bytes")
        bus.publish("prices/ACME", "text", properties={"region": "EU"})
        bus.publish("prices/secret/x", b"no")
        bus.publish("prices/ACME", {"bid": 1})
        bus.publish("prices/ACME", 3.5, priority=7)
        subscription.close()
        assert recorder.run(1.0) is False
        assert recorder.recorded[0] == 4
    log.sync()
    records = [row[6] for row in log.rows(0, 10)]
    assert records[0] == record("prices/ACME", b"bytes")
    assert records[1].endswith(b"text")
    assert b"region" in records[1]
    assert len(records) == 4


def test_a_log_whose_state_is_full_takes_values_in_place_of_others(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.put("term", bytes(8))
    turn = Turn()
    turn.put("long", bytes(log.state_bytes[1]))
    log.append_turn(turn)
    log.put("term", bytes(8))
    for key, size in (("term", 9), ("another", 1)):
        with pytest.raises(StoreRefusedError, match="state_bytes_max"):
            log.put(key, bytes(size))
    segments = len(log.segments())
    for _ in range(100):
        append(log, "t", bytes(100))
    assert len(log.segments()) <= segments + 1, "a long state does not begin a segment with each message"
    log.close()
    log = open_log(tmp_path)
    log.put("term", bytes(8))
    assert log.get("long") is not None
