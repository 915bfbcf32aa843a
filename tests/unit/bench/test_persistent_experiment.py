"""The benchmark of persistent messages: options that cannot work are refused by name."""

from typing import Any

import pytest

from shoal_bench.persistent import PersistentOptions


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rounds": 0}, "rounds must be at least 1, not 0"),
        ({"behind": 0}, "behind must be at least 1, not 0"),
        ({"seconds": 0.0}, "seconds must be more than 0, not 0.0"),
        ({"size": 7}, "size must be at least 8, not 7"),
        ({"large": -1}, "large must be at least 0, which leaves it out, not -1"),
    ],
)
def test_options_that_measure_nothing_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        PersistentOptions(peers=(), **wrong)
