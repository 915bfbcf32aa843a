"""Turns are had in the order they were asked for, and waited for as long as somebody gets done."""

import threading

import pytest

from shoal.errors import HistoryError
from shoal.history.slots import Turns


def never() -> None:
    """Whoever waits has a reason to."""


def test_others_wait_in_the_order_they_came() -> None:
    turns, order = Turns("rows", 1, 60.0), []

    def take(number: int) -> None:
        with turns.turn(never):
            order.append(number)

    with turns.turn(never):
        waiting = []
        for number in range(5):
            waiting.append(threading.Thread(target=take, args=(number,)))
            waiting[-1].start()
            while len(turns._line) < number + 2:
                waiting[-1].join(0.01)
    for thread in waiting:
        thread.join(20.0)
    assert order == [0, 1, 2, 3, 4]


def test_who_waits_is_refused_once_nobody_gets_done() -> None:
    turns = Turns("long rows", 1, 0.05)
    with (
        turns.turn(never),
        pytest.raises(HistoryError, match="1 long rows are being read already, and none got done"),
        turns.turn(never),
    ):
        pytest.fail("there was no turn")
    with turns.turn(never):
        assert len(turns._line) == 1


def test_patience_begins_anew_whenever_somebody_gets_done(monkeypatch: pytest.MonkeyPatch) -> None:
    turns, now, ahead = Turns("rows", 1, 1.0), 0.0, object()
    monkeypatch.setattr("shoal.history.slots.monotonic", lambda: now)
    turns._line.append(ahead)

    def others_get_done() -> None:
        """Called while it waits: somebody gets done whenever nearly all patience is gone."""
        nonlocal now
        now += 0.9
        turns._done += 1
        if now > 5:
            turns._line.remove(ahead)

    with turns.turn(others_get_done):
        pass
    assert now > 5


def test_what_ends_the_waiting_leaves_the_line() -> None:
    turns = Turns("rows", 1, 60.0)

    def closing() -> None:
        raise HistoryError("CLOSED", "the store is closing", {})

    with (
        turns.turn(never),
        pytest.raises(HistoryError, match="closing"),
        turns.turn(closing),
    ):
        pytest.fail("there was no turn")
    assert turns._line == []
