"""Shoal as a contestant, with `for message in subscription`."""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import shoal
from shoal_bench.bodies import Bodies, Reception
from shoal_bench.contestant import PATIENCE_S, PING, PONG, TOPIC, Load, Place
from shoal_bench.errors import ExperimentError

GROUP = "239.192.74.203"


def connect(place: Place, *, listens: bool = False) -> shoal.Bus:
    """A connection with the options that a user would get; over TCP, one process listens."""
    if place.link == "tcp":
        listens = listens and not place.routed
        return (shoal.listen if listens else shoal.connect)(f"tcp://127.0.0.1:{place.port}")
    return shoal.connect(f"norm://{GROUP}:{place.port}", interface=place.interface)


def publish(place: Place, load: Load, wait_received: Callable[[], None]) -> dict[str, Any]:
    """Publish in a plain loop; it waits for subscribers when they fall behind."""
    bodies = load.bodies()
    with connect(place, listens=True) as bus:
        if not bus.wait_for_subscribers(TOPIC, load.subscribers, PATIENCE_S):
            raise ExperimentError(f"only {len(bus.members)} of {load.subscribers} subscribers came")
        send = bus.publish
        for body in bodies.sent(load.count):
            send(TOPIC, body)
        wait_received()
        return {"stats": dict(bus.stats())}


def subscribe(place: Place, reception: Reception) -> None:
    """Iterate over a subscription."""
    with connect(place) as bus, bus.subscribe(TOPIC) as subscription:
        for expected, message in zip(reception.expected, subscription, strict=False):
            body = message.body
            if body != expected and reception.is_over(body, expected):
                break
        explain(reception, bus)


def explain(reception: Reception, bus: shoal.Bus) -> None:
    """Add to a fault what the connection says about it."""
    if reception.fault is not None:
        told = "; ".join(str(event) for event in bus.events(timeout_s=0.0))
        reception.fault += f" (events: {told})"


def ping(place: Place, bodies: Bodies, count: int) -> list[int]:
    """Publish, and wait for the answer's message."""
    times = []
    with connect(place, listens=True) as bus, bus.subscribe(PONG) as answers:
        if not bus.wait_for_subscribers(PING, 1, PATIENCE_S):
            raise ExperimentError("no process came to answer")
        for body in bodies.sent(count):
            began = perf_counter_ns()
            bus.publish(PING, body)
            answer = next(answers)
            times.append(perf_counter_ns() - began)
            if answer.body != body:
                raise ExperimentError("an answer was not the question's")
    return times


def echo(place: Place, count: int) -> None:
    """Publish what comes."""
    with connect(place) as bus, bus.subscribe(PING) as questions:
        if not bus.wait_for_subscribers(PONG, 1, PATIENCE_S):
            raise ExperimentError("no process came to ask")
        for _, question in zip(range(count), questions, strict=False):
            bus.publish(PONG, question.body)
        bus.flush()
