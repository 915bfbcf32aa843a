"""Two LANs in one machine, joined by two hosts that stand in both: where routers fail over.

| host | is | near LAN | far LAN |
|---|---|---|---|
| 0 | the publisher's | 10.74.1.1 | |
| 1, 2 | the routers' | 10.74.1.2, 10.74.1.3 | 10.74.2.2, 10.74.2.3 |
| 3 | the subscriber's | | 10.74.2.4 |

Needs root; names are those of `lab`, which takes down what a crashed owner left behind.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from shoal_bench import lab

PUBLISHER, SUBSCRIBER = 0, 3
ROUTERS = (1, 2)
#: Numbers of cables that are switches, and of the routers' cables to the far LAN.
_SWITCH, _FAR = 90, 80


class TwoLans:
    """The hosts and both LANs, for as long as its context lasts."""

    def __init__(self) -> None:
        self._owner = f"{lab.PREFIX}{os.getpid()}"

    def __enter__(self) -> Self:
        lab.check_possible()
        lab.remove_abandoned()
        try:
            self._make()
        except BaseException:
            lab.remove(self._owner)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lab.remove(self._owner)

    def within(self, host: int) -> Sequence[str]:
        """The command that runs another on a host."""
        return ("ip", "netns", "exec", f"{self._owner}h{host}")

    @staticmethod
    def near(host: int) -> str:
        """A host's address on the publisher's LAN."""
        return f"10.74.1.{host + 1}"

    @staticmethod
    def far(host: int) -> str:
        """A host's address on the subscriber's LAN."""
        return f"10.74.2.{host + 1}"

    def forwarded_bytes(self, router: int) -> int:
        """Bytes that a router sent to the far LAN."""
        counters = Path(f"/sys/class/net/{self._owner}v{_FAR + router}/statistics")
        return int((counters / "rx_bytes").read_text(encoding="ascii"))

    def _make(self) -> None:
        for switch in (0, 1):
            lab.run(f"ip link add {self._owner}v{_SWITCH + switch} type bridge mcast_snooping 0".split())
            lab.run(f"ip link set {self._owner}v{_SWITCH + switch} up".split())
        for host in (PUBLISHER, *ROUTERS, SUBSCRIBER):
            lab.run(f"ip netns add {self._owner}h{host}".split())
            lab.run(f"ip -n {self._owner}h{host} link set lo up".split())
        for host in (PUBLISHER, *ROUTERS):
            self._plug_in(host, switch=0, cable=host, interface="eth0", address=self.near(host))
        for host in ROUTERS:
            self._plug_in(host, switch=1, cable=_FAR + host, interface="eth1", address=self.far(host))
        self._plug_in(SUBSCRIBER, switch=1, cable=SUBSCRIBER, interface="eth0", address=self.far(SUBSCRIBER))

    def _plug_in(self, host: int, *, switch: int, cable: int, interface: str, address: str) -> None:
        name, port = f"{self._owner}h{host}", f"{self._owner}v{cable}"
        lab.run(f"ip link add {port} type veth peer name {interface} netns {name}".split())
        lab.run(f"ip link set {port} master {self._owner}v{_SWITCH + switch} up".split())
        lab.run(f"ip -n {name} addr add {address}/24 dev {interface}".split())
        lab.run(f"ip -n {name} link set {interface} up".split())
