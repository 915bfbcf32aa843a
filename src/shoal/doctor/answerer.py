"""The other machine of `shoal doctor --peer`: it counts and sends as a doctor asks, one at a time.

It sends to the machine that asks, and to the doctor's groups, for two seconds at the most.
"""

import contextlib
import math
import secrets
import socket
import time
from typing import Any

from shoal.config import ConnectionConfig
from shoal.doctor import host
from shoal.doctor.machine import PROBE_GROUP, Interface, Machine, member, sender
from shoal.doctor.peer import FLOOD_PER_S, PORT, Talk, receive, send
from shoal.errors import LinkError

#: No program of this machine is in it.
UNJOINED_GROUP = "239.192.74.251"
_SECONDS_MAX = 2.0
#: Longest silence of a doctor before its connection is closed.
_SILENT_S = 30.0


class Answerer:
    """Answers doctors at a TCP port, in the thread that calls `run`."""

    def __init__(self, config: ConnectionConfig, port: int = PORT, machine: Machine | None = None) -> None:
        chosen = host.choose(machine or Machine(), config.interface)
        if chosen is None or chosen.address is None:
            raise LinkError(f"no interface {config.interface} that is up and has an IPv4 address")
        self._interface: Interface = chosen
        self._port = config.port
        self._listening = socket.create_server((chosen.address, port))

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, port = self._listening.getsockname()[:2]
        return str(host), int(port)

    def run(self) -> None:
        """Answer one doctor after the other, until `close`."""
        while True:
            try:
                connection, (address, _) = self._listening.accept()
            except OSError:
                return
            # A doctor that makes no sense is left; another one may come.
            with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                connection.settimeout(_SILENT_S)
                talk = Talk(connection)
                while True:
                    self._answer(talk, str(address), talk.hear())

    def close(self) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _answer(self, talk: Talk, address: str, asked: dict[str, Any]) -> None:
        seconds = float(asked.get("seconds", 0.0))
        if not math.isfinite(seconds) or not 0 <= seconds <= _SECONDS_MAX:
            raise ValueError(f"{seconds} seconds")
        match asked["ask"]:
            case "hello":
                talk.say(mtu=self._interface.mtu, time=time.time())
            case "receive":
                self._receive(talk, asked["how"] == "multicast", seconds)
            case "send":
                to, port = PROBE_GROUP if asked["how"] == "multicast" else address, int(asked["port"])
                if not 0 < port < 65536:
                    raise ValueError(f"port {port}")
                with sender(self._interface) as sends:
                    sent = send(sends, (to, port), bytes.fromhex(asked["word"]), seconds, per_s=1000)
                talk.say(sent=sent)
            case "flood":
                with sender(self._interface) as sends:
                    sent = send(sends, (UNJOINED_GROUP, self._port), b"flood", seconds, per_s=FLOOD_PER_S)
                talk.say(sent=sent)
            case other:
                raise ValueError(f"asked for {other!r}")

    def _receive(self, talk: Talk, multicast: bool, seconds: float) -> None:
        word = secrets.token_bytes(8)
        with contextlib.ExitStack() as stack:
            if multicast:
                hears = stack.enter_context(member(self._interface, PROBE_GROUP, self._port))
            else:
                hears = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
                hears.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
                hears.bind((self._interface.address or "", 0))
            talk.say(port=hears.getsockname()[1], word=word.hex())
            count = receive(hears, word, seconds)
        talk.say(datagrams=count.datagrams, bytes=count.bytes, seconds=count.seconds, longest=count.longest)
