"""`shoal selector`."""

from typer.testing import CliRunner

from shoal.cli.app import app

runner = CliRunner()


def test_a_valid_selector_shows_its_canonical_form() -> None:
    result = runner.invoke(app, ["selector", "b=2 and a in ('x')"])
    assert result.exit_code == 0
    assert "valid      a = 'x' AND b = 2" in result.stdout
    assert "mentions   a, b" in result.stdout


def test_an_invalid_selector_gets_a_caret_and_exit_code_2() -> None:
    result = runner.invoke(app, ["selector", "colour = [red]"])
    assert result.exit_code == 2
    lines = result.stderr.splitlines()
    assert "position 9" in lines[0]
    assert lines[2:4] == ["  colour = [red]", "           ^"]
    assert "expected" in lines[-1]


def test_properties_and_headers_are_evaluated() -> None:
    selector = "region = 'EU' AND price > 9.5 AND urgent AND JMSPriority = 7 AND code = '12'"
    given = ["-p", "region=EU", "-p", "price=10", "-p", "urgent=true", "--header", "JMSPriority=7"]
    result = runner.invoke(app, ["selector", selector, *given, "-p", "code='12'"])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "matches")
    result = runner.invoke(app, ["selector", selector, *given, "-p", "code=12"])
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (1, "does not match")


def test_a_property_without_value_is_refused() -> None:
    result = runner.invoke(app, ["selector", "a = 1", "--property", "a"])
    assert result.exit_code == 2
    assert "name=value" in result.stderr
