"""Cells have the parameters that were published."""

import json
from collections import Counter

import pytest

from shoal_bench.seeds import catalogue, fiorano, published, rig
from shoal_bench.seeds.cell import Cell


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", list(catalogue.EXPERIMENTS))
def test_every_experiment_has_cells_of_its_name(name: str, quick: bool) -> None:
    experiment = catalogue.EXPERIMENTS[name]
    cells = experiment.cells(quick)
    assert {cell.experiment for cell in cells} == {name}
    assert max(Counter(cell.name for cell in cells).values()) == 1
    assert experiment.what
    for cell in cells:
        if isinstance(cell, Cell):
            assert Cell.from_json(json.loads(json.dumps(cell.to_json()))) == cell
    if experiment.measure is rig.measure:
        assert set(experiment.contestants) | set(experiment.peers) <= set(rig.CONTESTANTS)


def test_the_joint_grid_is_the_studys_and_the_cells_that_judge_the_model() -> None:
    cells = [cell for cell in fiorano.joint(False) if not cell.equal]
    assert len(cells) == 2 * (36 + 2)
    cell = next(cell for cell in cells if cell.name == "property-n160-r1")
    assert sum(group.count for group in cell.idle) == 160
    assert sum(group.count for group in cell.matching) == 1
    assert cell.properties == ({"id": "#0"},)
    # Section 4.9 and Table 1: 844 messages/s.
    assert published.overall_msg_s(cell) == pytest.approx(844, rel=1e-3)


def test_the_joint_grid_is_measured_with_equal_filters_too() -> None:
    cells = [cell for cell in fiorano.joint(False) if cell.equal]
    assert len(cells) == 2 * 36
    cell = next(cell for cell in cells if cell.name == "property-n160-r1-equal")
    assert [(group.count, group.selector) for group in cell.idle] == [(160, "id = '#1'")]


def test_a_quick_joint_grid_has_the_cells_of_the_gates_and_some_that_judge() -> None:
    found = {(cell.n, cell.r) for cell in fiorano.joint(True) if not cell.equal}
    assert {(160, 1), (160, 40), (10, 2), (80, 20)} < found


def test_of_an_even_number_of_properties_two_are_in_the_middle() -> None:
    cells = {cell.name: cell for cell in fiorano.all_of(False)}
    # Section 4.8: P5 decides for subscribers 1 to 5, P6 for the others.
    deciding = [
        next(i for i in range(10) if f"p{i} = '#{j}'" in group.selector)
        for j, group in enumerate(cells["order2-10"].matching, start=1)
    ]
    assert deciding == [4] * 5 + [5] * 5


def test_each_message_of_the_select_experiment_is_for_one_subscriber() -> None:
    for cell in fiorano.select(False):
        wanted = [group.selector or group.correlation or group.topics for group in cell.matching]
        assert len(set(wanted)) == cell.n + 1
        assert cell.r == 1


def test_and_filters_decide_first_in_the_middle_and_last() -> None:
    cells = {cell.name: cell for cell in fiorano.all_of(False)}
    assert cells["order1-5"].matching[2].selector.startswith("p0 = '#3' AND p1 = '#0'")
    assert cells["order3-5"].matching[2].selector.endswith("p4 = '#3'")
    assert all(len(message) == 25 for message in cells["order2-10"].properties)


def test_an_unknown_experiment_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="There are: all, udp-loop"):
        catalogue.chosen("fiorano")


def test_all_names_of_the_documents_are_there() -> None:
    thesis = {"udp-loop", "udp-lan", "jms-loop", "jms-lan", "wan", "fec"}
    study = {"publishers", "subscribers", "size", "activation", "topics", "select", "or", "and", "joint"}
    study |= {"aging", "waiting", "cluster"}
    named = thesis | {f"fiorano-{name}" for name in study} | {"narada", "presumo-filters", "ibus-tune"}
    assert set(catalogue.EXPERIMENTS) == named


def test_bodies_are_empty_unless_their_size_is_what_varies() -> None:
    for experiment in catalogue.EXPERIMENTS.values():
        for cell in experiment.cells(False):
            if isinstance(cell, Cell) and cell.experiment != "fiorano-size":
                assert cell.size == 0


def test_published_figures_are_those_that_the_texts_state() -> None:
    sizes = {cell.size: published.overall_msg_s(cell) for cell in fiorano.sizes(False)}
    assert sizes[0] == 61_000
    # 600 Mbit/s.
    assert sizes[65536] == pytest.approx(1144, rel=1e-3)
    topics = {cell.name: published.overall_msg_s(cell) for cell in fiorano.topics(False)}
    assert (topics["t20-r5"], topics["t1-r1"], topics["t1000-r1"]) == (35_000, None, None)


def test_r_subscribers_are_registered_for_each_topic() -> None:
    cells = {cell.name: cell for cell in fiorano.topics(False)}
    (group,) = cells["t20-r5"].matching
    assert (group.count, group.topics) == (5, cells["t20-r5"].topics)
    assert len(cells["t1000-r1"].matching[0].topics) == 1000


def test_quick_grids_have_the_cells_of_the_gates() -> None:
    assert [cell.x for cell in fiorano.subscribers(True)] == [1, 40, 320]
    assert {"t1-r1", "t20-r1", "t1000-r1"} < {cell.name for cell in fiorano.topics(True)}
