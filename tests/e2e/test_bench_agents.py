"""Agents in network namespaces that a 100 Mbit/s LAN joins: checked, then measured. And under attack."""

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import shoal
from shoal_bench.check import check
from shoal_bench.frames import FRAME_BYTES_MAX, Channel
from shoal_bench.hosts import Control
from shoal_bench.lab import Lab
from shoal_bench.norm import free_port

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

SHOAL = [sys.executable, "-m", "shoal.cli", "bench"]
PORT = 7490


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A coordinator's host, and two with an agent each."""
    secret = tmp_path / "bench.key"
    secret.write_text("a secret of enough bytes\n")
    with Lab(3) as made, ExitStack() as stack:
        control = f"tcp://{made.address(0)}:{PORT}"
        for number in (1, 2):
            words = ["agent", "--control", control, "--secret-file", str(secret), "--name", f"h{number}"]
            process = subprocess.Popen([*made.within(number), *SHOAL, *words])
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield made


def coordinate(lab: Lab, *words: str) -> "subprocess.CompletedProcess[str]":
    common = ["--control", f"tcp://{lab.address(0)}:{PORT}"]
    return subprocess.run(
        [*lab.within(0), *SHOAL, *words, *common], capture_output=True, text=True, timeout=110
    )


@as_root
def test_agents_are_checked_and_measure_a_cell_between_hosts(lab: Lab, tmp_path: Path) -> None:
    secret = ["--secret-file", str(tmp_path / "bench.key")]
    checked = coordinate(lab, "check", "h1", "h2", *secret)
    assert checked.returncode == 0, checked.stderr + checked.stdout
    assert checked.stdout.count("100%") == 4, checked.stdout
    words = ["seeds", "fiorano-size", "--quick", "--cells", "1", "--seconds", "1", "--no-strict"]
    words += ["--hosts", "h1,h2", *secret, "--store", str(tmp_path / "runs"), "--json", "-"]
    ran = coordinate(lab, *words)
    assert ran.returncode == 0, ran.stderr
    (cell,) = json.loads(ran.stdout)["experiments"]["fiorano-size"]["cells"]
    assert (cell["contestant"], cell["overall_msg_s"] > 0) == ("routed", True)


@as_root
def test_another_secret_gets_no_agent(lab: Lab, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.key"
    wrong.write_text("another secret of enough bytes\n")
    refused = coordinate(lab, "check", "h1", "h2", "--secret-file", str(wrong), "--wait", "5")
    assert refused.returncode == 1
    assert "Is the secret the same?" in refused.stderr


SECRET = b"a secret of enough bytes"


class Attacker:
    """A program in the control domain that does not know the secret: it hears frames, and sends its own."""

    def __init__(self, bus: shoal.Bus, seed: int) -> None:
        self._bus, self._random = bus, random.Random(seed)
        self._heard: list[bytes] = []
        self._forger = Channel(b"another secret, as long as that", "h1", is_agent=False)
        self._over = threading.Event()
        self.sent = 0
        bus.subscribe("bench/agents/>", self._hear)
        self._thread = threading.Thread(target=self._run, name="attacker")

    def _hear(self, message: shoal.Message) -> None:
        if isinstance(message.body, bytes) and 0 < len(message.body) < 10_000 and len(self._heard) < 1000:
            self._heard.append(message.body)

    def _run(self) -> None:
        while not self._over.wait(0.005):
            for agent in ("h1", "h2"):
                topic = f"bench/agents/{agent}/{self._random.choice(('in', 'out'))}"
                self._bus.publish(topic, self._frame())
                self.sent += 1

    def _frame(self) -> object:
        draw = self._random
        replayed = draw.choice(self._heard) if self._heard else b"{}"
        changed = bytearray(replayed)
        changed[draw.randrange(len(changed))] = draw.randrange(256)
        return draw.choice(
            (
                replayed,
                bytes(changed),
                draw.randbytes(draw.randrange(200)),
                self._forger.seal({"do": "start", "id": "x", "role": "node", "options": {}}, to="0" * 32),
                json.dumps({"from": "\ud800", "to": "", "number": 1, "body": "{}", "mac": ""}).encode(),
                json.dumps({"from": "", "to": "", "number": 10**400, "body": "{}", "mac": ""}).encode(),
                b"[" * 100_000,
                {"do": "end"},
                "text",
                *([bytes(FRAME_BYTES_MAX + 1)] if draw.random() < 0.05 else []),
            )
        )

    def __enter__(self) -> "Attacker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


@pytest.mark.timeout(180)
def test_agents_refuse_what_an_attacker_sends_or_sends_again_and_serve_their_coordinator(
    tmp_path: Path,
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    secret = tmp_path / "bench.key"
    secret.write_bytes(SECRET)
    url = f"tcp://127.0.0.1:{free_port()}"
    logs = [tmp_path / f"{name}.log" for name in ("h1", "h2")]
    with ExitStack() as stack:
        agents = []
        running = stack.enter_context(Control(url, ["h1", "h2"], SECRET))
        attacker = Attacker(stack.enter_context(shoal.connect(url)), seed)
        stack.enter_context(attacker)
        for log in logs:
            words = ["agent", "--control", url, "--secret-file", str(secret), "--name", log.stem]
            process = subprocess.Popen([*SHOAL, *words], stderr=stack.enter_context(log.open("wb")))
            stack.callback(process.wait)
            stack.callback(process.terminate)
            agents.append(process)
        running.wait(60)
        paths = check([(host.name, host) for host in running.hosts])
        assert [agent.poll() for agent in agents] == [None, None]
        refused = [host.refused for host in running.hosts]
    assert all(path.is_fine for path in paths), paths
    assert attacker.sent > 50
    for log in logs:
        text = log.read_text()
        assert "Refused a frame" in text
        assert "Traceback" not in text, text
    assert all(refused), refused
