"""What `shoal bench check` says of a path."""

import pytest

from shoal_bench.check import Path, check
from shoal_bench.hosts import LocalHost


@pytest.mark.parametrize(
    ("unicast", "multicast", "advice"),
    [
        (1.0, 1.0, ""),
        (1.0, 0.0, "IGMP snooping"),
        (0.0, 1.0, "firewall of the receiver"),
        (0.0, 0.5, "no path"),
    ],
)
def test_advice_names_the_likely_cause(unicast: float, multicast: float, advice: str) -> None:
    path = Path("a", "b", unicast, multicast)
    assert advice in path.advice
    assert path.is_fine == (advice == "")


def test_this_machine_reaches_itself() -> None:
    paths = check([("a", LocalHost()), ("b", LocalHost())])
    assert [(path.sender, path.receiver) for path in paths] == [("a", "b"), ("b", "a")]
    assert all(path.is_fine for path in paths), paths
