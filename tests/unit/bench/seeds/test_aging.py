"""What a message cost in each period of traffic."""

import pytest

from shoal_bench.seeds.aging import aging, processing_us


def test_each_period_of_traffic_has_its_own_cost() -> None:
    received, cpu_s = [0, 0, 100, 300, 500, 600, 600, 600, 700, 900, 1100, 1200, 1200], [0.0]
    for at in range(1, len(received)):
        each = 1e-3 if at < 7 else 2e-3
        cpu_s.append(cpu_s[-1] + (received[at] - received[at - 1]) * each)
    samples = [
        {"at_s": float(at), "received": float(count), "cpu_s": used}
        for at, (count, used) in enumerate(zip(received, cpu_s, strict=True))
    ]
    assert list(processing_us(samples)) == pytest.approx([1000.0, 2000.0])


def test_two_hours_are_loaded_every_ten_minutes() -> None:
    (trial,) = aging(False)
    assert 2 * 3600 / (trial.repeats - 1) == 600
