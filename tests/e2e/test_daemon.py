"""`shoal daemon` as a process: told otherwise, asked, wrong files, programs that connect."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from programs import unique_group

import shoal
from shoal.processes.daemon import DaemonProcess

EXAMPLES = Path(__file__).parents[2] / "examples/daemon"
SHOAL = [sys.executable, "-m", "shoal.cli"]


def test_sighup_opens_and_closes_links_and_a_wrong_file_changes_nothing() -> None:
    first = '[link.clients]\nlisten = "tcp://127.0.0.1:0"\n'
    http = '[http]\nlisten = "127.0.0.1:0"\n[log]\nformat = "json"\n'
    with DaemonProcess(first + http) as daemon:

        def logged(word: str) -> str:
            lines = [json.loads(line)["message"] for line in daemon.said.splitlines()]
            found = [line for line in lines if word in line]
            assert found, daemon.said
            return str(found[-1])

        url = logged("is ready").rpartition("http at ")[2].rstrip(".")

        def status() -> dict[str, Any]:
            with urllib.request.urlopen(url + "/status", timeout=10) as answer:
                return dict(json.load(answer))

        before = status()
        assert ([link["name"] for link in before["links"]], before["healthy"]) == (["clients"], True)
        with shoal.connect(before["links"][0]["url"]) as bus:
            assert bus.members == [before["node"]]
            more = '[link.more]\nlisten = "tcp://127.0.0.1:0"\n'
            daemon.reload(first + more + http)
            assert "opened more" in logged("again: ")
            after = status()
            assert {link["name"] for link in after["links"]} == {"clients", "more"}
            assert bus.members == [after["node"]], "whoever was connected stays so"
            daemon.reload(first + "[link.x]\nurl = 'ftp://x'\n")
            assert "line 4" in logged("Ignored the changes")
            daemon.reload(first + more + http + "[connection]\nheartbeat_s = 1\n")
            assert "needs a restart" in logged("Ignored the changes")
            assert status()["reloads"] == 1
            group = f"norm://{unique_group()}?interface=lo"
            lan = f'[link.lan]\nurl = "{group}"\n'
            daemon.reload(first + lan + http)
            assert "closed more, opened lan" in logged("again: ")
            assert {link["name"] for link in status()["links"]} == {"clients", "lan"}
            assert bus.members == [after["node"]], "whoever was connected stays so"
            daemon.reload(lan + http)
            assert "closed clients" in logged("again: ")
            down = next(event for event in bus.events(timeout_s=60) if isinstance(event, shoal.LinkDown))
            assert down.left, down
            assert [link["name"] for link in status()["links"]] == ["lan"]
        with shoal.connect(group) as bus:
            assert next(event for event in bus.events(60) if isinstance(event, shoal.MemberJoined))
            daemon.reload(first + http)
            assert "closed lan, opened clients" in logged("again: ")
            left = next(event for event in bus.events(60) if isinstance(event, shoal.MemberLeft))
            assert (left.node, left.failed) == (before["node"], False)
            assert (status()["members"], status()["healthy"]) == (0, True)
        assert daemon.end() == 0


def test_a_file_that_is_wrong_or_cannot_be_opened_ends_it_with_a_line(tmp_path: Path) -> None:
    path = tmp_path / "shoald.toml"
    path.write_text('[link.lan]\nurl = "norm://"\ninterface = 3\n')
    ran = subprocess.run([*SHOAL, "daemon", str(path), "--check"], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr.count("\n")) == (2, 1)
    assert "line 3" in ran.stderr
    path.write_text('[link.lan]\nurl = "norm://?interface=nosuch0"\n')
    ran = subprocess.run([*SHOAL, "daemon", str(path)], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, "nosuch0" in ran.stderr) == (1, True), ran.stderr
    assert "Traceback" not in ran.stderr


def test_every_example_is_right() -> None:
    files = sorted(EXAMPLES.glob("*.toml"))
    assert files
    for path in files:
        command = [*SHOAL, "daemon", str(path), "--check"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr


def test_nodes_and_links_show_daemons_as_tables_json_and_pictures(tmp_path: Path) -> None:
    group = unique_group()
    file = f'name = "hall"\n[link.lan]\nurl = "norm://{group}?interface=lo"\n'
    with DaemonProcess(file):

        def shoal(*arguments: str) -> str:
            command = [*SHOAL, *arguments, "--url", f"norm://{group}?interface=lo", "--wait", "15"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

        assert re.search(r"^\d+ +hall +router listener +1/1 ", shoal("nodes"), re.MULTILINE)
        links = [json.loads(line) for line in shoal("links", "--json").splitlines()]
        assert {(link["name"], link["kind"], link["state"]) for link in links} == {
            ("lan", "norm", "up"),
        }
        picture = tmp_path / "network.svg"
        shoal("links", "--svg", str(picture))
        assert "hall" in picture.read_text()
        assert "graph shoal" in shoal("nodes", "--dot")
    # Nobody is there any more.
    ran = subprocess.run(
        [*SHOAL, "nodes", "--url", f"norm://{group}?interface=lo", "--wait", "0.5"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ran.returncode, "no node answered" in ran.stderr) == (1, True)
