"""The system as the checks see it. Tests give them another one; this one reads `/proc` and opens sockets."""

import array
import contextlib
import errno
import ipaddress
import os
import secrets
import select
import socket
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Beside the domains' groups: what the doctor sends is heard by doctors alone.
PROBE_GROUP = "239.192.74.250"
#: Flags of an interface (linux/if.h).
_UP, _LOOPBACK, _RUNNING, _MULTICAST = 0x1, 0x8, 0x40, 0x1000
#: Requests to a socket about an interface (linux/sockios.h).
_FLAGS, _ADDRESS, _MTU = 0x8913, 0x8915, 0x8921
#: Options of UDP sockets (linux/udp.h), and one of IP that Python does not name.
_SEGMENT, _GRO, _MTU_DISCOVER, _DO_NOT_FRAGMENT = 103, 104, 10, 2
_IP_MULTICAST_ALL = 49
#: Where multicast works, a probe takes less than a millisecond.
_PROBES, _PROBE_S = 3, 0.15


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface."""

    name: str
    #: Its IPv4 address; `None` if it has none.
    address: str | None
    up: bool
    #: Whether its cable leads to something.
    running: bool
    multicast: bool
    loopback: bool
    mtu: int

    @property
    def payload_bytes(self) -> int:
        """The longest datagram that fits into a packet, or into UDP."""
        return min(self.mtu - 28, 65_000)


@dataclass(frozen=True, slots=True)
class Echo:
    """What became of a probe to a group that this machine joined."""

    heard: bool
    #: Why it could not be sent.
    error: str = ""
    #: Whether the system forbade it: a firewall does.
    forbidden: bool = False


class Machine:
    """This machine."""

    def read(self, path: str) -> str | None:
        """A small file's text; `None` if it is not there, or not for us."""
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return Path(path).exists()

    def interfaces(self) -> tuple[Interface, ...]:
        """All network interfaces."""
        found = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            for _, name in socket.if_nameindex():
                with contextlib.suppress(OSError):
                    found.append(_interface(asked, name))
        return tuple(found)

    def source_address(self, to: str) -> str | None:
        """Our address that datagrams to another one would have; `None` if no route leads there."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            try:
                asked.connect((to, 9))
            except OSError:
                return None
            return str(asked.getsockname()[0])

    def bind_problem(self, group: str, port: int) -> str | None:
        """Why the port of a group cannot be shared; `None` if it can."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                tried.bind((group, port))
            except OSError as error:
                return error.strerror or str(error)
        return None

    @contextlib.contextmanager
    def joined(self, interface: Interface, group: str) -> Iterator[None]:
        """Be in a group on an interface; raises `OSError`."""
        with member(interface, group, 0):
            yield

    def echo(self, interface: Interface, group: str, port: int = 0, size: int = 16) -> Echo:
        """Send a probe to a group that this machine joins, and listen for it; port 0 is a free one."""
        word = secrets.token_bytes(size)
        try:
            with member(interface, group, port) as hears, sender(interface) as sends:
                for _ in range(_PROBES):
                    sends.sendto(word, hears.getsockname())
                    if _arrives(hears, word):
                        return Echo(True)
        except OSError as error:
            forbidden = error.errno in (errno.EPERM, errno.EACCES)
            return Echo(False, error.strerror or str(error), forbidden)
        return Echo(False)

    def granted_receive_bytes(self, wanted: int) -> int:
        """The receive buffer that a program without privileges gets if it asks for so many bytes."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, wanted)
            # The kernel doubles it for its own overhead.
            return asked.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) // 2

    def offloads(self) -> tuple[bool, bool]:
        """Whether the kernel cuts long sends into datagrams (GSO), and joins received ones (GRO)."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            return _sets(asked, _SEGMENT, 1400), _sets(asked, _GRO, 1)

    def lateness_s(self, sleeps: int, length_s: float) -> float:
        """How late this program is woken, at the worst of some sleeps."""
        worst = 0.0
        for _ in range(sleeps):
            began = time.monotonic()
            time.sleep(length_s)
            worst = max(worst, time.monotonic() - began - length_s)
        return worst

    def hears_query(self, wait_s: float) -> bool | None:
        """Whether an IGMP query comes within a time; `None` if the system does not let us listen for it."""
        try:
            listening = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_IGMP)
        except PermissionError:
            return None
        with listening:
            until = time.monotonic() + wait_s
            while (left_s := until - time.monotonic()) > 0:
                if not select.select([listening], [], [], left_s)[0]:
                    return False
                packet = listening.recv(2048)
                header = (packet[0] & 15) * 4
                if packet[header : header + 1] == b"\x11":
                    return True
        return False

    def connects(self, host: str, port: int, timeout_s: float) -> str | None:
        """Why a TCP connection cannot be made; `None` if it can."""
        try:
            socket.create_connection((host, port), timeout_s).close()
        except OSError as error:
            return error.strerror or str(error)
        return None

    def environment(self, name: str) -> str | None:
        """A variable of the environment."""
        return os.environ.get(name)


@contextlib.contextmanager
def member(interface: Interface, group: str, port: int) -> Iterator[socket.socket]:
    """A socket that hears a group on an interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as hears:
        hears.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Without it a socket hears the groups of all others on its port.
        hears.setsockopt(socket.IPPROTO_IP, _IP_MULTICAST_ALL, 0)
        hears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        hears.bind((group, port))
        joins = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(interface.address or "0.0.0.0"))
        hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joins)
        yield hears


@contextlib.contextmanager
def sender(interface: Interface, ttl: int = 1) -> Iterator[socket.socket]:
    """A socket that sends multicast by an interface, and unicast by the routing table."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sends:
        address = interface.address or "0.0.0.0"
        sends.bind((address, 0))
        sends.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        sends.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        sends.setsockopt(socket.IPPROTO_IP, _MTU_DISCOVER, _DO_NOT_FRAGMENT)
        yield sends


def _arrives(hears: socket.socket, word: bytes) -> bool:
    until = time.monotonic() + _PROBE_S
    while (left_s := until - time.monotonic()) > 0 and select.select([hears], [], [], left_s)[0]:
        if hears.recv(65_535) == word:
            return True
    return False


def is_ipv4(address: str) -> bool:
    """Whether a group is of IPv4, which most checks are about."""
    return ipaddress.ip_address(address).version == 4


def _interface(asked: socket.socket, name: str) -> Interface:
    flags = int.from_bytes(_ask(asked, _FLAGS, name)[16:18], "little")
    try:
        address = socket.inet_ntoa(_ask(asked, _ADDRESS, name)[20:24])
    except OSError:
        address = None
    return Interface(
        name=name,
        address=address,
        up=bool(flags & _UP),
        running=bool(flags & _RUNNING),
        multicast=bool(flags & _MULTICAST),
        loopback=bool(flags & _LOOPBACK),
        mtu=int.from_bytes(_ask(asked, _MTU, name)[16:20], "little"),
    )


def _ask(asked: socket.socket, request: int, name: str) -> bytes:
    # Linux alone has these requests.
    import fcntl

    block = array.array("B", name.encode().ljust(40, b"\0"))
    fcntl.ioctl(asked, request, block, True)
    return block.tobytes()


def _sets(asked: socket.socket, option: int, value: int) -> bool:
    try:
        asked.setsockopt(socket.IPPROTO_UDP, option, value)
    except OSError:
        return False
    return True
