"""Three stores that keep one log, as processes: killed, stopped and ended under load."""

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import kill_group
import kill_queues
import lab
import pytest

import shoal
from shoal import history
from shoal.store.group_status import STATUS, read_group_status
from shoal.store.roster import SILENT_S
from shoal.store.verifying import verify

#: A new owner is elected and serves within this time, also on a busy machine.
PATIENCE_S = 40.0
NAMES = ("a", "b", "c")


class Members:
    """Stores of one group, each of which can be killed and started again."""

    def __init__(self, folder: Path, domain: str) -> None:
        self._folder, self._domain = folder, domain
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *options: str) -> None:
        config = self._folder / f"{name}.toml"
        given = ["--config", str(config)] if config.exists() else ["--data", str(self._folder / name)]
        given += [] if config.exists() else ["--name", name]
        command = [sys.executable, "-m", "shoal.cli", "store", *given]
        command += ["--domain", self._domain, "--interface", "lo", "--group", "g", *options]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, name: str, *, kill: bool = True) -> None:
        process = self._running.pop(name)
        (process.kill if kill else process.terminate)()
        assert kill or process.wait(PATIENCE_S) == 0, self.tell()
        process.wait()

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Start a store that is to refuse, and see what it says."""
        command = [sys.executable, "-m", "shoal.cli", "store", "--data", str(self._folder / name)]
        command += ["--domain", self._domain, "--interface", "lo", "--group", "g", "--name", name]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    def command(self, what: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Let an operator say something, at the owner."""
        command = [sys.executable, "-m", "shoal.cli", "store", "group", what, *arguments]
        command += ["--data", str(self._folder / self.owner())]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=3 * PATIENCE_S)

    def is_silent(self, at: str, name: str) -> bool:
        """Whether a member has not heard another one lately."""
        silent_s = next(each["silent_s"] for each in self.status(at)["members"] if each["name"] == name)
        return silent_s is not None and silent_s > SILENT_S

    def names(self, at: str) -> set[str]:
        """Who belongs to the group, as a member sees it."""
        return {each["name"] for each in self.status(at)["members"]}

    def status(self, name: str) -> dict[str, Any]:
        return read_group_status(self._folder / name)

    def owner(self) -> str:
        """Who owns the group, once one of those that run does."""
        found: list[str] = []

        def is_there() -> bool:
            found[:] = [name for name in self._running if self._says(name, "state") == "owner"]
            return len(found) == 1

        self.wait_until(is_there)
        return found[0]

    def _says(self, name: str, field: str) -> Any:
        path = self._folder / name / STATUS
        found = json.loads(path.read_text()) if path.exists() else {}
        # What an earlier life of it said says nothing.
        process = self._running.get(name)
        return found.get(field) if process is not None and found.get("pid") == process.pid else None

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < until, f"it did not happen:\n{self.tell()}"
            assert all(process.poll() is None for process in self._running.values()), self.tell()
            time.sleep(0.05)

    def tell(self) -> str:
        return "\n".join(
            f"--- {path.stem}\n{path.read_text()}" for path in sorted(self._folder.glob("*.log"))
        )

    def stop(self) -> None:
        for name in list(self._running):
            self.end(name)


@pytest.fixture
def domain() -> str:
    return f"group-{secrets.token_hex(4)}"


@pytest.fixture
def members(tmp_path: Path, domain: str) -> Iterator[Members]:
    made = Members(tmp_path, domain)
    made.start("a", "--bootstrap", "3")
    made.start("b")
    made.start("c")
    try:
        made.owner()
        yield made
    finally:
        made.stop()


@pytest.mark.timeout(240)
def test_a_queue_survives_its_owner_one_after_the_other(members: Members, domain: str) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        queue = bus.queue("work")
        sent = []
        for number in range(30):
            if number in (10, 20):
                owner = members.owner()
                members.end(owner, kill=number == 10)
                members.start(owner)
            queue.send({"number": number})
            sent.append(number)
        with queue.consume() as consumer:
            read = [consumer.receive(PATIENCE_S) for _ in sent]
        assert [message.body["number"] for message in read if message is not None] == sent

    def is_level() -> bool:
        entries = [members.status(name).get("entries") for name in NAMES]
        return len({json.dumps(each) for each in entries}) == 1

    # The one that was killed fetches what it missed, so all of them have the same.
    members.wait_until(is_level)


@pytest.mark.timeout(240)
def test_the_programs_of_the_tutorial_count_while_the_owner_is_lost(
    members: Members, tmp_path: Path, domain: str
) -> None:
    page = Path(__file__).parents[2] / "docs/tutorial/lose-a-machine.md"
    shown = page.read_text().replace("shoal.connect()", 'shoal.connect(interface="lo")')
    count, look = re.findall(r"```python\n(.*?)```", shown, re.DOTALL)
    here: dict[str, Any] = {"cwd": tmp_path, "env": {**os.environ, "SHOAL_DOMAIN": domain}}
    confirmed = tmp_path / "confirmed.txt"

    def lines() -> int:
        return len(confirmed.read_text().splitlines()) if confirmed.exists() else 0

    with subprocess.Popen([sys.executable, "-c", count], **here) as counting:
        members.wait_until(lambda: lines() > 20)
        members.end(members.owner())
        before = lines()
        members.wait_until(lambda: lines() > before + 20)
        counting.kill()
    looked = subprocess.run([sys.executable, "-c", look], **here, capture_output=True, text=True, check=False)
    assert " confirmed, 0 missing, " in looked.stdout, looked.stderr


@pytest.mark.timeout(240)
def test_without_a_majority_nothing_is_confirmed(members: Members, domain: str) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        queue = bus.queue("work")
        queue.send("one")
        owner = members.owner()
        others = [name for name in NAMES if name != owner]
        for name in others:
            members.end(name)
        with pytest.raises(shoal.ShoalError):
            queue.send("two", timeout_s=3.0)
        for name in others:
            members.start(name)
        members.owner()
        queue.send("three")


@pytest.mark.timeout(240)
def test_a_store_alone_refuses_the_directory_of_a_member(
    members: Members, tmp_path: Path, domain: str
) -> None:
    owner = members.owner()
    members.end(owner)
    command = [sys.executable, "-m", "shoal.cli", "store", "--data", str(tmp_path / owner)]
    refused = subprocess.run(
        [*command, "--domain", f"{domain}-2", "--interface", "lo"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode != 0
    assert "belongs to a member of a group" in refused.stderr


@pytest.mark.timeout(240)
def test_a_store_with_an_empty_disk_takes_the_place_of_one_that_is_lost(
    members: Members, tmp_path: Path, domain: str
) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        queue = bus.queue("work")
        for number in range(20):
            queue.send({"number": number})
        lost = next(name for name in NAMES if name != members.owner())
        members.end(lost)
        shutil.rmtree(tmp_path / lost)
        old = next(each for each in members.status(members.owner())["members"] if each["name"] == lost)
        members.start("d")
        added = members.command("add", "d", "--replace", old["member"])
        assert "d is a member now" in added.stdout, added.stderr
        owner = members.owner()
        members.wait_until(lambda: members.names(owner) == {"d", *NAMES} - {lost})
        # From now on the two that had the messages are not needed, one by one.
        first = members.owner()
        assert "owns the group" in members.command("transfer", "d").stdout
        members.end(first)
        queue.send({"number": 20})
        with queue.consume() as consumer:
            read = [consumer.receive(PATIENCE_S) for _ in range(21)]
        assert [message.body["number"] for message in read if message is not None] == list(range(21))


@pytest.mark.timeout(240)
def test_a_copy_of_a_members_directory_is_no_member(members: Members, tmp_path: Path) -> None:
    one = next(name for name in NAMES if name != members.owner())
    members.end(one, kill=False)
    shutil.copytree(tmp_path / one, tmp_path / "copy")
    refused = members.run("copy")
    assert "is a copy of a member's directory" in refused.stderr


@pytest.mark.timeout(240)
def test_a_store_that_was_taken_out_ends(members: Members, tmp_path: Path) -> None:
    owner = members.owner()
    one, other = (name for name in NAMES if name != owner)
    members.end(one)
    members.wait_until(lambda: members.is_silent(owner, one))
    refused = members.command("remove", other)
    assert refused.returncode != 0
    assert "add another store first, or remove this one with --force" in refused.stderr
    assert members.command("remove", one).returncode == 0
    assert "was taken out of the group" in members.run(one).stderr


@pytest.mark.timeout(240)
def test_a_member_that_follows_shows_the_rows_that_the_owner_shows(tmp_path: Path, domain: str) -> None:
    members = Members(tmp_path, domain)
    for name in NAMES:
        members.start(name, "--flight", "127.0.0.1:0", *(["--bootstrap", "3"] if name == "a" else []))
    try:
        owner = members.owner()
        follower = next(name for name in NAMES if name != owner)
        with shoal.connect(domain=domain, interface="lo") as bus:
            bus.subscribe("t/>", durable="d", shared=True).close()
            for number in range(50):
                bus.publish(f"t/{number % 3}", {"number": number}, persistent=True)
        members.wait_until(lambda: members.status(follower).get("flight") is not None)
        tables = []
        for name in (owner, follower):
            with history.connect(members.status(name)["flight"]) as shown:
                members.wait_until(lambda shown=shown: shown.info()["end"] == 50)
                tables.append(shown.read("t/1").to_pylist())
                if name == follower:
                    with pytest.raises(shoal.StoreError, match="follows another one and shows history alone"):
                        shown.hold("h", 0)
        assert len(tables[0]) == 17
        assert tables[0] == tables[1]
        # The follower becomes the owner, and shows the same at an address of its own.
        members.end(owner)
        assert members.owner() != owner
        left = [name for name in NAMES if name != owner]
        for name in left:
            members.wait_until(lambda name=name: members.status(name).get("flight") is not None)
            with history.connect(members.status(name)["flight"]) as shown:
                assert shown.read("t/1").num_rows == 17
    finally:
        members.stop()


@pytest.mark.timeout(240)
def test_a_damaged_segment_is_fetched_from_another_member(tmp_path: Path, domain: str) -> None:
    members = Members(tmp_path, domain)
    for name in NAMES:
        (tmp_path / f"{name}.toml").write_text(
            f'name = "{name}"\ndata = "{tmp_path / name}"\nsegment_bytes = {64 << 10}\n'
        )
        members.start(name, "--bootstrap", "3") if name == "a" else members.start(name)
    try:
        members.owner()
        with shoal.connect(domain=domain, interface="lo") as bus:
            queue = bus.queue("work")
            for _ in range(60):
                queue.send(bytes(5000))
        owner = members.owner()
        one = next(name for name in NAMES if name != owner)
        members.end(one, kill=False)
        segment = sorted((tmp_path / one).glob("[0-9]*.log"))[1]
        damaged = bytearray(segment.read_bytes())
        damaged[20_000] ^= 1
        segment.write_bytes(damaged)
        assert not verify(tmp_path / one)["whole"]
        members.start(one)
        members.wait_until(lambda: "Copied from another member what was missing" in members.tell())
        members.end(one, kill=False)
        assert verify(tmp_path / one)["whole"]
    finally:
        members.stop()


@pytest.mark.timeout(240)
def test_the_last_disk_goes_on_alone_when_it_is_forced(members: Members, tmp_path: Path, domain: str) -> None:
    with shoal.connect(domain=domain, interface="lo") as bus:
        queue = bus.queue("work")
        for number in range(20):
            queue.send({"number": number})
        owner = members.owner()
        other, lost = (name for name in NAMES if name != owner)
        for name in NAMES:
            members.end(name)
        shutil.rmtree(tmp_path / lost)
        members.wait_until(lambda: members.status(owner)["stale"])
        command = [sys.executable, "-m", "shoal.cli", "store", "group", "force", "--data"]
        refused = subprocess.run(
            [*command, str(tmp_path / owner)], capture_output=True, text=True, check=False
        )
        assert "add --yes" in refused.stderr
        done = subprocess.run(
            [*command, str(tmp_path / owner), "--yes"], capture_output=True, text=True, check=False
        )
        assert "has every message below offset 20;" in done.stdout, done.stderr
        members.start(owner)
        assert members.owner() == owner
        # One that comes back is no member any more: it could own the group with the third.
        assert "was forced to go on without this store" in members.run(other).stderr
        queue.send({"number": 20})
        with queue.consume() as consumer:
            read = [consumer.receive(PATIENCE_S) for _ in range(21)]
        assert [message.body["number"] for message in read if message is not None] == list(range(21))
        members.start("d")
        assert "d is a member now" in members.command("add", "d").stdout


@pytest.mark.timeout(5 * kill_queues.PATIENCE_S)
def test_nothing_is_lost_when_members_are_killed_and_stopped() -> None:
    messages, _ = kill_queues.run(5, 2.0, stores=kill_queues.GROUP)
    assert messages > 0


@pytest.mark.skipif(lab.problem() is not None, reason=str(lab.problem()))
@pytest.mark.timeout(5 * kill_queues.PATIENCE_S)
def test_nothing_is_lost_when_disks_are_lost_and_full_and_cables_pulled(tmp_path: Path) -> None:
    verdict = kill_group.run(6, tmp_path / "history.jsonl", pause_s=1.0)
    assert verdict["promised"] > 0
    assert len((tmp_path / "history.jsonl").read_text().splitlines()) == 8
