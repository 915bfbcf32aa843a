"""Tells systemd how the daemon is (`sd_notify`): a datagram to the socket that it names, or nothing."""

import os
import socket
import time
from collections.abc import Mapping


def ready(what: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Everything is open; whether a supervisor was told."""
    return _notify(f"READY=1\nSTATUS={what}", environment)


def reloading(environment: Mapping[str, str] = os.environ) -> bool:
    """The file is read again; `ready` says when that is over."""
    usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    return _notify(f"RELOADING=1\nMONOTONIC_USEC={usec}", environment)


def status(what: str, environment: Mapping[str, str] = os.environ) -> bool:
    """What `systemctl status` shows."""
    return _notify(f"STATUS={what}", environment)


def stopping(environment: Mapping[str, str] = os.environ) -> bool:
    """It ends."""
    return _notify("STOPPING=1", environment)


def alive(environment: Mapping[str, str] = os.environ) -> bool:
    """The watchdog may sleep."""
    return _notify("WATCHDOG=1", environment)


def watchdog_s(environment: Mapping[str, str] = os.environ) -> float | None:
    """How often to say so; `None` if no supervisor watches this process."""
    usec, pid = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return None
    return int(usec) / 2e6


def _notify(what: str, environment: Mapping[str, str]) -> bool:
    address = environment.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as told:
            # An abstract name begins with a zero byte, which text cannot.
            told.connect("\0" + address[1:] if address.startswith("@") else address)
            told.sendall(what.encode())
    except OSError:
        # The process that started us is not there to listen: that is no reason not to work.
        return False
    return True
