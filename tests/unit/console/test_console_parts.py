"""What a console is told, what it shows of bodies, and pages of other packages."""

import math
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from shoal.cli.console import app as console_command
from shoal.console import extensions
from shoal.console.bodies import BODY_BYTES_MAX, body_of, history_row, safe
from shoal.console.config import AUDIT_FILE, ConsoleConfig
from shoal.console.extensions import Extension
from shoal.errors import ConfigError
from shoal.web.audit import Audit


def test_beyond_this_machine_it_needs_a_certificate_and_tokens(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="other machines reach"):
        ConsoleConfig(listen="0.0.0.0:7481")
    with pytest.raises(ConfigError, match="other machines reach"):
        ConsoleConfig(listen="0.0.0.0:7481", tokens=tmp_path / "tokens")
    with pytest.raises(ConfigError, match="belong together"):
        ConsoleConfig(tls_cert=tmp_path / "c.pem")
    for listen in ("7481", "localhost:7481", "127.0.0.1:x", "127.0.0.1:70000"):
        with pytest.raises(ConfigError, match="must be ADDRESS:PORT"):
            ConsoleConfig(listen=listen)
    with pytest.raises(ConfigError, match="host names"):
        ConsoleConfig(names=("https://a",))


def test_only_its_own_names_are_its_host() -> None:
    assert ConsoleConfig().hosts(7481) == {"127.0.0.1:7481", "localhost:7481"}
    assert ConsoleConfig(listen="[::1]:0", names=("Ops",)).hosts(80) >= {"[::1]:80", "ops", "ops:80"}


@pytest.mark.parametrize(
    ("body", "form", "text"),
    [
        (None, "none", ""),
        ("plain", "text", "plain"),
        (b"bytes", "text", "bytes"),
        (b"\xff\x00", "hex", "ff 00"),
        ({"a": [1, None]}, "json", '{\n  "a": [\n    1,\n    null\n  ]\n}'),
        (math.nan, "json", '"nan"'),
        ("a\x1b[31m\u202eb", "text", "a\\x1b[31m\\u202eb"),
        ("two\nlines\t", "text", "two\nlines\t"),
    ],
)
def test_a_body_is_text_and_nothing_else(body: Any, form: str, text: str) -> None:
    shown = body_of(body)
    assert (shown["form"], shown["text"], shown["cut"]) == (form, text, False)


@pytest.mark.parametrize("body", ["x" * 200_000, b"x" * 200_000, b"\xff" * 200_000, ["x" * 200_000]])
def test_a_long_body_is_cut_and_says_so(body: Any) -> None:
    shown = body_of(body)
    assert shown["cut"]
    assert len(shown["text"]) <= BODY_BYTES_MAX
    assert shown["size"] >= 200_000


def test_a_deep_body_and_long_properties_are_bounded() -> None:
    deep: Any = "end"
    for _ in range(500):
        deep = [deep]
    assert "…" in body_of(deep)["text"]
    row = {"body": b"{", "body_kind": "mapping", "properties": [(f"n{n}", "v" * 9000) for n in range(500)]}
    shown = history_row(row)
    assert len(shown["properties"]) == 100
    assert shown["body"]["text"] == "{"
    assert safe("x" * 10, 5) == "xxxxx"


def test_pages_of_other_packages_are_loaded_and_broken_ones_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "page.js").write_text("export default () => null;\n")
    monkeypatch.setattr(extensions, "made", lambda: Extension(title="Desk", files=tmp_path), raising=False)
    monkeypatch.setattr(
        extensions, "bare", lambda: Extension(title="Bare", files=Path("/none")), raising=False
    )
    monkeypatch.setattr(extensions, "odd", lambda: 5, raising=False)

    def found() -> Iterator[EntryPoint]:
        for name, what in (
            ("desk", "made"),
            ("bare", "bare"),
            ("odd", "odd"),
            ("gone", "x"),
            ("Bad Name", "made"),
        ):
            yield EntryPoint(name, f"shoal.console.extensions:{what}", extensions.GROUP)

    assert list(extensions.load(found)) == ["desk"]
    assert [record.msg.args["name"] for record in caplog.records] == ["bare", "odd", "gone", "Bad Name"]


def test_the_command_verifies_an_audit_log(tmp_path: Path) -> None:
    audit = Audit(tmp_path / AUDIT_FILE, lambda: 1e9)
    for number in range(3):
        audit.add(who="ada", act="purge", target=str(number), result="done")
    audit.close()
    runner = CliRunner()
    whole = runner.invoke(console_command, ["audit", "verify", "--data", str(tmp_path)])
    assert whole.exit_code == 0
    assert "3 lines" in whole.output
    path = tmp_path / AUDIT_FILE
    path.write_text(path.read_text().replace("ada", "eve", 1))
    wrong = runner.invoke(console_command, ["audit", "verify", "--data", str(tmp_path)])
    assert wrong.exit_code == 1
    assert "line 1" in wrong.output
