"""Whether multicast works here: a datagram to a group of our own that should come back."""

import contextlib
import ipaddress
import secrets
import select
import socket
import struct
import time

#: How often it is tried, and how long each is waited for; where multicast works it takes less than a
#: millisecond.
_TRIES, _WAIT_S = 3, 0.2


def is_loopback(local: str) -> bool:
    """Whether a link with this local address leads nowhere but to this machine."""
    return ipaddress.ip_address(local.rpartition(":")[0].strip("[]")).is_loopback


def multicast_problem(group: str, interface: str, local: str) -> str | None:
    """Why multicast does not work on an interface, where a link has a local address; `None` if it does.

    The probe goes to the group, and to a port of its own: no member hears it.
    """
    if ":" in group:
        # Opening the link has told whether there is a route.
        return None
    address = local.rpartition(":")[0]
    try:
        with contextlib.ExitStack() as stack:
            hears = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            sends = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            if _comes_back(hears, sends, group, address):
                return None
            return f"a probe to {group} on {interface} did not come back"
    except OSError as error:
        return f"a probe to {group} cannot be sent on {interface}: {error.strerror or error}"


def _comes_back(hears: socket.socket, sends: socket.socket, group: str, address: str) -> bool:
    hears.bind((group, 0))
    joins = struct.pack("4s4s", socket.inet_aton(group), socket.inet_aton(address))
    hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joins)
    sends.bind((address, 0))
    sends.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    sends.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 0)
    sends.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
    word = secrets.token_bytes(16)
    for _ in range(_TRIES):
        sends.sendto(word, (group, hears.getsockname()[1]))
        until = time.monotonic() + _WAIT_S
        while (left_s := until - time.monotonic()) > 0 and select.select([hears], [], [], left_s)[0]:
            if hears.recv(64) == word:
                return True
    return False
