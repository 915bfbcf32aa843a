"""The kernel writes what the format says: a plain reader of the documented bytes finds the same."""

import random
from pathlib import Path

import pytest
from log_twin import LogTwin, crc32c
from staging import commit_below_and_above_a_floor, stage
from test_log import open_log, record

from shoal._core import Lanes, Log, Turn
from shoal.testing import rows


def test_the_checksum_is_the_one_of_the_standard() -> None:
    assert crc32c(b"123456789") == 0xE3069283


ACTIONS = {
    "append": 50, "gap": 5, "put": 8, "remove": 3, "trim": 2, "compact": 5, "published": 3, "sync": 14,
    "stage": 8, "discard": 1, "commit": 5, "forget": 2, "turn": 20,
}  # fmt: skip


#: What is recorded.
PATTERNS = ("t/0", "t/>")


def some_turn(log: Log, dice: random.Random) -> Turn:
    """What a store might do at once; without messages it is a frame of changes."""
    turn, name = Turn(), f"q{dice.randrange(3)}"
    first = dice.randrange(log.end + 1)
    turn.done(name, 2, 20, [(first, first + dice.randrange(1, 9)), (first + 20, first + 22)])
    given = first + dice.randrange(40)
    turn.delivered(name, given, given + dice.randrange(1, 5), dice.randrange(1, 5), dice.randrange(9))
    if dice.random() < 0.1:
        turn.forget(name)
    if dice.random() < 0.7:
        number = log.chain(5, 5) + 1
        messages = [(number + at, 7, rows.record(f"t/{at}", dice.randbytes(30))) for at in range(4)]
        content = rows.encode(5, 5, messages)
        mark = number + dice.randrange(3) - 1
        turn.push_rows(content, mark, dice.choice((None, "t/2")))
        turn.chain(5, 5, number + 3, dice.randrange(9), dice.random() < 0.5, dice.randrange(3))
        turn.came(name, 4, 400)
    return turn


def act(log: Log, dice: random.Random, step: int) -> None:
    """One thing that a store does."""
    kind = dice.choices(tuple(ACTIONS), tuple(ACTIONS.values()))[0]
    if kind == "append":
        count = dice.randrange(1, 20)
        records = [
            (
                dice.choice((None, log.end + at + 1, dice.randrange(1, 2**40))),
                dice.choice((0, 10**15 + dice.randrange(10**9))),
                record(f"t/{dice.randrange(5)}", dice.randbytes(dice.randrange(200))),
            )
            for at in range(count)
        ]
        pattern = (None, *PATTERNS)[step % 3]
        log.append(dice.choice((1, 2, 2**64 - 1)), dice.randrange(3), records, pattern=pattern)
    elif kind == "gap":
        log.gap(
            dice.randrange(9), 1, dice.choice((None, 5)), dice.choice((None, 7)), step, away=step % 2 == 0
        )
    elif kind == "put":
        log.put(f"k{dice.randrange(4)}", dice.randbytes(dice.randrange(30)))
    elif kind == "remove":
        log.put(f"k{dice.randrange(4)}", None)
    elif kind == "trim":
        log.trim(log.end // 4)
    elif kind == "compact":
        sealed = [segment["number"] for segment in log.segments()[:-1] if segment["sealed"]]
        if sealed:
            log.compact(dice.choice(sealed), [f"t/{dice.randrange(5)}"])
    elif kind == "stage":
        bodies = [dice.randbytes(dice.randrange(100)) for _ in range(dice.randrange(1, 9))]
        stage(log, f"s{dice.randrange(3)}", f"s/{dice.randrange(3)}", bodies)
    elif kind in ("discard", "commit"):
        stagings = [staging[0] for staging in log.stagings() if dice.random() < 0.7]
        if kind == "discard":
            log.discard(stagings)
        else:
            log.commit(dice.choice((None, "q", "r")), step, stagings)
    elif kind == "turn":
        log.append_turn(some_turn(log, dice))
    elif kind == "forget":
        log.forget("r")
    elif kind == "published":
        log.set_published(log.end)
    else:
        log.sync()


@pytest.mark.parametrize("seed", range(4))
def test_the_twin_reads_what_the_kernel_wrote(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    log = open_log(tmp_path, segment_bytes=16 << 10)
    Lanes(log, PATTERNS)
    for step in range(250):
        act(log, dice, step)
    log.sync()
    floor = log.floor
    found = log.rows(floor, 1 << 60, rows_max=1_000_000)
    readers, chain = log.readers(""), (log.chain(5, 5), log.chain_owner(5, 5))
    gaps = [(gap[0] + 1, *gap[1:6], gap[7]) for gap in log.gaps(0, 1 << 60)]
    values = dict(log.items(""))
    scopes = {scope: (number, first, end) for scope, number, first, end in log.scopes()}
    unpublished = log.unpublished()
    stagings = {staging[0]: staging[1] for staging in log.stagings()}
    incarnation, end = log.incarnation, log.end
    log.close()
    twin = LogTwin(tmp_path)
    assert [
        (row.offset, row.stored_us, row.publisher, row.chain, row.number, row.timestamp_us, row.record)
        for row in twin.rows
        if row.offset >= floor
    ] == found
    assert {
        name: (reader.came, reader.gone, reader.delivered_runs) for name, reader in twin.state.readers.items()
    } == {name: (came, gone, delivered) for name, _, _, came, gone, delivered in readers}
    for name, base, _, _, _, _ in readers:
        done = twin.state.readers[name].done
        assert base == next(offset for offset in range(len(done) + 1) if offset not in done)
    assert twin.state.chains[5, 5][::3] == chain
    assert twin.gaps == gaps
    assert (twin.state.values, twin.state.floor) == (values, floor)
    assert (twin.state.scopes, twin.state.unpublished) == (scopes, unpublished)
    assert {
        name: sum(frame[2] for frame in frames) for name, frames in twin.state.stagings.items()
    } == stagings
    assert (twin.incarnation.hex(), twin.end) == (incarnation, end)
    assert len(twin.files) > 2
    # What a checkpoint says of marks is all that is known of them before the messages behind it are read.
    covered, marks = open_log(tmp_path, segment_bytes=16 << 10).marks()
    assert (twin.state.covered, [(*key, *mark) for key, mark in sorted(twin.state.marks.items())]) == (
        covered,
        marks,
    )
    assert marks
    assert sorted(twin.state.lanes) == sorted(crc32c(pattern.encode()) for pattern in PATTERNS)


def test_a_commit_may_refer_to_rows_below_the_floor_that_are_gone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    floor = commit_below_and_above_a_floor(log, log.commit)
    # The second segment stays for the last commit, and so does the third, which refers to the first.
    assert log.trim(floor) == (floor, [1])
    log.close()
    twin = LogTwin(tmp_path)
    assert twin.gone == [(2, 5)]
    assert [row.offset for row in twin.rows if row.offset >= floor] == [6, 7, 8, 9]
