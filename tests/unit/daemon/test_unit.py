"""The unit for systemd, and the file that the container image runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.daemon import load
from shoal.daemon.unit import unit

REPOSITORY = Path(__file__).parents[3]


def test_the_unit_runs_this_shoal_with_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/shoal/bin/{name}")
    assert "ExecStart=/opt/shoal/bin/shoal daemon /etc/shoal/%i.toml\n" in unit()
    assert "ProtectHome=yes" in unit()
    monkeypatch.setattr(shutil, "which", lambda name: f"/home/me/.venv/bin/{name}")
    assert "ExecStart=/home/me/.venv/bin/shoal daemon" in unit()
    assert "ProtectHome=read-only" in unit()
    beside = tmp_path / "shoal"
    beside.touch()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert f"ExecStart={beside} daemon" in unit()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_knows_every_line_of_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "shoald@gate.service"
    file.write_text(unit().replace("/bin/kill", shutil.which("kill") or "/bin/kill"))
    done = subprocess.run(["systemd-analyze", "verify", file], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if file.name in line]
    assert said == []


def test_the_images_daemon_listens_to_other_containers() -> None:
    config = load(REPOSITORY / "packaging" / "shoald.toml")
    assert config.links["clients"].listens
    assert config.http is not None
    assert config.http.address() == ("0.0.0.0", 7480)
