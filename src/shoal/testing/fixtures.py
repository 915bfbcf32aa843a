"""A pytest fixture for users: put `pytest_plugins = ["shoal.testing.fixtures"]` into a `conftest.py`.

A test that takes `simulation` gets an empty network with seed 0; `--sim-seed` sets another.
"""

from __future__ import annotations

import pytest

from shoal.testing.simulation import Simulation


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--sim-seed`."""
    parser.addoption("--sim-seed", type=int, default=0, metavar="S", help="the seed of simulated networks")


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Simulation:
    """An empty simulated network; failed checks say how to run the test again."""
    seed = request.config.getoption("--sim-seed")
    print(f"simulation seed {seed}")
    return Simulation(seed=seed, repeat=f"pytest '{request.node.nodeid}' --sim-seed {seed}")
