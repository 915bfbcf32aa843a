"""ZeroMQ's PUB/SUB by pyzmq, over TCP.

An XPUB socket is a PUB socket that also tells who subscribed. XPUB_NODROP makes it wait at its high-water
mark, where PUB would drop.
"""

from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import zmq

from shoal_bench.bodies import Bodies, Reception
from shoal_bench.contestant import PATIENCE_S, Load, Place
from shoal_bench.errors import ExperimentError

#: What may wait for one subscriber: enough that nobody waits for nothing, and memory stays bounded.
QUEUE_BYTES, QUEUE_MIN, QUEUE_MAX = 64 << 20, 100, 100_000
PATIENCE_MS = int(PATIENCE_S * 1000)


def _publisher(context: "zmq.Context[zmq.Socket[bytes]]", port: int, size: int) -> "zmq.Socket[bytes]":
    socket = context.socket(zmq.XPUB)
    socket.setsockopt(zmq.SNDHWM, min(QUEUE_MAX, max(QUEUE_MIN, QUEUE_BYTES // size)))
    socket.setsockopt(zmq.XPUB_NODROP, 1)
    socket.setsockopt(zmq.XPUB_VERBOSE, 1)
    socket.bind(f"tcp://127.0.0.1:{port}")
    return socket


def _subscriber(context: "zmq.Context[zmq.Socket[bytes]]", port: int, size: int) -> "zmq.Socket[bytes]":
    socket = context.socket(zmq.SUB)
    socket.setsockopt(zmq.RCVHWM, min(QUEUE_MAX, max(QUEUE_MIN, QUEUE_BYTES // size)))
    socket.setsockopt(zmq.SUBSCRIBE, b"")
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


def _wait_for_subscribers(socket: "zmq.Socket[bytes]", count: int) -> None:
    for here in range(count):
        if not socket.poll(PATIENCE_MS):
            raise ExperimentError(f"only {here} of {count} subscribers came")
        socket.recv()


def publish(place: Place, load: Load, wait_received: Callable[[], None]) -> dict[str, Any]:
    """Send in a plain loop; it waits at the high-water mark."""
    bodies = load.bodies()
    with zmq.Context() as context, _publisher(context, place.port, load.size) as socket:
        _wait_for_subscribers(socket, load.subscribers)
        send = socket.send
        for body in bodies.sent(load.count):
            send(body)
        wait_received()
    return {}


def subscribe(place: Place, reception: Reception) -> None:
    """Receive in a plain loop."""
    with zmq.Context() as context, _subscriber(context, place.port, 1) as socket:
        receive = socket.recv
        for expected in reception.expected:
            body = receive()
            if body != expected and reception.is_over(body, expected):
                break


def ping(place: Place, bodies: Bodies, count: int) -> list[int]:
    """Publish on one socket, and wait for the answer on another."""
    times = []
    with (
        zmq.Context() as context,
        _publisher(context, place.port, 64) as questions,
        _subscriber(context, place.port + 1, 64) as answers,
    ):
        _wait_for_subscribers(questions, 1)
        answers.recv()
        for body in bodies.sent(count):
            began = perf_counter_ns()
            questions.send(body)
            answer = answers.recv()
            times.append(perf_counter_ns() - began)
            if answer != body:
                raise ExperimentError("an answer was not the question's")
    return times


def echo(place: Place, count: int) -> None:
    """Publish what comes, after a first message that says that everybody is here."""
    with (
        zmq.Context() as context,
        _publisher(context, place.port + 1, 64) as answers,
        _subscriber(context, place.port, 64) as questions,
    ):
        _wait_for_subscribers(answers, 1)
        answers.send(b"")
        for _ in range(count):
            answers.send(questions.recv())
