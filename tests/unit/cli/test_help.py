"""What `shoal` says before it does anything."""

import resource
import subprocess
import sys

import pytest

from shoal.cli.app import COMMANDS

SHOAL = [sys.executable, "-m", "shoal.cli"]


def test_help_imports_nothing_that_it_does_not_show() -> None:
    program = """
import sys
sys.argv = ["shoal", "--help"]
from shoal.cli import main
try:
    main()
except SystemExit:
    pass
print(*sorted(name for name in sys.modules if name.startswith(("rich", "shoal.", "asyncio", "numpy"))))
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[-1] == "shoal.cli shoal.cli.app"


def test_help_is_there_at_once() -> None:
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*SHOAL, "--help"], capture_output=True, timeout=60, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    # Processor time, which other programs on the same cores change least.
    assert min(times) < 0.1


def test_every_command_is_listed_with_what_it_says_of_itself() -> None:
    listed = subprocess.run([*SHOAL, "--help"], capture_output=True, text=True, timeout=60).stdout
    for name in COMMANDS:
        assert f"  {name} " in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported_and_helps(name: str) -> None:
    ran = subprocess.run([*SHOAL, name, "--help"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert name in ran.stdout


def test_an_unknown_command_is_refused_with_those_there_are() -> None:
    ran = subprocess.run([*SHOAL, "subscribe"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 2
    assert "No such command 'subscribe': there are demo, pub, sub" in ran.stderr
