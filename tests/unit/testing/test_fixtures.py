"""The fixture gives users an empty network, and tells how to run a failed test again."""

pytest_plugins = ["pytester"]

TEST = """
from shoal.testing import CheckError

def test_it(simulation):
    raise CheckError(simulation.history(), "example", f"{len(simulation.nodes)} nodes")
"""


def test_a_failed_check_names_the_test_and_the_seed(pytester):
    pytester.makeconftest('pytest_plugins = ["shoal.testing.fixtures"]')
    pytester.makepyfile(test_mine=TEST)
    result = pytester.runpytest("--sim-seed", "42")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*seed 42: example: 0 nodes*", "*pytest 'test_mine.py::test_it' --sim-seed 42*"]
    )
