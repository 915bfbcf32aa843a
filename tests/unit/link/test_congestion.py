"""What TCP connections ask the kernel for."""

import socket

import pytest

import shoal
from shoal.errors import ConfigError
from shoal.link.congestion import PREFERRED, ask_for, tune


class Links:
    """What the extension was told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def set_congestion(self, name: str, loopback: bool) -> None:
        self.asked.append((name, loopback))


def asked(wanted: str) -> list[tuple[str, bool]]:
    links = Links()
    ask_for(links, wanted)  # type: ignore[arg-type]
    return links.asked


def test_other_machines_get_bbr_unless_something_else_is_asked_for() -> None:
    assert asked("auto") == [(PREFERRED, False)]
    assert asked("system") == []
    assert asked("reno") == [("reno", True)]


def test_what_the_kernel_does_not_have_is_refused_with_what_it_has() -> None:
    with pytest.raises(ConfigError, match=r"tcp_congestion is 'nosuch'.*auto, system.*reno"):
        shoal.listen("tcp://127.0.0.1:0", tcp_congestion="nosuch")


@pytest.mark.parametrize(("wanted", "given"), [("auto", None), ("system", None), ("reno", b"reno")])
def test_sockets_of_python_ask_for_the_same(wanted: str, given: bytes | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as sock:
        before = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        tune(sock, wanted)
        after = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        assert after.rstrip(b"\0") == (given or before.rstrip(b"\0"))
