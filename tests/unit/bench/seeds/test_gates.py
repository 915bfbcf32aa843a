"""Gates, on made-up cells."""

import json
from pathlib import Path
from typing import Any

from shoal_bench.seeds import catalogue, summary
from shoal_bench.seeds.gates import _MADE, Gate, gates
from shoal_bench.seeds.report import gate_rows


def cell(name: str, contestant: str = "routed", **figures: Any) -> dict[str, Any]:
    return {
        "cell": name,
        "contestant": contestant,
        "series": "",
        "x": 0,
        "valid": True,
        "factor": None,
    } | figures


def found(name: str, *cells: dict[str, Any]) -> dict[str, Gate]:
    return {gate.what: gate for gate in gates({name: {"cells": list(cells)}})}


def test_every_gate_is_of_an_experiment() -> None:
    assert set(_MADE) <= set(catalogue.EXPERIMENTS)
    assert gates({name: {"cells": []} for name in catalogue.EXPERIMENTS}) == []


def test_the_joint_grid_is_judged_by_the_studys_table_by_filters_and_by_artemis() -> None:
    made = found(
        "fiorano-joint",
        cell("property-n5-r1", processing_us=1.0, overall_msg_s=2e6, factor=9.0),
        cell("property-n160-r1", processing_us=8.75, overall_msg_s=2e5, factor=499.0),
        cell("property-n160-r40", processing_us=9.0, overall_msg_s=1e6, factor=20.0, valid=False),
        cell("property-n160-r1", "artemis", processing_us=100.0, overall_msg_s=2e4),
    )
    one = made["property, n = 160, r = 1, times the study"]
    assert (one.reached, one.limit, one.holds, one.valid) == (499.0, 500.0, False, True)
    many = made["property, n = 160, r = 40, times the study"]
    assert (many.holds, many.valid) == (True, False)
    each = made["property: µs for each further filter"]
    assert (each.reached, each.at_most, each.holds) == (0.05, True, True)
    beside = made["overall, times Artemis, in the worst cell"]
    assert (beside.reached, beside.holds) == (10.0, True)
    assert "correlation, n = 160, r = 1, times the study" not in made


def test_or_filters_must_be_neither_much_slower_nor_much_faster() -> None:
    def ratio(joined: float) -> list[bool]:
        cells = (
            cell("a", series="property, simple", x=40, overall_msg_s=100.0),
            cell("b", series="property, joined", x=40, overall_msg_s=joined),
        )
        made = gates({"fiorano-or": {"cells": list(cells)}})
        return [gate.holds for gate in made]

    assert ratio(100.0) == [True, True]
    assert ratio(70.0) == [False, True]
    assert ratio(130.0) == [True, False]


def test_narada_loses_nothing_and_waits_half_as_long_as_artemis() -> None:
    made = found(
        "narada",
        cell("a", mean_delay_ms=0.4, deviation_ms=0.6, lost=0.0),
        cell("a", "artemis", mean_delay_ms=1.0, deviation_ms=1.0, lost=0.0),
    )
    assert made["mean delay over Artemis's, worst cell"].holds
    assert not made["deviation over Artemis's, worst cell"].holds
    assert made["messages lost"].holds


def test_waiting_times_are_judged_between_half_and_eight_tenths_of_the_load() -> None:
    made = found(
        "fiorano-waiting",
        cell("a", x=0.5, mean_bias=-0.2, p99_bias=0.3, load=0.55),
        cell("b", x=0.8, mean_bias=0.1, p99_bias=-0.4),
        cell("c", x=0.9, mean_bias=3.0, p99_bias=3.0),
    )
    assert {round(gate.reached, 3): gate.holds for gate in made.values()} == {
        0.2: True,
        0.4: False,
        0.1: True,
    }


def test_a_row_says_limit_and_outcome() -> None:
    (row,) = gate_rows([Gate("e", "drift", 0.03, 0.02, at_most=True, valid=False).to_dict()])
    assert row == ("e", "drift", "0.03", "at most 0.02", "no", "no")


def test_a_page_has_gates_models_and_what_the_machine_did_beside(tmp_path: Path) -> None:
    gate = Gate("fiorano-joint", "times the study", 400.0, 300.0).to_dict()
    result = {"cells": 4, "invalid": 1, "took_s": 120.0, "busy_before": "core 1 was 9% busy", "gates": [gate]}
    model = {
        "contestant": "routed",
        "kind": "property",
        "form": "filters",
        "coefficients": [1e-6, 2e-8, 3e-7],
        "held_out_median": 0.031,
        "held_out_worst": None,
    }
    capacity = {"cells": [{"held_out": True}, {"held_out": False}], "invalid": 2, "models": [model]}
    for name, found in (("fiorano-joint", result), ("capacity", capacity)):
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    summary.main(tmp_path, ["fiorano-joint", "missing"])
    text = (tmp_path / "index.md").read_text()
    assert "| fiorano-joint | times the study | 400 | at least 300 | yes | yes |" in text
    assert "| routed | property | filters | 1 | 0.02 | 0.3 | 3.1% | not measured |" in text
    assert "(core 1 was 9% busy)" in text
    assert "2 cells, 1 of them held out" in text
