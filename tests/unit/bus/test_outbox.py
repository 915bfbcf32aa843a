"""The outbox by itself: what it gives to a store, and what it has after its program was killed."""

import itertools
from pathlib import Path

from shoal._core import Log, split_rows
from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import Chain

CHAIN = 5


def open_outbox(path: Path) -> Outbox:
    """With one message a request, a few a segment, and always time to note what is stored."""
    log = Log(path, store_id=7, incarnation=bytes(16), segment_bytes=4096)
    ticks = itertools.count(0, 10)
    return Outbox(log, path, 1 << 30, rows_together=1, clock=lambda: next(ticks))


def fill(path: Path, count: int) -> None:
    box = open_outbox(path)
    for _ in range(count):
        box.add("a", bytes(1000), bytes_max=2000)
    box.sync()
    box.close()


def send(chain: Chain) -> list[int]:
    numbers = []
    while (request := chain.poll_send()) is not None:
        numbers += [number for number, _ in split_rows(request["rows"])]
    return numbers


def test_entries_go_in_order_and_from_the_disk_when_they_are_stored(tmp_path: Path) -> None:
    fill(tmp_path, 6)
    box = open_outbox(tmp_path)
    chain = box.chain(CHAIN)
    assert send(chain) == [1, 2, 3, 4]
    chain.on_stored(2)
    assert send(chain) == [5, 6]
    chain.on_stored(6)
    assert box.waiting == 0
    box.close()
    again = open_outbox(tmp_path)
    assert send(again.chain(CHAIN)) == []
    again.close()


def test_it_goes_on_behind_what_the_store_has_and_its_disk_did_not_know_of(tmp_path: Path) -> None:
    # A program that is killed leaves it so: nothing says that the store has the first 15.
    fill(tmp_path, 20)
    box = open_outbox(tmp_path)
    chain = box.chain(CHAIN)
    requests = send(chain)
    assert requests == [1, 2, 3, 4]
    for _ in requests:
        chain.on_stored(15)
    assert send(chain) == [16, 17, 18, 19], "though the segments before are gone"
    chain.on_stored(19)
    assert send(chain) == [20]
    box.close()
