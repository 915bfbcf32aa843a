"""What all experiments share: contestants that can run, factors, and what goes into the store."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from shoal_bench.availability import Need
from shoal_bench.errors import ExperimentError
from shoal_bench.seeds import report
from shoal_bench.seeds.frame import Experiment, Reading, Site, Trial
from shoal_bench.seeds.run import Plan, Result, _run_job, _summary, jobs

HERE, ABSENT = Need(lambda: True, "nothing"), Need(lambda: False, "install it")


def experiment(**more: Any) -> Experiment[Trial]:
    return Experiment(
        name="e",
        source="s",
        found="f",
        cells=lambda quick: [Trial(experiment="e", name=f"c{number}") for number in range(1 if quick else 3)],
        measure=lambda *_: Reading(figures={"speed": 1.0}),
        headline="speed",
        **more,
    )


def named(found: Any) -> list[tuple[str, str]]:
    return [(job.trial.name, job.contestant) for job in found]


def test_a_peer_or_experiment_that_cannot_run_is_skipped_with_a_note(tmp_path: Path) -> None:
    notes: list[tuple[str, str]] = []
    peers = {"artemis": (HERE,), "artemis-far": (HERE,), "zfec": (ABSENT,), "native": (HERE,)}
    plan = Plan(quick=True, store=tmp_path, peers=("artemis", "zfec"))
    work = jobs(
        [experiment(peers=peers), experiment(needs=(ABSENT,))], plan, lambda *note: notes.append(note)
    )
    assert named(work) == [("c0", "shoal"), ("c0", "artemis"), ("c0", "artemis-far")]
    assert notes == [("zfec in e", "install it"), ("the experiment e", "install it")]


def test_cells_can_be_limited(tmp_path: Path) -> None:
    work = jobs([experiment()], Plan(store=tmp_path, cells_max=2), lambda *_: None)
    assert named(work) == [("c0", "shoal"), ("c1", "shoal")]


def test_a_quick_run_repeats_cells_by_turns_and_has_peers_at_the_ends_of_a_grid(tmp_path: Path) -> None:
    three = [Trial(experiment="e", name=f"c{number}") for number in range(3)]
    made = dataclasses.replace(
        experiment(peers={"artemis": (HERE,)}, peers_at_ends=True, rounds=2), cells=lambda _: three
    )
    quick = jobs([made], Plan(quick=True, store=tmp_path, peers=("artemis",)), lambda *_: None)
    assert named(quick) == [
        ("c0", "shoal"),
        ("c0", "artemis"),
        ("c1", "shoal"),
        ("c2", "shoal"),
        ("c2", "artemis"),
        *((trial.name, "shoal") for trial in three),
    ]
    whole = jobs([made], Plan(store=tmp_path, peers=("artemis",)), lambda *_: None)
    assert named(whole) == [(trial.name, who) for trial in three for who in ("shoal", "artemis")]


@pytest.mark.parametrize(("lower", "factor"), [(False, 0.25), (True, 4.0)])
def test_a_factor_above_one_is_better(lower: bool, factor: float) -> None:
    made = experiment(lower_is_better=lower, published=lambda _: 8.0)
    assert made.factor(Trial(experiment="e", name="c"), 2.0) == factor


def test_a_result_has_the_means_of_its_runs_and_the_first_broken_rule() -> None:
    runs = [Reading(figures={"speed": 1.0, "other": None}), Reading(figures={"speed": 3.0, "other": 5.0})]
    result = Result(experiment(), Trial(experiment="e", name="c", x=2.0), "shoal", runs)
    figures = result.figures()
    assert (figures["speed"], figures["other"], figures["valid"], figures["x"]) == (2.0, 5.0, True, 2.0)
    result.runs.append(Reading(figures={"speed": 1.0, "other": None}, why="too short"))
    assert (result.figures()["valid"], result.figures()["why"]) == (False, "too short")


def test_a_cell_that_failed_is_told_and_the_next_one_runs(tmp_path: Path) -> None:
    def measure(trial: Trial, *_: Any) -> Reading:
        if trial.name == "c0":
            raise ExperimentError("a copy is missing")
        return Reading(figures={"speed": 1.0})

    made = dataclasses.replace(experiment(), measure=measure)
    plan = Plan(store=tmp_path, strict=False)
    with Site(plan.rig()) as site:
        work = jobs([made], plan, lambda *_: None)
        found = [Result(job.experiment, job.trial, job.contestant) for job in work]
        for result in found:
            _run_job(result, plan, site, lambda _: None)
    assert [result.why for result in found] == ["failed: a copy is missing", None, None]
    assert found[0].figures()["valid"] is False
    told = _summary("r", plan, [made], found, 1.0)
    assert told["failed"] == ["e c0, shoal: a copy is missing"]
    assert "a copy is missing" in report.page(told)


def test_samples_go_into_the_store_with_their_names_and_figures_where_there_are_none() -> None:
    sampled = Reading(figures={"speed": 1.0}, samples=({"t_s": 0.0}, {"t_s": 1.0}))
    plain = Reading(figures={"speed": 1.0})
    bodies = list(
        Result(experiment(), Trial(experiment="e", name="c"), "shoal", [sampled, plain]).bodies("r")
    )
    assert [(body["rep"], body.get("t_s"), body.get("speed")) for body in bodies] == [
        (1, 0.0, None),
        (1, 1.0, None),
        (2, None, 1.0),
    ]
    assert {body["contestant"] for body in bodies} == {"shoal"}


def test_a_site_pins_nothing_without_rules(tmp_path: Path) -> None:
    with Site(Plan(store=tmp_path, strict=False).rig()) as site:
        assert (site.node_core, site.load_core) == (None, None)
