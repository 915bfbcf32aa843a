"""Shoal's programs of `failover`: each on its LAN, without an address of any router."""

import time
from collections.abc import Callable

import shoal
from shoal_bench.failover_sides import TICK_S, Pace, Tally

URL = "norm://?interface=eth0"
TOPIC = "failover/data"


def publish(addresses: list[str], pace: Pace, over: Callable[[], bool]) -> None:
    """Publish what is due until it is over."""
    with shoal.connect(URL) as bus:
        while not over():
            for body in pace.due():
                bus.publish(TOPIC, body)
            time.sleep(TICK_S)


def subscribe(addresses: list[str], tally: Tally, over: Callable[[], bool]) -> int:
    """Take what comes until it is over: how many messages `MessagesLost` named."""
    told = 0
    with shoal.connect(URL) as bus:
        subscription = bus.subscribe(TOPIC)
        while not over():
            message = subscription.receive(timeout_s=0.05)
            for each in [] if message is None else [message, *subscription.receive_nowait()]:
                tally.take(bytes(each.body))
            for event in bus.events(timeout_s=0.0):
                if isinstance(event, shoal.MessagesLost):
                    told += event.last - event.first + 1
    return told
