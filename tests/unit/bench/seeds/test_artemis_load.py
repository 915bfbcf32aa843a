"""A cell as Artemis's client reads it."""

from shoal_bench.peers.artemis_load import plan, selector
from shoal_bench.seeds import fiorano
from shoal_bench.seeds.cell import Cell, Group


def test_every_subscriber_and_message_is_a_line() -> None:
    cell = next(cell for cell in fiorano.joint(False) if cell.name == "property-n5-r2")
    lines = list(plan(cell, 10.0, 1.0))
    assert lines[0] == "10.0\t1.0\t5\t0\t2"
    assert lines[1:3] == ["subscribe\tseeds.load\tid = '#0'"] * 2
    assert [line.split("\t")[0] for line in lines].count("idle") == 5
    assert lines[-2:] == ["message\tseeds.load\t\tid=#0", "ready"]


def test_subscribers_of_many_topics_share_a_connection_for_each_copy() -> None:
    cell = Cell(experiment="e", name="c", matching=(Group(count=2, topics=("a/1", "a/2")),), r=2)
    lines = list(plan(cell, 1.0, 1.0))
    assert lines[1:5] == ["subscribe\ta.1\t", "beside\ta.2\t"] * 2


def test_correlation_ids_become_selectors() -> None:
    assert selector(Group(count=1, correlation="#4")) == "JMSCorrelationID = '#4'"
    assert (
        selector(Group(count=1, correlation="[#1;#2]"))
        == "JMSCorrelationID = '#1' OR JMSCorrelationID = '#2'"
    )
    assert selector(Group(count=1)) == ""


def test_messages_are_round_robin_over_topics_and_headers() -> None:
    cell = Cell(experiment="e", name="c", topics=("a", "b"), correlations=("#1", "#2", "#3"))
    assert [(topic, headers["correlation_id"]) for topic, headers in cell.messages()] == [
        ("a", "#1"),
        ("b", "#2"),
        ("a", "#3"),
    ]
