"""`shoal.connect()` on hosts without multicast: programs of one machine meet, and seeds lead further."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lab
import pytest
from programs import HERE, Failure, Program

pytestmark = pytest.mark.skipif(lab.problem() is not None, reason=str(lab.problem()))


@pytest.fixture
def hosts() -> Iterator[list[lab.Host]]:
    """Two machines whose systems let nobody join a group."""
    made = lab.Lab(2)
    for host in made.hosts:
        lab.run(*host.prefix, "sysctl", "-qw", "net.ipv4.igmp_max_memberships=0")
    yield made.hosts
    made.close()


@pytest.fixture
def on() -> Iterator[Callable[..., Program]]:
    """`on(host)`: a program there that connects as the environment says."""
    programs: list[Program] = []

    def start(host: lab.Host, *, url: str = "", seeds: str = "", **options: Any) -> Program:
        env = {"SHOAL_URL": "", "SHOAL_DOMAIN": "", "SHOAL_SEEDS": seeds}
        arguments = [
            str(HERE / "peer.py"),
            url,
            json.dumps({"reconnect_max_s": 0.3, "resume_s": 1.0, **options}),
        ]
        program = Program(arguments, prefix=host.prefix, env=env)
        programs.append(program)
        program.answer()
        return program

    yield start
    for program in programs:
        program.kill()


def gets(reader: Program, writer: Program, source: int, count: int = 200) -> None:
    writer.ask("wait_for_subscribers", topic="t/x", count=1)
    writer.ask("publish", topic="t/x", count=count, sizes=[100], source=source)
    answer = reader.ask("wait_received", pattern="t/>", source=source, count=count)
    assert answer["received"][str(source)] == {
        "first": 0, "next": count, "count": count, "skipped": 0, "faults": [],
    }  # fmt: skip


def joined(reader: Program, writer: Program) -> None:
    """Wait until what is published gets there: what goes to a program that is dead is lost, and told."""
    deadline, source = time.monotonic() + 60, 1000
    while True:
        assert time.monotonic() < deadline, "nothing gets there"
        source += 1
        writer.ask("publish", topic="t/x", count=1, sizes=[100], source=source)
        with contextlib.suppress(Failure):
            reader.ask("wait_received", pattern="t/>", source=source, count=1, timeout_s=0.3)
            return


def test_programs_of_a_machine_hear_each_other_and_go_on_when_the_first_one_is_killed(
    hosts: list[lab.Host], on: Callable[..., Program]
) -> None:
    first, reader, writer = (on(hosts[0]) for _ in range(3))
    reader.ask("subscribe", pattern="t/>")
    gets(reader, writer, source=0)
    assert "SHOAL-2002 No multicast" in first.errors
    assert "SHOAL_SEEDS=host:port" in first.errors
    first.kill()
    joined(reader, writer)
    gets(reader, writer, source=1)


@pytest.mark.parametrize("seeds", ["", ","])
def test_programs_of_a_machine_with_nothing_but_loopback_meet_and_say_so(
    hosts: list[lab.Host], on: Callable[..., Program], seeds: str
) -> None:
    host = hosts[0]
    lab.run(*host.prefix, "sysctl", "-qw", "net.ipv4.igmp_max_memberships=20")
    host.unplug()
    reader, writer = on(host, seeds=seeds), on(host, seeds=seeds)
    reader.ask("subscribe", pattern="t/>")
    gets(reader, writer, source=0)
    for program in (reader, writer):
        assert program.errors.count("SHOAL-2002") == 1
        assert "only lo can do it" in program.errors
        assert (
            "using TCP on this machine (tcp://127.0.0.1:7474). To reach other hosts, set SHOAL_SEEDS"
            in program.errors
        )
    asked = on(host, url="norm://?interface=lo", router=True)
    assert asked.ask("node")["link"]["interface"] == "lo"
    assert "SHOAL-2002" not in asked.errors


def test_seeds_lead_to_other_machines(hosts: list[lab.Host], on: Callable[..., Program]) -> None:
    here, there = hosts
    on(there, url=f"tcp://{there.address}:7474", listen=True, router=True)
    reader, writer = on(here, seeds=there.address), on(there, seeds=there.address)
    reader.ask("subscribe", pattern="t/>")
    gets(reader, writer, source=0)
    assert f"connecting by TCP to the seeds tcp://{there.address}:7474" in reader.errors


#: A machine with nothing but loopback: a store, or a program that is one, and a program that uses it.
OFFLINE = """
import json, subprocess, sys, time, shoal
data, beside = sys.argv[1:]
program = "import sys, time, shoal; bus = shoal.connect(store=sys.argv[1]); time.sleep(600)"
command = ["-c", program, data] if beside == "beside" else ["-m", "shoal.cli", "store", "--data", data]
store = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    with shoal.connect() as bus, shoal.connect() as other:
        bus.queue("jobs").send("x", timeout_s=60)
        print(json.dumps({"received": other.queue("jobs").receive(60).body}))
finally:
    store.kill()
    store.wait()
"""


@pytest.mark.parametrize("beside", ["beside", "alone"])
def test_a_store_and_programs_of_a_machine_meet_on_loopback_alone(tmp_path: Path, beside: str) -> None:
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    command = [*inside, sys.executable, "-c", OFFLINE, str(tmp_path / "data"), beside]
    env = {**os.environ, "SHOAL_URL": "", "SHOAL_DOMAIN": "", "SHOAL_SEEDS": ""}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False, env=env)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == {"received": "x"}


#: A machine whose loopback interface is down: a program alone, one with a store, and one beside another.
CUT_OFF = """
import json, sys, time, shoal
said = {}
with shoal.connect() as bus, bus.subscribe("a") as heard:
    bus.publish("a", 1)
    said["alone"] = heard.receive(10).body
with shoal.connect(store=sys.argv[1]) as bus:
    try:
        bus.queue("jobs").send("x")
    except shoal.NoStoreError as error:
        said["stored"] = str(error)
with shoal.connect() as host:
    began = time.monotonic()
    with shoal.connect(connect_timeout_s=0.5) as guest:
        said["waited_s"] = time.monotonic() - began
print(json.dumps(said))
"""


def test_a_machine_without_loopback_says_so_and_no_program_waits_for_ever(tmp_path: Path) -> None:
    command = ["unshare", "--net", sys.executable, "-c", CUT_OFF, str(tmp_path / "data")]
    env = {**os.environ, "SHOAL_URL": "", "SHOAL_DOMAIN": "", "SHOAL_SEEDS": ""}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, env=env)
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    assert said["alone"] == 1
    assert "needs the store of this program" in said["stored"]
    assert said["stored"].endswith("over which programs of this machine meet: ip link set lo up")
    assert said["waited_s"] < 5.0
    assert "the loopback interface is down: this program reaches no other one" in ended.stderr
    assert "using TCP on this machine" not in ended.stderr
