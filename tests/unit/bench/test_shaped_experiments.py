"""What a selector, headers and properties cost: how the figures of transfers are put together."""

from typing import Any

import pytest

from shoal_bench import jms, selector_node, shaped
from shoal_bench.contestant import Load
from shoal_bench.jms import JmsOptions
from shoal_bench.shaped import Shape, ShapedTransfer


def test_a_selectors_overhead_is_the_median_of_neighbouring_transfers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The machine gets slower and slower; with a selector a message always costs a tenth more.
    moods = iter(range(1, 100))

    def transfer(shape: Shape, load: Load) -> ShapedTransfer:
        mood = (next(moods) - 1) // 2 + 1
        factor = 1.1 if shape.selector else 1.0
        return ShapedTransfer(msg_s=load.count / mood / factor, cpu_us=mood * factor, publisher_cpu_us=1.0)

    monkeypatch.setattr(shaped, "transfer", transfer)
    result = selector_node.run(messages=1000, rounds=5)
    assert result["one_selector_overhead"] == pytest.approx(0.1)
    assert result["one_selector_slowdown"] == pytest.approx(0.1)
    assert set(result["properties"]) == {"1", "5"}
    assert result["none"] == result["properties"]["1"]["none"]
    assert result["one"]["cpu_us_per_message"] > result["none"]["cpu_us_per_message"]


def test_a_jms_messages_cost_is_that_of_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    def transfer(shape: Shape, load: Load) -> ShapedTransfer:
        times = 2.0 if shape.api == "jms" else 1.0
        return ShapedTransfer(
            msg_s=100.0 / times, cpu_us=times, publisher_cpu_us=(4.0 if shape.headers else 1.0) * times
        )

    monkeypatch.setattr(shaped, "transfer", transfer)
    monkeypatch.setattr(jms, "transactions", lambda options: {"batch_ratio": 30.0})
    result = jms.run(JmsOptions(rounds=3, peers=()))
    assert result["plain"]["times_plain_cpu"] == 1.0
    assert result["bus"]["times_plain_cpu"] == 2.5
    assert result["jms"]["times_plain_time"] == 2.0
    assert result["cost_ratio"] == 2.0
    assert result["read_ratio"] == 2.5
    assert result["transaction"] == {"batch_ratio": 30.0}
    assert "ratio_artemis" not in result


def test_artemis_is_compared_by_its_rate() -> None:
    ours, theirs = ShapedTransfer(100.0, 1.0, 1.0), ShapedTransfer(10.0, 5.0, 5.0)
    results = {name: [ours] for name in jms.SHAPES} | {"artemis": [theirs]}
    assert jms.summary(JmsOptions(peers=()), results)["ratio_artemis"] == 10.0


@pytest.mark.parametrize(("field", "value"), [("size", 1), ("rounds", 0), ("count", 1), ("peers", ("mq",))])
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        JmsOptions(**{field: value})


def test_more_properties_than_there_are_is_refused() -> None:
    with pytest.raises(ValueError, match="properties must be from 0 to 5, not 6"):
        Shape(properties=6)
