"""The outbox by itself: what it gives to a store, and what it has after its program was killed."""

from pathlib import Path

import pytest

from shoal._core import split_rows
from shoal.bus import outbox as module
from shoal.bus.outbox import Outbox
from shoal.bus.store_chain import Chain

CHAIN = 5


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message a request, a few a segment, and what is stored is noted at once."""
    monkeypatch.setattr(module, "ROWS_TOGETHER", 1)
    monkeypatch.setattr(module, "SEGMENT_BYTES", 4096)
    monkeypatch.setattr(module, "NOTE_EVERY_S", 0.0)


def fill(path: Path, count: int) -> None:
    box = Outbox(path, 1 << 30)
    for _ in range(count):
        box.add("a", bytes(1000), bytes_max=2000)
    box.sync()
    box.close()


def send(chain: Chain) -> list[int]:
    numbers = []
    while (request := chain.poll_send()) is not None:
        numbers += [number for number, _ in split_rows(request["rows"])]
    return numbers


def test_entries_go_in_order_and_from_the_disk_when_they_are_stored(small: None, tmp_path: Path) -> None:
    fill(tmp_path, 6)
    box = Outbox(tmp_path, 1 << 30)
    chain = box.chain(CHAIN)
    assert send(chain) == [1, 2, 3, 4]
    chain.on_stored(2)
    assert send(chain) == [5, 6]
    chain.on_stored(6)
    assert box.waiting == 0
    box.close()
    again = Outbox(tmp_path, 1 << 30)
    assert send(again.chain(CHAIN)) == []
    again.close()


def test_it_goes_on_behind_what_the_store_has_and_its_disk_did_not_know_of(
    small: None, tmp_path: Path
) -> None:
    # A program that is killed leaves it so: nothing says that the store has the first 15.
    fill(tmp_path, 20)
    box = Outbox(tmp_path, 1 << 30)
    chain = box.chain(CHAIN)
    requests = send(chain)
    assert requests == [1, 2, 3, 4]
    for _ in requests:
        chain.on_stored(15)
    assert send(chain) == [16, 17, 18, 19], "though the segments before are gone"
    chain.on_stored(19)
    assert send(chain) == [20]
    box.close()
