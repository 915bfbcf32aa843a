"""`shoal explain`."""

import pytest
from typer.testing import CliRunner

from shoal.cli.app import app
from shoal.messages import bus as notices

run = CliRunner()


@pytest.mark.parametrize("asked", ["2107", "SHOAL-2107", "18:08:25 shoal sub: SHOAL-2107 warning: any"])
def test_an_id_is_explained_wherever_it_stands(asked: str) -> None:
    ran = run.invoke(app, ["explain", asked])
    assert ran.exit_code == 0
    assert ran.stdout.startswith("SHOAL-2107 warning\nMember <node> ")
    assert "slow_after_s" in ran.stdout


def test_a_line_is_printed_with_its_arguments() -> None:
    line = str(notices.MEMBER_FAILED(node=7))
    assert "Lost contact with member 7 " in run.invoke(app, ["explain", *line.split()]).stdout


@pytest.mark.parametrize("asked", ["9999", "nothing", "SHOAL-1"])
def test_an_unknown_id_is_an_error(asked: str) -> None:
    ran = run.invoke(app, ["explain", asked])
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert asked in ran.stderr


def test_a_translation_names_places_as_the_english_line_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_LANG", "zh_TW")
    lines = run.invoke(app, ["explain", "2107"]).output.splitlines()
    assert len(lines) == 3
    assert "成員 <node>" in lines[2]
    assert "{" not in lines[2]
