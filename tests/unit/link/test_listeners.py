"""What is told of listeners that are full."""

from typing import Any

from shoal.config import ConnectionConfig
from shoal.config.target import Target
from shoal.link.listeners import FULL_EVERY_S, Listeners


class Links:
    """As many connections as were let in, and how many were not."""

    def __init__(self) -> None:
        self.connections = self.turned_away = 0

    def listen(self, *_: Any, **__: Any) -> tuple[int, int]:
        return 1, 7474

    def listener(self, _: int) -> tuple[int, int]:
        return self.connections, self.turned_away


def test_a_full_listener_is_told_of_now_and_then_and_not_for_each() -> None:
    links = Links()
    config = ConnectionConfig(scheme="tcp", connections_max=2)
    listeners = Listeners(links, config)  # type: ignore[arg-type]  # a stand-in
    listeners.add(Target("tcp", "127.0.0.1", 7474), None, cost=None, tls=None, made=None)
    assert listeners.take_full(0.0) == []
    links.connections, links.turned_away = 2, 1
    (told,) = listeners.take_full(1.0)
    assert (told.link, told.address) == ("tcp://127.0.0.1:7474", "a program")
    assert told.why == "there are 2 connections, and no more are let in: connections_max is 2"
    links.turned_away = 50
    assert listeners.take_full(1.0 + FULL_EVERY_S / 2) == []
    (told,) = listeners.take_full(1.0 + FULL_EVERY_S)
    assert told.address == "49 others"
    assert listeners.take_full(100.0) == [], "nobody came since"
    links.connections, links.turned_away = 1, 51
    (told,) = listeners.take_full(200.0)
    assert "descriptors" in told.why
