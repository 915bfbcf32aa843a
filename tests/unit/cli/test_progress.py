from io import StringIO

import pytest
from rich.console import Console

from shoal.cli import progress
from shoal.cli.progress import Pace, Progress, RoundPace, duration


def test_the_time_left_follows_from_the_share_done() -> None:
    pace = Pace(100.0)
    assert pace.line(101.0) == "starting"
    pace.tell("copying", 0.25)
    assert pace.line(110.0) == "copying, about 30 s left"
    pace.tell("copying", 1.0)
    assert pace.line(140.0) == "copying"


def test_without_a_share_the_time_so_far_is_shown_after_two_seconds() -> None:
    pace = Pace(100.0)
    pace.tell("fitting")
    assert pace.line(101.9) == "fitting"
    assert pace.line(112.0) == "fitting, 12 s so far"
    pace.tell("fitting", 1.0)
    assert pace.line(112.0) == "fitting", "the end needs no estimate"


def test_rounds_estimate_the_end_once_the_first_is_over() -> None:
    pace = Pace(0.0)
    rounds = RoundPace(pace, 5)
    rounds.follow(0, "shoal", "", 0.0)
    assert pace.line(1.0) == "warming up, shoal"
    for at, contestant in ((10.0, "shoal"), (12.0, "zmq")):
        rounds.follow(1, contestant, "", at)
        rounds.follow(1, contestant, "fast", at + 2.0)
    assert pace.line(14.0) == "round 1 of 5, zmq: fast, 4 s so far"
    rounds.follow(2, "shoal", "", 14.0)
    assert pace.line(14.0) == "round 2 of 5, shoal, about 16 s left"
    rounds.follow(2, "shoal", "fast", 16.0)
    assert pace.line(16.0) == "round 2 of 5, shoal: fast, about 14 s left"


def test_a_round_number_that_falls_begins_another_part() -> None:
    pace = Pace(0.0)
    rounds = RoundPace(pace, 2)
    rounds.follow(1, "a", "1", 2.0)
    rounds.follow(2, "a", "", 2.0)
    rounds.follow(2, "a", "1", 4.0)
    rounds.follow(1, "b", "", 100.0)
    assert pace.line(101.0) == "round 1 of 2, b"
    rounds.follow(1, "b", "1", 110.0)
    rounds.follow(2, "b", "", 110.0)
    assert pace.line(110.0) == "round 2 of 2, b, about 10 s left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "1 s"), (45.0, "45 s"), (200.0, "3 min"), (7200.0, "2 h")]
)
def test_a_duration_is_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_a_command_looks_at_is_in_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    written = StringIO()
    with Progress("fitting", Console(file=written), look=lambda shown: shown.tell("3 of 4 tasks", 0.75)):
        while "3 of 4 tasks, about" not in written.getvalue():
            pass


def test_lines_come_where_output_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    monkeypatch.setattr(progress, "EVERY_S", 0.001)
    written = StringIO()
    with Progress("reading", Console(file=written)) as shown:
        shown.tell("reading 1 of 2")
        while "reading 1 of 2" not in written.getvalue():
            pass
    assert set(written.getvalue().splitlines()) <= {"reading", "reading 1 of 2"}
