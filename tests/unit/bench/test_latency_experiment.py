from typing import Any

import pytest

from shoal_bench import latency
from shoal_bench.latency import LatencyOptions, percentiles_us


@pytest.mark.parametrize(
    ("field", "value"), [("size", 1), ("rounds", 0), ("count", 9), ("peers", ("pigeon",))]
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        LatencyOptions(**{field: value})


def test_percentiles_are_times_that_occurred() -> None:
    times_ns = [1000 * number for number in range(1000, -1, -1)]
    assert percentiles_us(times_ns) == {"p50_us": 500.0, "p99_us": 990.0, "p999_us": 999.0}


def test_ratios_are_theirs_divided_by_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    times_us = {"shoal": 50, "zmq": 75, "zenoh": 150}

    def round_trips_ns(name: str, options: LatencyOptions) -> list[int]:
        return [times_us[name] * 1000] * options.count

    monkeypatch.setattr(latency, "round_trips_ns", round_trips_ns)
    result = latency.run(LatencyOptions(peers=("zmq", "zenoh"), rounds=3, count=10))
    assert result["shoal"]["p99_us"] == 50.0
    assert result["zmq"]["ratio_p50"] == pytest.approx(1.5)
    assert result["zenoh"]["ratio_p99"] == pytest.approx(3.0)
    assert result["ratio_p99_to_best_peer"] == pytest.approx(1.5)
