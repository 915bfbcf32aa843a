"""The search finds failing seeds, says how to repeat them, and shows what happened."""

import pytest

from shoal.testing import CheckError, Domain, Simulation
from shoal.testing.domain_checkers import DomainCheckError
from shoal.testing.domain_scenarios import domain_scenario
from shoal.testing.scenarios import SCENARIOS, scenario
from shoal.testing.search import main


@pytest.fixture
def broken_scenario():
    @scenario
    def broken(simulation: Simulation) -> None:
        """Fails with odd seeds."""
        if simulation.seed % 2:
            raise CheckError(simulation.history(), "parity", "the seed is odd")

    yield broken
    del SCENARIOS["broken"]


def test_seeds_that_pass_are_counted(capsys):
    assert main(["--seeds", "3", "--jobs", "1"]) == 0
    assert "3 runs, 0 failed" in capsys.readouterr().out


@pytest.mark.usefixtures("broken_scenario")
def test_a_failing_seed_is_printed_with_the_command_that_repeats_it(capsys):
    assert main(["--scenario", "broken", "--seeds", "2", "--jobs", "1"]) == 1
    printed = capsys.readouterr()
    assert "2 runs, 1 failed" in printed.out
    assert "the seed is odd" in printed.err
    assert "python -m shoal.testing.search --scenario broken --seed 1 --trace" in printed.err


@pytest.mark.usefixtures("broken_scenario")
def test_a_single_seed_can_be_repeated(capsys):
    assert main(["--scenario", "broken", "--seed", "1"]) == 1
    assert main(["--scenario", "broken", "--seed", "2"]) == 0
    assert "1 runs, 0 failed" in capsys.readouterr().out


@pytest.fixture
def strict_scenario():
    @domain_scenario
    def refuses_strictness(domain: Domain) -> None:
        """Fails if its history is strict."""
        if domain.history().strict:
            raise DomainCheckError(domain.history(), "strictness", "it is strict")

    yield refuses_strictness
    del SCENARIOS["refuses_strictness"]


@pytest.mark.usefixtures("strict_scenario")
def test_strict_reaches_the_scenario_and_the_command_that_repeats_it(capsys):
    command = ["--scenario", "refuses_strictness", "--seed", "3"]
    assert main(command) == 0
    assert main([*command, "--strict"]) == 1
    printed = " ".join(capsys.readouterr().err.split())
    assert "--scenario refuses_strictness --seed 3 --strict --trace" in printed
    assert main([*command, "--strict", "--trace"]) == 1


def test_strict_is_refused_where_there_are_no_whole_nodes(capsys):
    with pytest.raises(SystemExit):
        main(["--scenario", "loss_5", "--seed", "4", "--strict"])
    assert "--strict is for scenarios of whole nodes, and loss_5 is none" in capsys.readouterr().err


def test_a_trace_is_the_same_twice(capsys):
    assert main(["--scenario", "loss_5", "--seed", "4", "--trace"]) == 0
    first = capsys.readouterr().out
    assert main(["--scenario", "loss_5", "--seed", "4", "--trace"]) == 0
    assert capsys.readouterr().out == first
    assert first.count("\n") > 100


def test_every_scenario_says_what_it_is_about(capsys):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(SCENARIOS)
    assert all(line.rstrip().endswith(".") for line in lines)
