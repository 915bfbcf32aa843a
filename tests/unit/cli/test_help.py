"""What `shoal` says before it does anything."""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from shoal.cli.app import COMMANDS, app

RUNNER = CliRunner()
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


def test_help_costs_little_more_than_the_parser_of_the_command_line() -> None:
    parser, whole = [], []
    for _ in range(5):
        parser.append(_processor_s([sys.executable, "-c", "import typer"]))
        whole.append(_processor_s([*SHOAL, "--help"]))
    assert min(whole) < 1.6 * min(parser)


def _processor_s(command: list[str]) -> float:
    """Of one process; in turn with another, so that what else the machine does falls on both."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, timeout=60, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_every_command_is_listed_with_what_it_says_of_itself() -> None:
    listed = subprocess.run([*SHOAL, "--help"], capture_output=True, text=True, timeout=60).stdout
    for name in COMMANDS:
        assert f"  {name} " in listed


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_imported_and_helps(name: str) -> None:
    ran = subprocess.run([*SHOAL, name, "--help"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert name in ran.stdout


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("subscribe", "Did you mean 'sub'?"),
        ("publish", "Did you mean 'pub'?"),
        ("pbu", "Did you mean 'pub'?"),
        ("sing", "Commands: pub, sub, request"),
    ],
)
def test_an_unknown_command_is_refused_with_one_that_was_probably_meant(typed: str, advice: str) -> None:
    ran = RUNNER.invoke(app, [typed])
    assert ran.exit_code == 2
    assert f"No such command {typed!r}. {advice}" in ran.stderr


@pytest.mark.parametrize(
    ("group", "typed", "advice"),
    [
        ("queue", "browse", "Did you mean 'peek'?"),
        ("store", "stat", "Did you mean 'status'?"),
        ("keys", "zzz", "Commands: new, ca, node."),
    ],
)
def test_so_is_one_of_a_group(group: str, typed: str, advice: str) -> None:
    ran = RUNNER.invoke(app, [group, typed])
    assert ran.exit_code == 2
    assert f"No such command {typed!r}. {advice}" in ran.stderr


@pytest.mark.parametrize("group", ["queue", "store", "bench", "norm", "token", "pipeline"])
def test_commands_of_a_group_are_described_by_a_whole_sentence(group: str) -> None:
    listed = RUNNER.invoke(app, [group, "--help"]).stdout.partition("\nCommands:\n")[2]
    assert listed
    assert "..." not in listed


def test_help_has_the_same_plain_look_at_every_level() -> None:
    for command in ([], ["queue"], ["queue", "send"], ["bench", "norm"], ["norm", "send"], ["pub"]):
        assert "\nOptions:\n" in RUNNER.invoke(app, [*command, "--help"]).stdout


def every_command(command: Any, *path: str) -> Iterator[tuple[str, ...]]:
    """A command and all below it."""
    yield path
    names = COMMANDS if not path else getattr(command, "commands", ())
    for name in names:
        below = command.get_command(None, name)
        yield from every_command(below, *path, name)


@pytest.mark.parametrize("path", [*every_command(typer.main.get_command(app))], ids=" ".join)
def test_help_names_values_and_wraps_no_example(path: tuple[str, ...]) -> None:
    shown = RUNNER.invoke(app, [*path, "--help"], terminal_width=80).stdout
    assert not re.search(r"<(str|int|float|path|list)\b", shown), "a type of Python is no name for a value"
    assert ("--install-completion" in shown) == (not path)
    assert shown.count("(") == shown.count(")")
    assert "..." not in shown.partition("\nCommands:\n")[2], "a command of a group is described in full"
    examples = shown.partition("Examples:")[2]
    for line in examples.splitlines():
        assert not line.strip() or re.match(r"    (# |\S+ .*shoal |shoal|kill -HUP |pip )", line), line


def test_commands_are_listed_by_task() -> None:
    shown = RUNNER.invoke(app, ["--help"]).stdout
    places = [shown.index(f"\n{title}:\n") for title in ("Messages", "Stores and history", "Networks")]
    assert places == sorted(places)
