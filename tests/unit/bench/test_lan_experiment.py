from typing import Any

import pytest

from shoal_bench.lan import LanOptions, LanTransfer, summary


@pytest.mark.parametrize(
    ("field", "value"),
    [("size", 1), ("rate_mbit_s", 0), ("many", 1), ("rounds", 0), ("seconds", 0.0)],
)
def test_an_option_that_cannot_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, not "):
        LanOptions(**{field: value})


def test_goodput_is_compared_with_the_cable_and_many_with_one() -> None:
    one = LanTransfer(goodput_mbit_s=90.0, repairs_share=0.0, cpu_s_per_million=1.0)
    eight = LanTransfer(goodput_mbit_s=81.0, repairs_share=0.02, cpu_s_per_million=1.0)
    result = summary(LanOptions(rounds=3), {1: [one] * 3, 8: [eight] * 3})
    # A frame of 1500 bytes of payload has 14 bytes of header.
    assert result["to_1"]["share_of_ethernet_payload"] == pytest.approx(0.9 * 1514 / 1500)
    assert result["goodput_mbit_s"] == 81.0
    assert result["ratio_8_to_1"] == pytest.approx(0.9)
    assert result["repairs_share"] == 0.02
