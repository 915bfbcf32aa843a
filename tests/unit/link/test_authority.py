"""A private authority, and the commands that make it."""

import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from shoal.cli.keys import app
from shoal.errors import ConfigError
from shoal.link.authority import make_authority, make_node


def test_another_implementation_verifies_what_it_signs(tmp_path: Path) -> None:
    ca, key = make_authority(tmp_path, "desk CA", 30)
    cert, own = make_node(tmp_path, "gateway", ["10.0.0.7", "fd00::7"], 10)
    command = ["openssl", "verify", "-x509_strict", "-CAfile", ca, "-verify_hostname", "gateway"]
    subprocess.run([*command, cert], check=True, capture_output=True)
    subprocess.run(
        ["openssl", "verify", "-CAfile", ca, "-verify_ip", "10.0.0.7", cert], check=True, capture_output=True
    )
    assert [stat.S_IMODE(path.stat().st_mode) for path in (key, own)] == [0o600, 0o600]


def test_nothing_is_overwritten_and_nothing_is_signed_without_an_authority(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no authority"):
        make_node(tmp_path, "gateway", [], 10)
    make_authority(tmp_path, "desk CA", 30)
    before = (tmp_path / "ca.key").read_bytes()
    with pytest.raises(ConfigError, match=r"ca\.key.* exists"):
        make_authority(tmp_path, "desk CA", 30)
    assert (tmp_path / "ca.key").read_bytes() == before
    with pytest.raises(ConfigError, match="name"):
        make_node(tmp_path, "../gateway", [], 10)


def test_the_commands_say_what_each_file_is_for(tmp_path: Path) -> None:
    run = CliRunner()
    made = run.invoke(app, ["ca", str(tmp_path)])
    assert made.exit_code == 0
    assert "tls_ca" in made.output
    made = run.invoke(app, ["node", "gateway", "--also", "10.0.0.7", "--ca", str(tmp_path)])
    assert made.exit_code == 0
    assert "tls_cert" in made.output
    assert (tmp_path / "gateway.pem").exists()
    assert run.invoke(app, ["node", "gateway", "--ca", str(tmp_path)]).exit_code == 2
