"""A router that is killed under load; `make kill-routers` does it, and worse, a few hundred times."""

import kill_routers
import lab
import pytest
from kill_routers import Findings, Plan, judge


@pytest.mark.skipif(lab.problem() is not None, reason=str(lab.problem()))
def test_nothing_is_doubled_or_out_of_order_when_one_of_two_routers_is_killed() -> None:
    (found,) = kill_routers.run([Plan("lans", "kill", "steady", short=False, late=False)], 1)
    assert found.read > 0
    assert (found.doubled, found.disordered) == ([], [])


def record(sent: int, *, confirmed: bool = False) -> dict:
    return {"kind": "short", "publisher": 7, "sent": sent, "confirmed": confirmed}


def reading(runs: list[list[int]], told: list[tuple[int, int, int]] = [], **more: object) -> dict:  # noqa: B006
    return {"runs": {"7": runs}, "told": told, "doubled": [], "disordered": [], "selector": None, **more}


def kinds(records: list[dict], *readings: dict) -> list[str]:
    found: Findings = judge(records, list(readings))
    return found.kinds


def test_the_checkers_find_heads_and_tails_that_nobody_was_told_of() -> None:
    assert kinds([record(5)], reading([[1, 5]])) == []
    assert kinds([record(5)], reading([[2, 5]])) == ["silent"]
    assert kinds([record(5)], reading([[1, 4]])) == ["silent"]
    assert kinds([record(5)], {**reading([]), "runs": {}}) == ["silent"]
    assert kinds([record(5)], reading([[1, 2], [4, 5]], [(7, 3, 3)])) == []
    assert kinds([record(5)], reading([[1, 2]], [(7, 0, 0)])) == [], "it may not know which"
    assert kinds([record(5)], reading([[1, 2]], [(8, 3, 5)])) == ["silent"], "of another publisher"


def test_the_checkers_find_confirmations_that_were_not_true() -> None:
    assert kinds([record(5, confirmed=True)], reading([[1, 5]])) == []
    assert kinds([record(5, confirmed=True)], reading([[1, 4]], [(7, 5, 5)])) == ["false_success"]


def test_the_checkers_look_at_late_readers_between_their_first_and_their_last_message() -> None:
    late = reading([[3, 3], [5, 5]], selector="odd = 1")
    assert kinds([record(9)], reading([[1, 9]]), late) == []
    assert kinds([record(9)], reading([[1, 9]]), reading([[3, 3], [7, 7]])) == ["silent"]
    assert kinds([record(9)], reading([[1, 9]]), reading([], doubled=[(7, 3)])) == ["doubled"]
    assert kinds([record(9)], reading([[1, 9]], disordered=[(7, 3)])) == ["disordered"]
