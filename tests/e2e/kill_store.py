"""Kills a store again and again, as `kill -9` does, and looks whether anything it had promised is missing.

    python tests/e2e/kill_store.py --cycles 200

One process appends, stages and commits, and writes down, after each sync, what is durable. Another kills it
at a random moment, opens the directory and compares. A failure prints the cycle and the seed.
"""

import argparse
import json
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from shoal._core import Log, StagedRows, encode_record
from shoal.history import incoming

SEGMENT_BYTES = 128 << 10


def open_log(directory: Path) -> Log:
    """The store's log, with short segments."""
    return Log(
        directory,
        store_id=secrets.randbits(64),
        incarnation=os.urandom(16),
        holder=f"process {os.getpid()}",
        segment_bytes=SEGMENT_BYTES,
    )


def body_of(offset: int) -> bytes:
    """What the message at an offset has to be: its length depends on it, too."""
    return b"%d:" % offset + bytes([offset % 251]) * (offset * 7919 % 400)


def records(first: int, count: int) -> list[tuple[int, int, bytes]]:
    return [
        (at + 1, 10**15 + at, encode_record(f"t/{at % 11}", body_of(at)))
        for at in range(first, first + count)
    ]


def stage(log: Log, name: str, first: int, count: int) -> None:
    bodies = [body_of(at) for at in range(first, first + count)]
    batch = pa.record_batch(
        {
            "topic": [f"t/{at % 11}" for at in range(first, first + count)],
            "body": pa.array(bodies, pa.binary()),
        }
    )
    log.stage(name, StagedRows(timestamp_us=1, default_topic=None, **incoming.columns_of(batch)))


def write(directory: Path, promises: Path, seed: int) -> None:
    """Append until killed. What is promised is written down after it is durable."""
    dice = random.Random(seed)
    log = open_log(directory)
    descriptor = os.open(promises, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def promise(**what: Any) -> None:
        os.write(descriptor, json.dumps(what).encode() + b"\n")

    promise(opened=log.end)
    commits = max((number for _, number, _, _ in log.scopes()), default=0)
    while True:
        what = dice.random()
        if what < 0.6:
            log.append(7, 1, records(log.end, dice.randrange(1, 60)))
            if dice.random() < 0.5:
                promise(end=log.sync())
        elif what < 0.75:
            end = log.end
            count = dice.randrange(1, 40)
            stage(log, "s", end, count)
            commits += 1
            first, last, repeated = log.commit("q", commits, ["s"])
            promise(end=last, commit=commits, first=first, repeated=repeated)
        elif what < 0.85:
            log.put("key", b"%d" % log.end)
            promise(end=log.sync(), key=True)
        elif what < 0.9:
            floor, _ = log.trim(max(log.durable_end - 3000, 0))
            promise(floor=floor)
        elif what < 0.97:
            log.build_next_index()
        else:
            log.mark()


def check(directory: Path, promises: Path) -> tuple[int, int]:
    """Compare what is there with what was promised; the floor and the end."""
    lines = [json.loads(line) for line in promises.read_text().splitlines()]
    end = max((line["end"] for line in lines if "end" in line), default=0)
    floor = max((line["floor"] for line in lines if "floor" in line), default=0)
    commits = {line["commit"]: (line["first"], line["end"]) for line in lines if "commit" in line}
    log = open_log(directory)
    try:
        assert log.end >= end, f"promised up to {end}, and there is {log.end}"
        assert log.floor >= floor, f"promised a floor of {floor}, and it is {log.floor}"
        rows = log.rows(log.floor, 1 << 60, rows_max=10_000_000)
        assert [row[0] for row in rows] == list(range(log.floor, log.end)), "an offset is missing, or twice"
        for row in rows:
            wanted = encode_record(f"t/{row[0] % 11}", body_of(row[0]))
            assert row[6] == wanted, f"offset {row[0]} is another message"
        assert rows == log.rows(log.floor, 1 << 60, rows_max=10_000_000), "read twice, it differs"
        if commits:
            number = max(commits)
            last = next(scope for scope in log.scopes() if scope[0] == "q")
            assert last[1] >= number, f"commit {number} is forgotten"
            if last[1] == number:
                assert log.commit("q", number, []) == (*commits[number], True), "a repeated commit differs"
        return log.floor, log.end
    finally:
        log.close()


def cycle(directory: Path, seed: int, patience_s: float) -> tuple[int, int]:
    """Start a writer, kill it, look."""
    dice = random.Random(seed)
    promises = directory.with_name("promises")
    with subprocess.Popen(
        [
            sys.executable,
            __file__,
            "--write",
            str(directory),
            "--promises",
            str(promises),
            "--seed",
            str(seed),
        ]
    ) as writer:
        try:
            opened = promises.stat().st_size if promises.exists() else 0
            until = time.monotonic() + 180
            while not (promises.exists() and promises.stat().st_size > opened):
                assert writer.poll() is None, f"the writer ended with {writer.returncode}"
                assert time.monotonic() < until, "the writer does not open its log"
                time.sleep(0.01)
            time.sleep(dice.random() * patience_s)
            assert writer.poll() is None, f"the writer ended with {writer.returncode}"
        finally:
            writer.send_signal(signal.SIGKILL)
    return check(directory, promises)


def run(cycles: int, patience_s: float = 0.3, seed: int | None = None) -> tuple[int, int]:
    """Kill a store so many times; where history begins and ends in the end."""
    seed = secrets.randbits(32) if seed is None else seed
    reached = (0, 0)
    with tempfile.TemporaryDirectory(prefix="shoal-kill-") as folder:
        for number in range(cycles):
            try:
                reached = cycle(Path(folder) / "data", seed + number, patience_s)
            except AssertionError as error:
                raise AssertionError(f"cycle {number}, --seed {seed}: {error}") from error
    return reached


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=200)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--promises", type=Path)
    options = parser.parse_args()
    if options.write is not None:
        write(options.write, options.promises, options.seed)
        return
    began = time.monotonic()
    floor, end = run(options.cycles, seed=options.seed)
    print(f"{options.cycles} kills, nothing lost: offsets {floor} to {end}, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
