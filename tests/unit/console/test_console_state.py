"""Tables in, deltas out: what a viewer has after any deltas is what the state has."""

import json
import random

import pytest

from shoal.console import state as state_module
from shoal.console.state import TURNS_KEPT, State


class Viewer:
    """What a browser does with events."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, dict[str, int]]] = {}

    def take(self, text: str) -> None:
        told = json.loads(text)
        for name, delta in told["tables"].items():
            rows = {} if told["whole"] else self.tables.get(name, {})
            for key in delta["gone"]:
                rows.pop(key, None)
            rows |= delta["set"]
            self.tables[name] = rows


def test_a_viewer_that_takes_deltas_has_what_the_state_has() -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    state, viewer, last = State("run", ("a", "b")), Viewer(), ""
    for _ in range(300):
        for name in ("a", "b"):
            if chance.random() < 0.6:
                keys = chance.sample(range(12), chance.randrange(12))
                state.replace(name, {str(key): {"value": chance.randrange(3)} for key in keys})
        state.commit()
        if chance.random() < 0.5:
            missed = state.since(last, ("a", "b"))
            for text in [state.snapshot(("a", "b"))] if missed is None else missed:
                viewer.take(text)
            last = state.id
            assert viewer.tables == {name: dict(state.rows(name)) for name in ("a", "b")}


def test_rows_that_did_not_change_are_not_sent_again() -> None:
    state = State("run", ("a",))
    state.replace("a", {"x": {"v": 1}, "y": {"v": 1}})
    state.commit()
    state.replace("a", {"x": {"v": 1}, "y": {"v": 2}})
    assert state.commit()
    (delta,) = state.since("run-1", ("a",)) or []
    assert json.loads(delta)["tables"]["a"]["set"] == {"y": {"v": 2}}
    state.replace("a", {"x": {"v": 1}, "y": {"v": 2}})
    assert not state.commit()


@pytest.mark.parametrize("last", ["", "other-1", "run-x", "run-99", "run--1", "1"])
def test_an_id_that_means_nothing_here_gets_whole_tables(last: str) -> None:
    state = State("run", ("a",))
    state.replace("a", {"x": {}})
    state.commit()
    assert state.since(last, ("a",)) is None


def test_deltas_that_are_not_kept_any_more_are_whole_tables() -> None:
    state = State("run", ("a",))
    for number in range(TURNS_KEPT + 2):
        state.replace("a", {"x": {"v": number}})
        state.commit()
    assert state.since("run-1", ("a",)) is None
    assert len(state.since("run-2", ("a",)) or []) == TURNS_KEPT


def test_a_table_has_a_bound_and_says_what_it_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "ROWS_MAX", 3)
    state = State("run", ("a",))
    state.replace("a", {str(number): {} for number in range(5)})
    state.commit()
    told = json.loads(state.snapshot(("a",)))["tables"]["a"]
    assert (len(told["set"]), told["omitted"]) == (3, 2)
