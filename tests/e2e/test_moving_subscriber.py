"""A durable subscriber that leaves one LAN and comes back on another: routers lead to its store from both."""

import contextlib
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from programs import PATIENCE_S

import shoal
from shoal.processes.store import StoreProcess

Lan = Callable[..., shoal.Bus]


def group() -> str:
    return f"239.192.74.{random.randrange(10, 250)}:{random.randrange(20_000, 30_000)}"


@pytest.fixture
def lan() -> Iterator[Lan]:
    """Connects to a group of one domain; connections are closed in the end."""
    domain = f"moves-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:

        def connect(where: str, **options: Any) -> shoal.Bus:
            bus = shoal.connect(f"norm://{where}", interface="lo", domain=domain, **options)
            stack.callback(bus.close, 0)
            return bus

        yield connect


def publish(bus: shoal.Bus, numbers: range) -> None:
    for number in numbers:
        bus.publish("news", number, persistent=True, window=50)


def read(subscription: shoal.Subscription, count: int) -> list[object]:
    found = [subscription.receive(PATIENCE_S) for _ in range(count)]
    return [message and message.body for message in found]


def test_a_durable_subscriber_moves_between_lans_and_misses_nothing(lan: Lan, tmp_path: Path) -> None:
    home, one, two = group(), group(), group()
    routers = [lan(home, router=True) for _ in range(2)]
    for router, where in zip(routers, (one, two), strict=True):
        router.connect(f"norm://{where}?interface=lo")
    # Without a listener: the store is reached over the bus alone, and so through the routers.
    options = ("--url", f"norm://{home}", "--listen", "off")
    with StoreProcess(tmp_path / "data", domain=routers[0].config.domain, record="none", options=options):
        publisher = lan(home)
        with lan(one, client_id="desk") as desk, desk.subscribe("news", durable="all") as news:
            publish(publisher, range(100))
            assert read(news, 100) == list(range(100))
        publish(publisher, range(100, 200))
        with lan(two, client_id="desk") as desk, desk.subscribe("news", durable="all") as news:
            publish(publisher, range(200, 300))
            assert read(news, 200) == list(range(100, 300))
            assert news.receive(0.2) is None, "nothing comes twice"
        publish(publisher, range(300, 400))
        routers[1].close(0)
        with lan(one, client_id="desk") as desk, desk.subscribe("news", durable="all") as news:
            assert read(news, 100) == list(range(300, 400))
