"""`shoal access`."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.access import app

RULES = """
[[rule]]
name = "desks read"
principals = ["desk-*"]
actions = ["subscribe"]
topics = ["prices/>"]

[[rule]]
name = "no drafts"
principals = ["*"]
actions = ["all"]
topics = ["prices/draft/>"]
effect = "deny"

[[quota]]
name = "few"
principals = ["desk-*"]
connections = 4
"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.toml"
    path.write_text(RULES)
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["desk-7", "subscribe", "prices/*"], 0, "allowed: the rule 'desks read'"),
        (["desk-7", "subscribe", "prices/>"], 1, "denied: the rule 'no drafts'"),
        (["desk-7", "publish", "prices/x"], 1, "denied: no rule"),
        (["desk-7", "subscribe", "prices/>"], 1, "'desks read' would allow it, and does not decide"),
        (["desk-7", "subscribe", "prices/x"], 0, "the quota 'few' counts: connections 4"),
        (["desk-7", "fly", "prices/x"], 2, "must be one of publish"),
    ],
)
def test_explain_says_which_rule_decides(rules: str, arguments: list[str], status: int, says: str) -> None:
    result = CliRunner().invoke(app, ["explain", *arguments, "--rules", rules])
    assert result.exit_code == status
    assert says in result.output


def test_check_says_what_is_wrong(rules: str, tmp_path: Path) -> None:
    assert "2 rules and 1 quotas" in CliRunner().invoke(app, ["check", "--rules", rules]).output
    (tmp_path / "bad.toml").write_text("[[rule]]\nprincipal = ['a']\n")
    result = CliRunner().invoke(app, ["check", "--rules", str(tmp_path / "bad.toml")])
    assert result.exit_code == 2
    assert "did you mean 'principals'?" in result.output
