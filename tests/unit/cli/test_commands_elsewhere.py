"""Commands that another distribution brings."""

import pytest
from typer.testing import CliRunner

from shoal.cli import app as cli


def test_a_command_that_is_not_installed_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [])
    said = CliRunner().invoke(cli.app, ["bench", "throughput", "--size", "64"])
    assert said.exit_code == 2
    assert "pip install ./bench" in said.output


def test_an_installed_command_is_found_by_its_entry_point() -> None:
    said = CliRunner().invoke(cli.app, ["bench", "list"])
    assert said.exit_code == 0
    assert "throughput" in said.output
