"""A machine on which everything works, and ways to break it."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from shoal.doctor.machine import Echo, Interface, Machine

LO = Interface(
    name="lo", address="127.0.0.1", up=True, running=True, multicast=False, loopback=True, mtu=65_536
)
ETH0 = Interface(
    name="eth0", address="10.0.0.1", up=True, running=True, multicast=True, loopback=False, mtu=1500
)
IGMP = """Idx	Device    : Count Querier	Group    Users Timer	Reporter
1	lo        :     1      V3
				010000E0     1 0:00000000		0
4	eth0      :     2      V3
				FA4AC0EF     1 0:00000000		0
				010000E0     1 0:00000000		0
"""
SNMP = """Ip: Forwarding DefaultTTL
Ip: 1 64
Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors
Udp: 100000 5 999 100000 {drops} 0 0 0 0
UdpLite: InDatagrams NoPorts
UdpLite: 0 0
"""


@dataclass
class Lab(Machine):
    """A healthy machine; its fields say what is broken."""

    all_interfaces: tuple[Interface, ...] = (LO, ETH0)
    files: dict[str, str] = field(
        default_factory=lambda: {
            "/proc/net/igmp": IGMP,
            "/proc/net/snmp": SNMP.format(drops=3),
            "/proc/sys/net/ipv4/igmp_max_memberships": "20\n",
            "/proc/sys/net/ipv4/igmp_max_msf": "10\n",
        }
    )
    route: str | None = "10.0.0.1"
    taken: str | None = None
    join_error: OSError | None = None
    echoes: dict[str, Echo] = field(default_factory=dict)
    receive_bytes: int = 4 << 20
    gso: tuple[bool, bool] = (True, True)
    late_s: float = 0.001
    query: bool | None = True
    refused: str | None = None
    variables: dict[str, str] = field(default_factory=dict)
    #: How large the probes were.
    sizes: list[int] = field(default_factory=list)

    def read(self, path: str) -> str | None:
        return self.files.get(path)

    def exists(self, path: str) -> bool:
        return path in self.files

    def interfaces(self) -> tuple[Interface, ...]:
        return self.all_interfaces

    def source_address(self, to: str) -> str | None:
        return self.route

    def bind_problem(self, group: str, port: int) -> str | None:
        return self.taken

    @contextlib.contextmanager
    def joined(self, interface: Interface, group: str) -> Iterator[None]:
        if self.join_error is not None:
            raise self.join_error
        yield

    def echo(self, interface: Interface, group: str, port: int = 0, size: int = 16) -> Echo:
        self.sizes.append(size)
        return self.echoes.get(interface.name, Echo(True))

    def granted_receive_bytes(self, wanted: int) -> int:
        return min(wanted, self.receive_bytes)

    def offloads(self) -> tuple[bool, bool]:
        return self.gso

    def lateness_s(self, sleeps: int, length_s: float) -> float:
        return self.late_s

    def hears_query(self, wait_s: float) -> bool | None:
        return self.query

    def connects(self, host: str, port: int, timeout_s: float) -> str | None:
        return self.refused

    def environment(self, name: str) -> str | None:
        return self.variables.get(name)


def eth0(**changes: Any) -> tuple[Interface, ...]:
    """Its interfaces with another `eth0`."""
    return LO, replace(ETH0, **changes)
