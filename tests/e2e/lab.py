"""A LAN on one machine: network namespaces on a bridge, each with one `eth0`.

Every run has its own names, so that two may run at once. A name carries the process id that made it, and
whatever a crashed run left behind is swept away by the next.
"""

import atexit
import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

_NAME = re.compile(r"sl(\d+)x\d+[a-z]?\d*")
_labs = itertools.count(1)


def problem() -> str | None:
    """Why there can be no lab here, or none."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "the commands ip and tc are missing: install iproute2"
    return None


def run(*command: str) -> str:
    """Run a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class Host:
    """One machine of the lab."""

    def __init__(self, lab: "Lab", number: int) -> None:
        self.namespace = f"{lab.name}h{number}"
        self.switch, self.port = lab.name, f"{lab.name}v{number}"
        self.address = f"10.74.0.{number}"
        self.address6 = f"fd74::{number}"
        run("ip", "netns", "add", self.namespace)
        self.ip("link", "set", "lo", "up")
        self.plug_in(self.address)

    def plug_in(self, address: str) -> None:
        """Give it an interface, with this address."""
        run("ip", "link", "add", self.port, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        run("ip", "link", "set", self.port, "master", self.switch, "up")
        self.ip("addr", "add", f"{address}/24", "dev", "eth0")
        self.ip("addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad")
        self.ip("link", "set", "eth0", "up")
        self.ip("route", "add", "default", "dev", "eth0")

    def unplug(self) -> None:
        """Take its interface away."""
        run("ip", "link", "del", self.port)

    def ip(self, *arguments: str) -> str:
        """Run `ip` inside."""
        return run("ip", "-n", self.namespace, *arguments)

    @property
    def prefix(self) -> tuple[str, ...]:
        """What to put before a command to run it on this host."""
        return ("ip", "netns", "exec", self.namespace)

    @property
    def sent_bytes(self) -> int:
        """What the host has sent."""
        return int(Path(f"/sys/class/net/{self.port}/statistics/rx_bytes").read_text())

    def shape(self, rate: str) -> None:
        """Limit what the host sends and what it gets."""
        limit = ("root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms")
        run(*self.prefix, "tc", "qdisc", "add", "dev", "eth0", *limit)
        run("tc", "qdisc", "add", "dev", self.port, *limit)

    def cut(self) -> None:
        """Pull the cable."""
        run("ip", "link", "set", self.port, "down")

    def mend(self) -> None:
        """Plug it in again."""
        run("ip", "link", "set", self.port, "up")


class Lab:
    """A bridge and its hosts."""

    def __init__(self, hosts: int, rate: str | None = None) -> None:
        sweep()
        self.name = f"sl{os.getpid()}x{next(_labs)}"
        self.hosts: list[Host] = []
        atexit.register(self.close)
        try:
            run("ip", "link", "add", self.name, "type", "bridge", "mcast_snooping", "0")
            run("ip", "link", "set", self.name, "up")
            for number in range(1, hosts + 1):
                self.hosts.append(Host(self, number))
                if rate is not None:
                    self.hosts[-1].shape(rate)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Take everything down; what is gone already does not matter."""
        atexit.unregister(self.close)
        _remove(self.name)


#: `lan(3, rate="100mbit")`, as the fixture is called.
LAN = Callable[..., Lab]


def _remove(name: str) -> None:
    for namespace in _namespaces():
        if re.fullmatch(rf"{name}h\d+", namespace):
            subprocess.run(["ip", "netns", "del", namespace], capture_output=True, timeout=60, check=False)
    for link in Path("/sys/class/net").iterdir():
        if re.fullmatch(rf"{name}(v\d+)?", link.name):
            subprocess.run(["ip", "link", "del", link.name], capture_output=True, timeout=60, check=False)


def _namespaces() -> list[str]:
    folder = Path("/run/netns")
    return [entry.name for entry in folder.iterdir()] if folder.exists() else []


def sweep() -> None:
    """Remove what runs that are gone left behind."""
    names = {*_namespaces(), *(link.name for link in Path("/sys/class/net").iterdir())}
    for name in sorted(names):
        made = _NAME.fullmatch(name)
        if made and not Path(f"/proc/{made[1]}").exists():
            _remove(name.split("h")[0].split("v")[0])
