"""What the demo says of Spark where there is none, and where the result is wrong."""

import io

import pytest
from rich.console import Console

import shoal
from shoal.cli import demo_spark


@pytest.fixture
def console():
    return Console(file=io.StringIO(), width=100)


def shown(console):
    return console.file.getvalue()


def silently(_text, _left_s):
    """Progress is not shown."""


def test_without_spark_the_demo_says_so_in_one_line_and_ends_well(console, monkeypatch):
    monkeypatch.setattr(demo_spark, "find_spec", lambda name: None)
    assert demo_spark.run(console, silently)
    assert shown(console) == "  left out: Spark is not installed (pip install 'shoal[spark]')\n"


def test_what_goes_wrong_is_one_line_too(console, monkeypatch):
    def fail(_):
        raise shoal.ShoalError("the store did not come up")

    monkeypatch.setattr(demo_spark, "_summaries", fail)
    assert not demo_spark.run(console, silently)
    assert shown(console) == "  failed: the store did not come up\n"


def result(**changed):
    each = demo_spark.MESSAGES // len(demo_spark.HALLS)
    return [{"hall": hall, "messages": each, "celsius": 1.0} | changed for hall in demo_spark.HALLS]


def test_every_message_must_have_been_counted_once(console, monkeypatch):
    for summaries, good in (
        (result(), True),
        (result()[1:], False),
        (result() + result()[:1], False),
        (result(messages=24_999), False),
    ):
        monkeypatch.setattr(demo_spark, "_summaries", lambda _, found=summaries: found)
        assert demo_spark.run(console, silently) is good
