"""Twelve daemons on hosts of their own that know the registries' addresses alone; registries fail."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import lab
import pytest
from programs import HERE, Program

DOMAIN, DAEMONS = "lab-registry", 12
#: A busy machine is given far longer than it takes.
PATIENCE_S = 60.0


def until(true: Callable[[], object], what: str, patience_s: float = PATIENCE_S) -> float:
    began = time.monotonic()
    while not true():
        assert time.monotonic() < began + patience_s, f"not within {patience_s} s: {what}"
        time.sleep(0.05)
    return time.monotonic() - began


class Site:
    """Hosts of one LAN: two registries on the first, a daemon on each of the others, a client on the last."""

    def __init__(self, hosts: list[lab.Host], folder: Path) -> None:
        self.first, *self.hosts = hosts
        self._folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.ports = (7480, 7481)
        self.urls = [f"http://{self.first.address}:{port}" for port in self.ports]

    def start(self, name: str, host: lab.Host, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [*host.prefix, sys.executable, *arguments], stdout=log, stderr=log
            )

    def start_registry(self, number: int) -> None:
        """A registry without TLS: the lab's network is this machine's."""
        program = (
            "import sys, threading\n"
            "from shoal.registry.config import RegistryConfig\n"
            "from shoal.registry.service import Registry\n"
            "config = RegistryConfig(listen='127.0.0.1:0')\n"
            "object.__setattr__(config, 'listen', sys.argv[1])\n"
            "with Registry(config): threading.Event().wait()\n"
        )
        address = f"{self.first.address}:{self.ports[number]}"
        self.start(f"registry{number}", self.first, "-c", program, address)

    def start_daemon(self, number: int, registries: tuple[int, ...] = (0, 1)) -> None:
        urls = [self.urls[each] for each in registries]
        file = self._folder / f"d{number}.toml"
        file.write_text(
            f"name = 'd{number}'\ndomain = '{DOMAIN}'\n[link.wan]\nlisten = 'tcp://0.0.0.0:7474'\n"
            f"[registry]\nurls = {urls}\n"
        )
        self.start(f"d{number}", self.hosts[number], "-m", "shoal.daemon", str(file))

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()

    def kill(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)

    def close(self) -> None:
        for process in self.processes.values():
            process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait(10)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    if problem := lab.problem():
        pytest.skip(problem)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with contextlib.closing(lab.Lab(DAEMONS + 3)) as made:
        site = Site(made.hosts, tmp_path)
        try:
            yield site
        finally:
            site.close()


@pytest.mark.timeout(300)
def test_twelve_daemons_join_through_registries_that_fail_and_disagree(site: Site) -> None:
    for number in (0, 1):
        site.start_registry(number)
    for number in range(DAEMONS):
        # Some know one registry, some the other, some both.
        site.start_daemon(number, ((0, 1), (0,), (0, 1), (1,))[number % 4])
    for number in range(DAEMONS):
        until(lambda number=number: "SHOAL-5001" in site.log(f"d{number}"), "every daemon has begun")
    watcher = Program([str(HERE / "locate_program.py"), site.urls[0], DOMAIN], prefix=site.hosts[-1].prefix)
    try:
        watcher.answer()
        took_s = until(lambda: watcher.ask("routers")["routers"] == DAEMONS, "all daemons are one network")
        print(f"joined {took_s:.1f} s after the last daemon began")

        site.kill("registry0")
        site.kill("registry1")
        watcher.ask("mark")
        time.sleep(3.0)
        assert watcher.ask("routers")["routers"] == DAEMONS
        assert watcher.ask("lost")["lost"] == 0, "no registry, and no connection lost"

        site.start_registry(0)
        site.start_daemon(DAEMONS, (0,))
        until(lambda: watcher.ask("routers")["routers"] == DAEMONS + 1, "the thirteenth joins")
        thirteenth = f"tcp://{site.hosts[DAEMONS].address}:7474"
        until(lambda: thirteenth in watcher.ask("listing")["addresses"], "it proved its address")
        used = watcher.ask("connect", count=26)["used"]
        # A new daemon is used at once, and not stampeded.
        assert 1 <= used.count(thirteenth) <= 13, used
        assert len(set(used)) >= 6, used
        site.start_registry(1)
        time.sleep(3.0)
        assert watcher.ask("lost")["lost"] == 0
        downs = [name for name in site.processes if "SHOAL-2022" in site.log(name)]
        assert downs == [], "no link between daemons was lost"
    finally:
        watcher.kill()
