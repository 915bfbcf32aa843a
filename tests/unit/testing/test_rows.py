"""Rows in plain Python are those of the extension."""

import random

from shoal._core import Log, Turn
from shoal.testing import rows


def test_rows_come_back_as_they_were_put_in() -> None:
    dice = random.Random(1)
    messages = [
        (number, dice.randrange(1 << 50), rows.record("t", dice.randbytes(dice.randrange(300))))
        for number in sorted(dice.sample(range(1, 1 << 40), 50))
    ]
    found = list(rows.decode(rows.encode(9, 5, messages), 100))
    assert [(row.number, row.timestamp_us, row.record) for row in found] == messages
    assert [row.offset for row in found] == list(range(100, 150))


def test_the_extension_reads_them() -> None:
    log = Log.in_memory(store_id=1, incarnation=bytes(16), bytes_max=64 << 20, segment_bytes=1 << 20)
    record = rows.record("prices/A", b"body", priority=7, ttl_us=5_000_000, delay_us=3, group="g")
    turn = Turn()
    turn.push_rows(rows.encode(9, 5, [(3, 1000, record)]), 0)
    assert log.append_turn(turn) == (0, 1)
    log.sync()
    ((offset, _, publisher, chain, number, timestamp_us, content),) = log.rows(0, 10, ["prices/*"])
    assert (offset, publisher, chain, number, timestamp_us, content) == (0, 9, 5, 3, 1000, record)
    assert (rows.topic_of(content), rows.body_of(content)) == ("prices/A", b"body")
