"""Shoal as a contestant, with a callback for each message."""

import threading

import shoal
from shoal_bench.bodies import Reception
from shoal_bench.contestant import TOPIC, Place
from shoal_bench.shoal_loop import connect, echo, explain, ping, publish

__all__ = ["echo", "ping", "publish", "subscribe"]


def subscribe(place: Place, reception: Reception) -> None:
    """Give `subscribe` a function."""
    over = threading.Event()
    next_expected = reception.expected.__next__

    def take(message: shoal.Message) -> None:
        body, expected = message.body, next_expected()
        if body != expected and reception.is_over(body, expected):
            over.set()

    with connect(place) as bus:
        bus.subscribe(TOPIC, take)
        over.wait()
        explain(reception, bus)
