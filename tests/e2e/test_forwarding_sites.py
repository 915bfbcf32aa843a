"""Stores that forward, as processes: three sites in a line, and the commands of operators."""

import json
import secrets
import subprocess
import sys
import time
from pathlib import Path

import kill_forwarding
import pytest
from kill_forwarding import PATIENCE_S, Relay, Site, rule

import shoal
from shoal.store.status import read_status


@pytest.mark.parametrize("release", ["stored", "passed"])
def test_each_message_arrives_once_though_stores_are_killed_and_links_cut(release: str) -> None:
    assert kill_forwarding.run(4, secrets.randbits(32), release=release) > 100


def command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "shoal.cli", "store", "forward", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout + done.stderr


def test_operators_see_a_backlog_drop_it_and_let_a_rule_go_on_after_a_restore(tmp_path: Path) -> None:
    hq = Site(tmp_path, "hq")
    relay = Relay(hq.port)
    branch = Site(tmp_path, "branch", rule(relay, hq.domain, "stored"))
    try:
        with shoal.connect(f"inproc://{branch.domain}", store=branch.url) as bus:
            bus.publish("orders/1", "a", persistent=True)
            wait_for(branch, state="open", messages=0)
            relay.cut()
            bus.publish("orders/1", "b", persistent=True)
            wait_for(branch, state="connecting", messages=1)
            assert "1 messages" in command("status", "--data", str(branch.data))
            told = json.loads(command("status", "--data", str(branch.data), "--json"))
            assert [rule["state"] for rule in told["forwards"]] == ["connecting"]
            assert "dropped 1 messages" in command("drop", "on", "--data", str(branch.data))
            wait_for(branch, messages=0)
            bus.publish("orders/1", "c", persistent=True)
            # The next store is restored from a copy meanwhile.
            hq.stop()
            run_store("backup", str(tmp_path / "copy"), "--data", str(hq.data))
            hq.data.rename(tmp_path / "old")
            run_store("restore", str(tmp_path / "copy"), "--data", str(hq.data))
            hq.start()
            relay.mend()
            wait_for(branch, state="stopped", messages=1)
            assert "was restored from a copy" in command("status", "--data", str(branch.data))
            assert "goes on" in command("resume", "on", "--data", str(branch.data))
            wait_for(branch, state="open", messages=0)
        assert "there is no rule 'x'" in command("resume", "x", "--data", str(branch.data))
        for site in (branch, hq):
            site.stop()
        assert hq.bodies() == ["a", "c"]
    finally:
        relay.close()
        for site in (branch, hq):
            site.process.kill()
            site.process.wait()


def run_store(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "shoal.cli", "store", *arguments],
        check=True,
        timeout=PATIENCE_S,
        capture_output=True,
    )


def wait_for(site: Site, **wanted: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        (found,) = read_status(site.data)["forwards"]
        if all(found[name] == value for name, value in wanted.items()):
            return
        assert time.monotonic() < deadline, f"{found}, and not {wanted}"
        time.sleep(0.05)
