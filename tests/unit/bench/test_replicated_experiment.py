"""The benchmark of groups: options that cannot work are refused by name; ratios are of the right figures."""

from typing import Any

import pytest

from shoal_bench.replicated import ReplicatedOptions, _compared


@pytest.mark.parametrize(
    ("name", "value"),
    [("rounds", 0), ("publishers", 0), ("window", 0), ("seconds", 0.0), ("size", 7), ("kills", -1)],
)
def test_options_that_cannot_work_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ReplicatedOptions(peers=(), **{name: value})


def test_the_group_is_compared_with_one_store_and_with_jetstream() -> None:
    def reached(*rates: float) -> list[dict[str, float]]:
        return [{"msg_s": rate} for rate in rates]

    figures = _compared({"shoal": reached(10, 30, 20), "shoal_alone": reached(40), "nats": reached(5)})
    assert figures["ratio_to_one_store"] == 0.5
    assert figures["ratio_to_nats"] == 4.0
