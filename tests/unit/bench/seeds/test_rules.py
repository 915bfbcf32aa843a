"""The study's rules, on made-up seconds."""

import pytest

from shoal_bench.seeds.cell import Cell
from shoal_bench.seeds.frame import Rig
from shoal_bench.seeds.interval import half_width, is_enough
from shoal_bench.seeds.rig import Measured, deltas
from shoal_bench.seeds.validity import Core, broken_rule, busy_before, memory_used

STAT = "cpu  1 1 1 1 1 1 1 1 0 0\ncpu0 10 0 10 70 10 0 0 0 0 0\ncpu1 50 0 25 0 0 5 20 0 0 0\n"


def test_a_core_tells_how_busy_it_was() -> None:
    before = Core(total=0, idle=0, softirq=0)
    assert Core.read(0, STAT).busy_since(before) == pytest.approx(0.2)
    assert Core.read(1, STAT).busy_since(before) == 1.0
    assert Core.read(1, STAT).softirq_since(before) == pytest.approx(0.2)
    with pytest.raises(ValueError, match="no core 7"):
        Core.read(7, STAT)


def test_a_cell_counts_only_if_the_node_is_the_bottleneck() -> None:
    assert broken_rule([0.99, 0.985], [0.7, 0.75]) is None
    assert broken_rule([0.99, 0.99], [0.8, 0.8]) == "load core 80% busy, at most 75%"
    assert broken_rule([0.9, 0.9], [0.5]) == "node 90% busy, at least 98%"
    assert broken_rule([], []) == "too short"


def test_memory_must_not_be_the_bottleneck() -> None:
    assert broken_rule([0.99], [0.5], memory=0.8) == "memory 80% in use, at most 75%"
    told = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    400 kB\n"
    assert memory_used(told) == pytest.approx(0.6)


def test_a_machine_with_other_work_breaks_a_rule_before_the_first_cell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at = iter(range(1000))

    def idle(idle_share: float) -> None:
        def read(_number: int) -> Core:
            total = next(at) * 100
            return Core(total=total, idle=int(total * idle_share), softirq=0)

        monkeypatch.setattr(Core, "read", read)

    idle(1.0)
    assert busy_before([0, 1], look_s=0.0) is None
    idle(0.9)
    assert busy_before([1], look_s=0.0) == "core 1 was 10% busy before the run, at most 2%"


def test_runs_are_added_until_the_interval_is_narrow() -> None:
    assert half_width([100.0, 100.0]) is None
    assert half_width([100.0, 101.0, 99.0]) == pytest.approx(57.7 * 0.01, rel=0.01)
    assert not is_enough([100.0, 101.0, 99.0])
    assert is_enough([100.0, 100.01, 99.99])
    assert is_enough([float(value) for value in range(100, 110)])


def test_samples_become_seconds_without_the_ends() -> None:
    counted = [0, 0, 40, 140, 240, 300, 300]
    samples = [
        {"at_s": float(at), "received": float(count), "cpu_s": count / 100}
        for at, count in enumerate(counted)
    ]
    seconds = deltas(samples)
    assert [second["received"] for second in seconds] == [100.0, 100.0]
    measured = Measured(Cell(experiment="e", name="c", r=3), "routed", tuple(seconds), 0.5, None)
    assert measured.processing_s == pytest.approx(0.01)
    assert measured.overall_msg_s == pytest.approx(400)


def test_a_cell_without_seconds_has_no_cost() -> None:
    reading = Measured(Cell(experiment="e", name="c"), "routed", (), 1.0, "too short").reading()
    assert (reading.figures["overall_msg_s"], reading.figures["processing_us"]) == (None, None)
    assert (reading.why, reading.samples) == ("too short", ())


def test_a_rig_needs_a_duration() -> None:
    with pytest.raises(ValueError, match="seconds must be more than 0"):
        Rig(seconds=0)
