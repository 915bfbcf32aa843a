"""Daemons that know a registry's address and nothing else, and programs that ask it for a daemon."""

import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import shoal
from shoal.bus.events import MessagesLost
from shoal.cli.token import new
from shoal.config.tokens import read_token
from shoal.errors import LinkError
from shoal.link.events import LinkDown, LinkUp, Roamed
from shoal.link.registry_client import RegistryClient

PATIENCE_S = 30.0
DOMAIN = "registry-test"


def until(true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, f"not within {patience_s} s: {what}"
        time.sleep(0.05)


class Network:
    """A registry and daemons, each a process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.processes: dict[str, subprocess.Popen[str]] = {}
        self.url, self.port = "", 0

    def _start(self, name: str, *arguments: str) -> Path:
        log = self._folder / f"{name}-{len(self.processes)}.log"
        with log.open("w") as out:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "shoal.cli", *arguments], stderr=out, stdout=out, text=True
            )
        return log

    def start_registry(self, port: int) -> None:
        log = self._start("registry", "registry", "--listen", f"127.0.0.1:{port}")
        until(lambda: "ready at" in log.read_text(), "the registry is ready")
        found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
        assert found is not None
        self.url, self.port = found[0], int(found[1])
        self.client = RegistryClient(self.url, DOMAIN)

    def start_daemon(self, name: str, connections_max: int = 1000, more: str = "") -> None:
        file = self._folder / f"{name}.toml"
        file.write_text(
            f"name = '{name}'\ndomain = '{DOMAIN}'\n[link.wan]\nlisten = 'tcp://127.0.0.1:0'\n"
            f"[registry]\nurls = ['{self.url}']\n[connection]\nconnections_max = {connections_max}\n{more}"
        )
        self._start(name, "daemon", str(file))

    def drain(self, name: str, *options: str) -> None:
        command = [sys.executable, "-m", "shoal.cli", "daemon", "drain", str(self._folder / f"{name}.toml")]
        subprocess.run([*command, *options], check=True, timeout=PATIENCE_S, capture_output=True)

    def proved(self) -> dict[str, str]:
        """The addresses of daemons to which clients are sent, by name."""
        listing = self.client.listing()
        assert listing is not None
        return {each.name: each.endpoints[0].target.url for each in listing.records if each.endpoints}

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)

    def names(self) -> set[str]:
        listing = self.client.listing()
        return set() if listing is None else {record.name for record in listing.records}

    def name_at(self, address: str) -> str:
        """The daemon that listens at an address."""
        listing = self.client.listing()
        assert listing is not None
        ports = {record.endpoints[0].port: record.name for record in listing.records}
        return ports[int(address.rpartition(":")[2])]

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait(10)


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    made = Network(tmp_path)
    try:
        made.start_registry(0)
        yield made
    finally:
        made.close()


def connected(bus: shoal.Bus) -> int:
    """Routers that a program's network has."""
    return sum(node.router for node in bus.network)


@contextlib.contextmanager
def program(url: str) -> Iterator[shoal.Bus]:
    """A connection that does not wait for what a dead daemon confirmed when it closes."""
    bus = shoal.connect(url)
    try:
        yield bus
    finally:
        bus.close(0)


def daemon_of(bus: shoal.Bus) -> str:
    """The address of the daemon that a program uses; empty while there is none."""
    return next((link.address for link in bus.links if link.role == "connect" and link.state == "up"), "")


def test_a_daemon_serves_the_registry_that_it_registers_with(network: Network) -> None:
    network.kill("registry")
    served = f"[roles]\nregistry = true\n[registry.server]\nlisten = '127.0.0.1:{network.port}'\n"
    network.start_daemon("first", more=served)
    network.start_daemon("second")

    def roles() -> dict[str, tuple[str, ...]]:
        with contextlib.suppress(LinkError):
            listing = network.client.listing()
            return {} if listing is None else {record.name: record.roles for record in listing.records}
        return {}

    until(lambda: len(roles()) == 2, "both daemons are registered")
    assert [name for name, found in roles().items() if "registry" in found] == ["first"]
    with program(f"locate://127.0.0.1:{network.port}/{DOMAIN}") as bus:
        until(lambda: connected(bus) == 2, "the daemons are one network")


def test_a_console_beside_a_registry_shows_daemons_that_it_found(network: Network, tmp_path: Path) -> None:
    new("eye", tmp_path / "tokens", tmp_path / "eye.token", "viewer")
    network.start_daemon("plain")
    shown = "[roles]\nconsole = true\n[console]\nlisten = '127.0.0.1:0'\ntokens = 'tokens'\ndata = '.'\n"
    network.start_daemon("shown", more=shown)
    log = next(tmp_path.glob("shown-*.log"))
    until(lambda: "console is ready at" in log.read_text(), "the console is ready")
    found = re.search(r"console is ready at (http://[^\s]+[0-9])", log.read_text())
    assert found is not None
    asked = urllib.request.Request(
        f"{found[1]}/api/v1/state?tables=nodes",
        headers={"Authorization": f"Bearer {read_token(tmp_path / 'eye.token').text}"},
    )

    def names() -> set[str]:
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            return {row.get("name", "") for row in json.load(answer)["tables"]["nodes"]["set"].values()}

    until(lambda: {"plain", "shown"} <= names(), "the console shows both daemons")


def test_daemons_find_each_other_and_outlive_the_registry(network: Network) -> None:
    for number in range(4):
        network.start_daemon(f"d{number}")
    until(lambda: len(network.names()) == 4, "all daemons are registered")
    url = f"locate://127.0.0.1:{network.port}/{DOMAIN}"
    with program(url) as reader, program(url) as writer:
        until(lambda: connected(reader) == 4 and connected(writer) == 4, "the daemons are one network")
        messages = reader.subscribe("t/>", wait=True)
        network.kill("registry")
        writer.wait_for_subscribers("t/x")
        writer.publish("t/x", "without a registry")
        assert messages.receive(PATIENCE_S).body == "without a registry"  # type: ignore[union-attr]
        network.start_registry(network.port)
        network.start_daemon("late")
        until(lambda: len(network.names()) == 5, "the list is complete again")
        until(lambda: connected(writer) == 5, "the new daemon is part of the network")
        # On a machine under load a daemon may be suspected, and left on purpose.
        downs = [event for event in writer.events(timeout_s=0) if isinstance(event, LinkDown)]
        assert not [event for event in downs if not event.left]


def test_a_program_goes_on_at_another_daemon(network: Network) -> None:
    for number in range(3):
        network.start_daemon(f"d{number}")
    until(lambda: len(network.names()) == 3, "all daemons are registered")
    url = f"locate://127.0.0.1:{network.port}/{DOMAIN}"
    with program(url) as reader, program(url) as writer:
        until(lambda: connected(reader) == 3 and connected(writer) == 3, "the daemons are one network")
        messages = reader.subscribe("t/>", wait=True)
        writer.wait_for_subscribers("t/x")
        writer.publish("t/x", "before")
        assert messages.receive(PATIENCE_S).body == "before"  # type: ignore[union-attr]
        address = daemon_of(writer)
        network.kill(network.name_at(address))
        for one in (writer, reader):
            until(lambda one=one: daemon_of(one) not in ("", address), "both have other daemons")
        writer.wait_for_subscribers("t/x")
        writer.publish("t/x", "after")
        assert messages.receive(PATIENCE_S).body == "after"  # type: ignore[union-attr]
        events = list(writer.events(timeout_s=0))
        assert len([event for event in events if isinstance(event, LinkUp)]) >= 2
        assert any(isinstance(event, Roamed) for event in events)


class Flow:
    """Numbered messages from one program to another."""

    def __init__(self, writer: shoal.Bus, reader: shoal.Bus) -> None:
        self._writer, self._reader = writer, reader
        self._messages = reader.subscribe("flow/>", wait=True)
        self._published = 0
        self.got: list[int] = []
        writer.wait_for_subscribers("flow/x")

    def publish_until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not true():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
            for _ in range(20):
                self._writer.publish("flow/x", self._published)
                self._published += 1
            time.sleep(0.02)

    def check(self) -> list[Roamed]:
        """Everything came once and in order, or was reported as lost: where the reader roamed meanwhile."""
        self._writer.publish("flow/end", -1)
        while (message := self._messages.receive(PATIENCE_S)) is not None and message.body >= 0:
            self.got.append(message.body)
        events = list(self._reader.events(timeout_s=0))
        lost = sum(each.last - each.first + 1 for each in events if isinstance(each, MessagesLost))
        assert self.got == sorted(set(self.got))
        assert self._published - len(self.got) <= lost, f"{len(self.got)} of {self._published}: {events}"
        return [event for event in events if isinstance(event, Roamed)]


@pytest.mark.parametrize("how", ["drain", "SIGTERM"])
def test_a_daemon_that_leaves_sends_its_programs_elsewhere_and_loses_nothing_silently(
    network: Network, how: str
) -> None:
    for number in range(3):
        network.start_daemon(f"d{number}")
    until(lambda: len(network.proved()) == 3, "all daemons proved their addresses")
    # One address is all that the programs know.
    url = f"{network.proved()['d0']}?domain={DOMAIN}"
    with program(url) as reader, program(url) as writer:
        until(lambda: connected(writer) == 3, "the daemons are one network")
        flow, before = Flow(writer, reader), daemon_of(writer)
        if how == "drain":
            network.drain("d0")
        else:
            network.processes["d0"].send_signal(signal.SIGTERM)
        for one in (reader, writer):
            flow.publish_until(lambda one=one: daemon_of(one) not in ("", before), "both have other daemons")
        if how == "drain":
            flow.publish_until(lambda: "d0" in network.names(), "a drained daemon stays")
            with program(url) as late:
                until(lambda: daemon_of(late) not in ("", before), "a program that comes later is sent on")
            network.drain("d0", "--end")
            until(lambda: network.client.locate().candidates, "it may be used again")
        else:
            process = network.processes["d0"]
            flow.publish_until(lambda: process.poll() is not None, "it ends")
            assert process.returncode == 0
        roamed = [event for event in writer.events(timeout_s=0) if isinstance(event, Roamed)]
        for told in (flow.check(), roamed):
            assert [(event.link, event.why) for event in told] == [
                (url.partition("?")[0], "the daemon sent this program elsewhere")
            ]


def test_a_full_daemon_sends_programs_to_another(network: Network) -> None:
    network.start_daemon("small", connections_max=2)
    network.start_daemon("large")
    until(lambda: len(network.proved()) == 2, "both daemons proved their addresses")
    url = f"{network.proved()['small']}?domain={DOMAIN}"
    with contextlib.ExitStack() as stack:
        programs = [stack.enter_context(program(url)) for _ in range(5)]
        for one in programs:
            until(lambda one=one: daemon_of(one), "every program has a daemon")
        used = [network.name_at(daemon_of(one)) for one in programs]
        assert used.count("large") >= 3


def test_a_daemon_that_stands_still_is_left(network: Network) -> None:
    for number in range(3):
        network.start_daemon(f"d{number}")
    until(lambda: len(network.proved()) == 3, "all daemons proved their addresses")
    with program(f"locate://127.0.0.1:{network.port}/{DOMAIN}") as bus:
        until(lambda: daemon_of(bus), "it has a daemon")
        before = daemon_of(bus)
        victim = network.processes[network.name_at(before)]
        victim.send_signal(signal.SIGSTOP)
        try:
            until(lambda: daemon_of(bus) not in ("", before), "it has another daemon")
        finally:
            victim.send_signal(signal.SIGCONT)
        assert any(
            "nothing was heard" in each.why for each in bus.events(timeout_s=0) if isinstance(each, Roamed)
        )
