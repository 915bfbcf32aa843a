"""Losses wait for room in the log, in their order and within their bound."""

import pytest

from shoal.bus.events import EventsDropped, MemberSlow, MessagesLost
from shoal.errors import StoreFullError
from shoal.store.losses import Losses, loss_of


class Notes:
    """A log that has room for so many gaps."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.gaps: list[tuple[int, int, int | None, int | None, int]] = []

    def gap(self, publisher: int, chain: int, first: int | None, last: int | None, count: int, /) -> None:
        if len(self.gaps) >= self.room:
            raise StoreFullError("the disk is full")
        self.gaps.append((publisher, chain, first, last, count))


def test_losses_are_noted_in_their_order_once_there_is_room() -> None:
    losses, notes = Losses(), Notes(room=1)
    losses.add((7, 1, 5, 6, 2))
    losses.add((8, 1, None, None, 3))
    with pytest.raises(StoreFullError):
        losses.note(notes)
    assert losses.waiting == 1
    notes.room = 10
    losses.note(notes)
    losses.note(notes)
    assert notes.gaps == [(7, 1, 5, 6, 2), (8, 1, None, None, 3)]
    assert losses.waiting == 0


def test_what_is_beyond_the_bound_is_told_and_counted_in_one_record(caplog: pytest.LogCaptureFixture) -> None:
    losses, notes = Losses(most=2), Notes(room=10)
    for publisher in range(1, 6):
        losses.add((publisher, 1, 1, 10, 10))
    assert losses.waiting == 5
    assert caplog.text.count("2 loss records wait for room in the log") == 1
    losses.note(notes)
    assert notes.gaps == [(1, 1, 1, 10, 10), (2, 1, 1, 10, 10), (0, 0, None, None, 30)]
    assert losses.waiting == 0


def test_events_that_nobody_took_are_a_gap_of_which_nothing_is_known() -> None:
    assert loss_of(EventsDropped(17)) == (0, 0, None, None, 0)
    lost = MessagesLost(node=3, publisher=7, chain=1, first=5, last=6, segments=0)
    assert loss_of(lost) == (7, 1, 5, 6, 2)
    assert loss_of(MemberSlow(3)) is None
