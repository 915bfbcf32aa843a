"""What systemd is told, by the socket that it names."""

import os
import socket
from pathlib import Path

from shoal.daemon import notify


def test_states_arrive_at_the_socket_that_the_environment_names(tmp_path: Path) -> None:
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(path))
        systemd.settimeout(5)
        environment = {"NOTIFY_SOCKET": str(path)}
        assert notify.ready("links lan", environment)
        assert systemd.recv(1000) == b"READY=1\nSTATUS=links lan"
        assert notify.reloading(environment)
        assert systemd.recv(1000).startswith(b"RELOADING=1\nMONOTONIC_USEC=")
        assert notify.stopping(environment)
        assert systemd.recv(1000) == b"STOPPING=1"
        assert notify.alive(environment)
        assert systemd.recv(1000) == b"WATCHDOG=1"
        assert notify.status("fine", environment)
        assert systemd.recv(1000) == b"STATUS=fine"


def test_an_abstract_socket_is_reached_as_well() -> None:
    name = f"shoal-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind("\0" + name)
        systemd.settimeout(5)
        assert notify.stopping({"NOTIFY_SOCKET": f"@{name}"})
        assert systemd.recv(1000) == b"STOPPING=1"


def test_nobody_there_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert not notify.ready("x", {})
    assert not notify.ready("x", {"NOTIFY_SOCKET": str(tmp_path / "gone")})
    assert not notify.ready("x", {"NOTIFY_SOCKET": "vsock:2:1"})


def test_the_watchdog_is_fed_twice_as_often_as_it_bites_and_only_by_whom_it_watches() -> None:
    assert notify.watchdog_s({"WATCHDOG_USEC": "10000000"}) == 5.0
    assert notify.watchdog_s({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": str(os.getpid())}) == 5.0
    assert notify.watchdog_s({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "1"}) is None
    assert notify.watchdog_s({}) is None
    assert notify.watchdog_s({"WATCHDOG_USEC": "soon"}) is None
