"""zenoh-python: a declared publisher, and a subscriber with a callback; two peers over TCP.

Batching and shared memory for larger messages are on, as they are by default. `BLOCK` and `RELIABLE` are
what loses nothing.
"""

import json
import threading
import time
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import zenoh

from shoal_bench.bodies import Bodies, Reception
from shoal_bench.contestant import PATIENCE_S, PING, PONG, TOPIC, Load, Place
from shoal_bench.errors import ExperimentError

HERE = "bench/here"
BLOCK, BLOCKED_US_MAX = "transport/link/tx/queue/congestion_control/block", 60_000_000


def router(place: Place) -> zenoh.Session:
    """A session that routes for those that connect to it."""
    config = zenoh.Config()
    config.insert_json5("mode", '"router"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", json.dumps([f"tcp/127.0.0.1:{place.port}"]))
    config.insert_json5(f"{BLOCK}/wait_before_close", str(BLOCKED_US_MAX))
    return zenoh.open(config)


def _session(place: Place, listens: bool) -> zenoh.Session:
    config = zenoh.Config()
    if place.routed:
        # Clients hear each other through the router alone.
        listens = False
        config.insert_json5("mode", '"client"')
    endpoints = json.dumps([f"tcp/127.0.0.1:{place.port}"])
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("listen/endpoints", endpoints if listens else "[]")
    config.insert_json5("connect/endpoints", "[]" if listens else endpoints)
    config.insert_json5("connect/timeout_ms", str(int(PATIENCE_S * 1000)))
    # By default a publisher that waits for five seconds closes the link instead.
    config.insert_json5(f"{BLOCK}/wait_before_close", str(BLOCKED_US_MAX))
    return zenoh.open(config)


def _publisher(session: zenoh.Session, key: str, *, express: bool = False) -> zenoh.Publisher:
    return session.declare_publisher(
        key,
        congestion_control=zenoh.CongestionControl.BLOCK,
        reliability=zenoh.Reliability.RELIABLE,
        express=express,
    )


def _wait_for_tokens(session: zenoh.Session, count: int) -> None:
    """A token is declared after its subscriber, and arrives after it."""
    deadline = time.monotonic() + PATIENCE_S
    here = 0
    while here < count:
        if time.monotonic() > deadline:
            raise ExperimentError(f"only {here} of {count} subscribers came")
        here = len(list(session.liveliness().get(f"{HERE}/*")))


def publish(place: Place, load: Load, wait_received: Callable[[], None]) -> dict[str, Any]:
    """Put in a plain loop; it waits when the link is full."""
    bodies = load.bodies()
    with _session(place, listens=True) as session:
        put = _publisher(session, TOPIC).put
        _wait_for_tokens(session, load.subscribers)
        for body in bodies.sent(load.count):
            put(body)
        wait_received()
    return {}


def subscribe(place: Place, reception: Reception) -> None:
    """Give `declare_subscriber` a function."""
    over = threading.Event()
    next_expected = reception.expected.__next__

    def take(sample: zenoh.Sample) -> None:
        body, expected = sample.payload.to_bytes(), next_expected()
        if body != expected and reception.is_over(body, expected):
            over.set()

    with _session(place, listens=False) as session:
        session.declare_subscriber(TOPIC, take)
        _token = session.liveliness().declare_token(f"{HERE}/{place.number}")
        over.wait()


def ping(place: Place, bodies: Bodies, count: int) -> list[int]:
    """Put, and wait for the answer in the default channel."""
    times = []
    with _session(place, listens=True) as session:
        answers = session.declare_subscriber(PONG)
        put = _publisher(session, PING, express=True).put
        _wait_for_tokens(session, 1)
        for body in bodies.sent(count):
            began = perf_counter_ns()
            put(body)
            answer = answers.recv()
            times.append(perf_counter_ns() - began)
            if answer.payload.to_bytes() != body:
                raise ExperimentError("an answer was not the question's")
    return times


def echo(place: Place, count: int) -> None:
    """Put what comes, in the callback, as zenoh's own example does."""
    over = threading.Event()
    left = iter(range(count - 1, -1, -1))
    with _session(place, listens=False) as session:
        put = _publisher(session, PONG, express=True).put

        def answer(sample: zenoh.Sample) -> None:
            put(sample.payload)
            if next(left) == 0:
                over.set()

        session.declare_subscriber(PING, zenoh.handlers.Callback(answer, indirect=False))
        _token = session.liveliness().declare_token(f"{HERE}/0")
        over.wait()
        # The last answer leaves before the session does.
        time.sleep(0.1)
