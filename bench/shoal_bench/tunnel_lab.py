"""Two LANs on one machine, and between them a long path that loses: gateways with a foot in both.

| host | is | has |
|---|---|---|
| 0 | a program of the near LAN | 10.74.1.2 |
| 1 | the near gateway | 10.74.1.1, and 10.75.0.1 on the path |
| 2 | the far gateway | 10.74.2.1, and 10.75.0.2 on the path |
| 3 | a program of the far LAN | 10.74.2.2 |

The path is a relay in a process of its own. Needs root; names are those of `lab`, which takes down what a
crashed owner left behind.
"""

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from shoal_bench import lab
from shoal_bench.errors import ExperimentError

NEAR_PROGRAM, NEAR, FAR, FAR_PROGRAM = range(4)
#: On the path.
WAN = {NEAR: "10.75.0.1", FAR: "10.75.0.2"}
_LAN = {
    NEAR_PROGRAM: (0, "10.74.1.2"),
    NEAR: (0, "10.74.1.1"),
    FAR: (1, "10.74.2.1"),
    FAR_PROGRAM: (1, "10.74.2.2"),
}
#: Numbers of cables that are switches, and of those to the relay.
_SWITCH, _PATH = 90, 80
END_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Path:
    """What lies between the gateways, in each direction."""

    rate_mbit_s: float = 50.0
    #: There and back.
    round_trip_s: float = 0.04
    #: Share of packets.
    loss: float = 0.01
    #: How long a packet waits at the most.
    queue_s: float = 0.05
    seed: int = 1

    @property
    def queue_bytes(self) -> int:
        """What may wait."""
        return int(self.rate_mbit_s * 1e6 / 8 * self.queue_s)


class TunnelLab:
    """The hosts and the path, for as long as its context lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = f"{lab.PREFIX}{os.getpid()}"
        self._relay: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        lab.check_possible()
        lab.remove_abandoned()
        try:
            self._make()
            self._start_relay()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def within(self, host: int) -> Sequence[str]:
        """The command that runs another on a host."""
        return ("ip", "netns", "exec", f"{self._owner}h{host}")

    def cut(self, host: int) -> None:
        """Pull the cable between a gateway and the path."""
        lab.run(["ip", "link", "set", f"{self._owner}v{_PATH + host}", "down"])

    def mend(self, host: int) -> None:
        """Plug it in again."""
        lab.run(["ip", "link", "set", f"{self._owner}v{_PATH + host}", "up"])

    def path_counts(self, host: int) -> int:
        """Bytes that a gateway sent into the path."""
        counters = pathlib.Path(f"/sys/class/net/{self._owner}v{_PATH + host}/statistics")
        return int((counters / "rx_bytes").read_text(encoding="ascii"))

    def end_relay(self) -> Mapping[str, Any]:
        """End the path: what it did."""
        assert self._relay is not None
        self._relay.terminate()
        said, _ = self._relay.communicate(timeout=END_S)
        self._relay = None
        told: Mapping[str, Any] = json.loads(said.splitlines()[-1])
        return told

    def _make(self) -> None:
        owner = self._owner
        for switch in (0, 1):
            lab.run(f"ip link add {owner}v{_SWITCH + switch} type bridge mcast_snooping 0".split())
            lab.run(f"ip link set {owner}v{_SWITCH + switch} up".split())
        for host, (switch, address) in _LAN.items():
            lab.run(f"ip netns add {owner}h{host}".split())
            self._plug_in(host, f"{owner}v{host}", "eth0", address)
            lab.run(f"ip link set {owner}v{host} master {owner}v{_SWITCH + switch}".split())
            lab.run(f"ip -n {owner}h{host} route add 224.0.0.0/4 dev eth0".split())
        for host, address in WAN.items():
            self._plug_in(host, f"{owner}v{_PATH + host}", "wan0", address)
            # Segmentation offload would put 64 KB into the path at once, which no wire does.
            lab.run(f"ip -n {owner}h{host} link set wan0 gso_max_segs 1".split())

    def _plug_in(self, host: int, cable: str, interface: str, address: str) -> None:
        name = f"{self._owner}h{host}"
        lab.run(f"ip link add {cable} type veth peer name {interface} netns {name}".split())
        lab.run(f"ip link set {cable} up".split())
        lab.run(f"ip -n {name} addr add {address}/24 dev {interface}".split())
        lab.run(f"ip -n {name} link set {interface} up".split())
        lab.run(f"ip -n {name} link set lo up".split())

    def _start_relay(self) -> None:
        path = self._path
        ends = [f"{self._owner}v{_PATH + host}" for host in (NEAR, FAR)]
        told = [path.loss, path.round_trip_s / 2, path.seed, path.rate_mbit_s, path.queue_bytes]
        self._relay = subprocess.Popen(
            [sys.executable, "-m", "shoal_bench.relay", *ends, *map(str, told)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._relay.stdout is not None
        if not self._relay.stdout.readline():
            raise ExperimentError("the relay did not start")

    def _remove(self) -> None:
        if self._relay is not None:
            self._relay.kill()
            self._relay.communicate()
            self._relay = None
        lab.remove(self._owner)
