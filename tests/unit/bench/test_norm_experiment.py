from typing import Any

import pytest

from shoal_bench import norm
from shoal_bench.norm import NormOptions, Transfer


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("segment_bytes", 8),
        ("loss_percent", 100.0),
        ("peers", ("carrier pigeon",)),
        ("rounds", 0),
        ("seconds", 0.0),
        ("bytes", 0),
    ],
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        NormOptions(**{field: value})


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Transfers without a network: Shoal at 8 (warm-up), 10, 12, 11, libnorm at a tenth, the kernel at 40."""
    calls: list[tuple[str, int]] = []
    speeds = {"shoal": [8.0, 10.0, 12.0, 11.0], "libnorm": [1.0, 1.0, 1.2, 1.1]}

    def transfer(name: str, _options: NormOptions, count: int) -> Transfer:
        calls.append((name, count))
        return Transfer(bytes=count, gbit_s=speeds[name].pop(0), cpu_s=count / 1e9, repair_overhead=0.01)

    monkeypatch.setattr(norm, "transfer", transfer)
    monkeypatch.setattr(norm, "kernel_gbit_s", lambda _options: 40.0)
    return calls


def test_contestants_take_turns_and_medians_leave_the_warm_up_out(scripted: list[tuple[str, int]]) -> None:
    result = norm.run(NormOptions(rounds=3, bytes=1_000_000_000))
    assert [name for name, _ in scripted] == ["shoal", "libnorm"] * 4
    assert result["shoal"]["gbit_s"] == 11.0
    assert result["shoal"]["cpu_s_per_gb"] == pytest.approx(1.0)
    assert result["shoal"]["repair_overhead"] == 0.01
    assert result["ratio"] == pytest.approx(10.0)
    assert result["share_of_kernel"] == pytest.approx(11 / 40)


def test_the_warm_up_decides_how_much_fills_the_time_asked_for(scripted: list[tuple[str, int]]) -> None:
    norm.run(NormOptions(rounds=1, seconds=2.0))
    assert scripted[2:] == [("shoal", 2_000_000_000), ("libnorm", 250_000_000)]


def test_without_peers_there_is_no_ratio(scripted: list[tuple[str, int]]) -> None:
    result = norm.run(NormOptions(rounds=3, peers=(), bytes=1))
    assert "ratio" not in result
    assert {name for name, _ in scripted} == {"shoal"}
