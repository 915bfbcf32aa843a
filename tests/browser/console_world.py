"""What the tests of the console share: a domain, its programs, and how to wait."""

import os
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import shoal
from shoal.config.tokens import Token
from shoal.console.service import ConsoleServer
from shoal.processes.daemon import DaemonProcess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DOMAIN = f"console-{os.getpid()}"

GATEWAY = """
name = "gateway"
domain = "{domain}"
[roles]
store = true
host = true
[host]
directory = "{directory}"
key_file = "{directory}/host.key"
[link.lan]
url = "norm://"
interface = "lo"
[link.clients]
listen = "tcp://127.0.0.1:0"
[store]
data = "store"
record = ["prices/>"]
flight = "127.0.0.1:0"
segment_bytes = 4000000
"""
EDGE = """
name = "edge"
domain = "{domain}"
[link.lan]
url = "norm://"
interface = "lo"
"""


def missing() -> str:
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed"
    return "" if CHROMIUM else "Chromium is not installed: apt-get install chromium"


@dataclass
class World:
    """A domain, and a console of it."""

    server: ConsoleServer
    bus: shoal.Bus
    gateway: DaemonProcess
    directory: Path
    tokens: dict[str, Token]

    @property
    def url(self) -> str:
        return self.server.url


def connect(**options: Any) -> shoal.Bus:
    return shoal.connect(domain=DOMAIN, interface="lo", **options)


def publish(bus: shoal.Bus, ended: threading.Event) -> None:
    number = 0
    while not ended.wait(0.05):
        bus.publish("prices/EURUSD", {"bid": 1.1, "n": number}, properties={"region": "EU"})
        number += 1


def make_dead_letters(bus: shoal.Bus) -> None:
    """Three messages that nobody could work on, and five that wait."""
    queue = bus.queue("orders", deliveries_max=1, dead_letter="orders-dead")
    for number in range(3):
        queue.send({"order": number})
    with queue.consume(ack="manual") as consumer:
        for _ in range(3):
            consumer.release(consumer.receive(10.0))
    for number in range(5):
        bus.queue("billing").send(f"invoice {number}")


Open = Callable[..., Any]


def wait_until(check: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Wait for something outside the browser."""
    deadline = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.02)
