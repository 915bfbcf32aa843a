"""Daemons as units of systemd. A program stands in for systemctl and journalctl."""

import os
import sys
from pathlib import Path

import pytest

from shoal.config.orders import Order, OrderRefusedError
from shoal.daemon import units
from shoal.daemon.host import Daemons
from shoal.daemon.units import Units

RIGHT = 'domain = "unit-tests"\n[link.lan]\nlisten = "tcp://127.0.0.1:0"\n'
STAND_IN = f"""#!{sys.executable}
import os, sys
from pathlib import Path
here = Path(__file__).parent
name, (manager, *arguments) = Path(__file__).name, sys.argv[1:]
with (here / "calls").open("a") as calls:
    print(name, manager, *arguments, file=calls)
state = here / "state"
if name == "journalctl":
    print("one\\ntwo")
elif arguments[0] == "show":
    running = state.exists()
    print(f"LoadState=loaded\\nActiveState={{'active' if running else 'failed'}}")
    print(f"MainPID={{os.getppid() if running else 0}}\\nExecMainStatus={{0 if running else 3}}")
elif arguments[0] == "start":
    state.touch()
elif arguments[0] == "stop":
    state.unlink()
elif (here / "broken").exists():
    sys.exit("Failed to reload: Access denied")
"""


@pytest.fixture
def bin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("systemctl", "journalctl"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def daemons(tmp_path: Path) -> Daemons:
    (tmp_path / "edge.toml").write_text(RIGHT)
    (tmp_path / "a b.toml").write_text(RIGHT)
    return Daemons(tmp_path, None, Units("system"))


def ordered(what: str, daemon: str = "") -> Order:
    return Order(what, daemon, "ada", "nonce")


def test_orders_reach_the_unit_of_the_file(daemons: Daemons, bin: Path) -> None:
    started = daemons.obey(ordered("start", "edge"))["daemon"]
    assert started["running"]
    assert started["pid"] == os.getpid()
    assert started["since"] > 0
    with pytest.raises(OrderRefusedError, match="runs already"):
        daemons.obey(ordered("start", "edge"))
    daemons.obey(ordered("reload", "edge"))
    assert daemons.obey(ordered("log", "edge")) == {"lines": ["one", "two"]}
    stopped = daemons.obey(ordered("stop", "edge"))["daemon"]
    assert stopped == {"name": "edge", "running": False, "pid": None, "since": None, "ended_with": 3}
    with pytest.raises(OrderRefusedError, match="does not run"):
        daemons.obey(ordered("reload", "edge"))
    calls = (bin / "calls").read_text().splitlines()
    acts = [call for call in calls if " show " not in call]
    assert acts == [
        "systemctl --system start shoald@edge.service",
        "systemctl --system reload shoald@edge.service",
        "journalctl --system --no-pager --quiet --output=cat --lines=200 --unit=shoald@edge.service",
        "systemctl --system stop shoald@edge.service",
    ]


def test_a_file_that_is_wrong_or_has_another_name_leads_to_no_unit(
    daemons: Daemons, bin: Path, tmp_path: Path
) -> None:
    with pytest.raises(OrderRefusedError, match="cannot be a unit's name"):
        daemons.obey(ordered("start", "a b"))
    for name in ("../edge", "--force", "edge.service", ""):
        with pytest.raises(OrderRefusedError, match="there is no"):
            daemons.obey(ordered("start", name))
    (tmp_path / "edge.toml").write_text("nothing = 1")
    with pytest.raises(OrderRefusedError, match="its file is wrong"):
        daemons.obey(ordered("start", "edge"))
    assert not (bin / "state").exists()


def test_what_systemctl_says_is_told(
    daemons: Daemons, bin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    daemons.obey(ordered("start", "edge"))
    (bin / "broken").touch()
    with pytest.raises(OrderRefusedError, match="systemctl: Failed to reload: Access denied"):
        daemons.obey(ordered("reload", "edge"))
    (bin / "systemctl").write_text(f"#!{sys.executable}\nimport time; time.sleep(60)\n")
    monkeypatch.setattr(units, "ANSWER_S", 0.2)
    with pytest.raises(OrderRefusedError, match=r"did not answer within 0\.2 s"):
        daemons.obey(ordered("stop", "edge"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(OrderRefusedError, match="this host has no systemctl"):
        daemons.obey(ordered("stop", "edge"))
