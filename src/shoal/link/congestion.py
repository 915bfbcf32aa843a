"""What decides how fast TCP connections send: the kernel has several, and is asked for one."""

import contextlib
import ipaddress
import socket
from pathlib import Path

from shoal import _core
from shoal.errors import ConfigError

#: Asked for where the other end is on another machine: it does not take every loss for congestion.
PREFERRED = "bbr"
_KNOWN = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def ask_for(links: _core.TcpLinks, wanted: str) -> None:
    """Ask the kernel for what `tcp_congestion` says.

    Raises:
        ConfigError: the kernel does not have it, or this user may not use it.
    """
    if wanted == "auto":
        links.set_congestion(PREFERRED, False)
    elif wanted != "system":
        _check(wanted)
        links.set_congestion(wanted, True)


def tune(sock: socket.socket, wanted: str) -> None:
    """The same for a socket that Python has, which is connected."""
    if wanted == "system" or (wanted == "auto" and _is_loopback(sock)):
        return
    # A kernel that does not have it has another; a name that the user gave was checked before.
    with contextlib.suppress(OSError):
        name = PREFERRED if wanted == "auto" else wanted
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def _is_loopback(sock: socket.socket) -> bool:
    address = ipaddress.ip_address(sock.getpeername()[0].partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _check(wanted: str) -> None:
    with socket.socket() as probe:
        try:
            probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, wanted.encode())
        except OSError as error:
            known = ""
            with contextlib.suppress(OSError):
                known = f", {', '.join(_KNOWN.read_text().split())} here"
            raise ConfigError(
                f"tcp_congestion is {wanted!r}, and this kernel does not give it ({error.strerror}): "
                f"use auto, system, or one that it has{known}"
            ) from None
