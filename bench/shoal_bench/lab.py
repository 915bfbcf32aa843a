"""A LAN in one machine: hosts are network namespaces on a bridge, each behind a cable of a chosen rate.

Needs root and `iproute2`. Names carry the process id of the owner, so several can run at once, and what a
crashed owner left behind is taken down by the next.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal_bench.errors import ExperimentError

#: Begins every name, before the owner's process id.
PREFIX = "shl"
HOSTS_MAX = 64
#: A cable takes a burst, and holds what comes in so long.
BURST, QUEUE_TIME = "64kb", "50ms"
#: A router's burst: a few packets.
ROUTER_BURST = "5kb"


class Lab:
    """So many hosts on one switch, for as long as its context lasts."""

    def __init__(self, hosts: int, *, rate_mbit_s: int | None = 100) -> None:
        if not 1 <= hosts <= HOSTS_MAX:
            raise ValueError(f"hosts must be from 1 to {HOSTS_MAX}, not {hosts}")
        self._owner = f"{PREFIX}{os.getpid()}"
        self._hosts = hosts
        #: Of every cable; none leaves them as fast as they are.
        self._rate_mbit_s = rate_mbit_s

    def __enter__(self) -> Self:
        check_possible()
        remove_abandoned()
        try:
            self._make()
        except BaseException:
            remove(self._owner)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        remove(self._owner)

    def within(self, host: int) -> Sequence[str]:
        """The command that runs another on a host; hosts count from 0."""
        return ("ip", "netns", "exec", self._name(host))

    def address(self, host: int) -> str:
        """A host's IPv4 address."""
        return f"10.74.0.{host + 1}"

    def narrow(self, host: int, *, rate_mbit_s: float, queue_s: float) -> None:
        """Make what goes to a host pass a router: so fast, and with so much room to wait.

        It takes packets one by one, also when a sender hands them over in runs: a burst as short as this
        makes the kernel cut them.
        """
        shape = f"root tbf rate {rate_mbit_s}mbit burst {ROUTER_BURST} latency {queue_s * 1000}ms"
        run(["tc", "qdisc", "replace", "dev", self._cable(host), *shape.split()])

    def _cable(self, host: int) -> str:
        return f"{self._owner}v{host}"

    def _name(self, host: int) -> str:
        return f"{self._owner}h{host}"

    def _make(self) -> None:
        _ip(f"link add {self._owner} type bridge mcast_snooping 0")
        _ip(f"link set {self._owner} up")
        for host in range(self._hosts):
            self._plug_in(host, self._name(host), self._cable(host))

    def _plug_in(self, host: int, name: str, cable: str) -> None:
        _ip(f"netns add {name}")
        _ip(f"link add {cable} type veth peer name eth0 netns {name}")
        _ip(f"link set {cable} master {self._owner} up")
        _ip(f"-n {name} addr add {self.address(host)}/24 dev eth0")
        _ip(f"-n {name} link set eth0 up")
        _ip(f"-n {name} link set lo up")
        _ip(f"-n {name} route add 224.0.0.0/4 dev eth0")
        if self._rate_mbit_s is None:
            return
        shape = f"root tbf rate {self._rate_mbit_s}mbit burst {BURST} latency {QUEUE_TIME}"
        run(["ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", *shape.split()])
        run(["tc", "qdisc", "add", "dev", cable, *shape.split()])


def check_possible() -> None:
    """Refuse where no lab can be made, and say what is missing."""
    if os.geteuid() != 0:
        raise ExperimentError("making network namespaces needs root: run it with sudo")
    for program in ("ip", "tc"):
        if shutil.which(program) is None:
            raise ExperimentError(f"the program {program!r} is missing: install the package iproute2")


def remove_abandoned() -> None:
    """Take down the labs of owners that are gone."""
    for owner in sorted(_owners()):
        if not Path(f"/proc/{owner.removeprefix(PREFIX)}").exists():
            remove(owner)


def remove(owner: str) -> None:
    """Take down all that an owner made, or as much as it got to."""
    for name in _namespaces():
        if re.fullmatch(rf"{owner}h\d+", name):
            run(["ip", "netns", "del", name], check=False)
    # A cable outlives its namespace for a moment, or for good if the owner died between two steps.
    for name in _links():
        if re.fullmatch(rf"{owner}(v\d+)?", name):
            run(["ip", "link", "del", name], check=False)


def _owners() -> set[str]:
    names = [*_namespaces(), *_links()]
    return {found[0] for name in names if (found := re.match(rf"{PREFIX}\d+", name))}


def _namespaces() -> list[str]:
    return [line.split()[0] for line in run(["ip", "netns", "list"]).splitlines() if line.strip()]


def _links() -> list[str]:
    listed = run(["ip", "-oneline", "link", "show"]).splitlines()
    return [line.split(": ")[1].partition("@")[0] for line in listed]


def _ip(command: str) -> None:
    run(["ip", *command.split()])


def run(command: Sequence[str], *, check: bool = True) -> str:
    """Run a command, which must succeed unless `check` says otherwise: what it printed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise ExperimentError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
