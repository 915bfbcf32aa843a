"""One side of a transfer of messages with more than a body, for a process of its own (see `workers`)."""

import functools
from collections.abc import Mapping
from time import time
from typing import Any

from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.bodies import Reception
from shoal_bench.contestant import PATIENCE_S, TOPIC, Load, Place
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError
from shoal_bench.shaped import PROPERTIES_MAX, Shape
from shoal_bench.shoal_loop import connect, explain

#: The last is what selectors ask for, so that they have to look past the others.
PROPERTIES = {"desk": "equities", "urgent": True, "volume": 100_000, "price": 10.25, "region": "EU"}
CORRELATION_ID, TYPE, REPLY_TO, PRIORITY, LIFE_S = "order-4711", "trade", "trades/answers", 5, 600.0
HEADERS = (CORRELATION_ID, TYPE, REPLY_TO, PRIORITY)


def publish(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Publish in a plain loop, and stay until the parent says that all was received."""
    load, shape = Load(**options["load"]), Shape(**options["shape"])
    properties = dict(list(PROPERTIES.items())[PROPERTIES_MAX - shape.properties :])
    with connect(Place(**options["place"])) as bus:
        if not bus.wait_for_subscribers(TOPIC, 1, PATIENCE_S):
            raise ExperimentError("the subscriber did not come")
        send, used = bus.publish, CpuClock()
        bodies = load.bodies().sent(load.count)
        # A loop for each shape, as a user would write it: keywords cost something where they are given.
        if shape.headers:
            for body in bodies:
                send(
                    TOPIC,
                    body,
                    # New values for each message, as a program has them.
                    properties=dict(properties),
                    correlation_id=CORRELATION_ID,
                    reply_to=REPLY_TO,
                    type=TYPE,
                    priority=PRIORITY,
                    ttl_s=LIFE_S,
                    timestamp=time(),
                )
        elif properties:
            for body in bodies:
                send(TOPIC, body, properties=properties)
        else:
            for body in bodies:
                send(TOPIC, body)
        wait_told()
        return {"cpu_s": used.elapsed_s()}


def subscribe(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Receive, and check what came."""
    load, shape = Load(**options["load"]), Shape(**options["shape"])
    reception, used = Reception(load.bodies(), load.count), CpuClock()
    names = list(PROPERTIES)[PROPERTIES_MAX - shape.properties :]
    with (
        connect(Place(**options["place"])) as bus,
        bus.subscribe(TOPIC, selector=shape.selector) as subscription,
    ):
        for expected, message in zip(reception.expected, subscription, strict=False):
            body = message.body
            if shape.reads:
                properties = message.properties
                values = [properties[name] for name in names]
                headers = (message.correlation_id, message.type, message.reply_to, message.priority)
                times = (message.timestamp, message.ttl_s, message.message_id)
                check_read(values, headers, times, shape)
            if body != expected:
                if reception.is_over(body, expected):
                    break
                used = CpuClock()
        cpu_s = used.elapsed_s()
        explain(reception, bus)
    if reception.fault is not None:
        raise ExperimentError(reception.fault)
    return {"seconds": reception.ended_s - reception.began_s, "cpu_s": cpu_s}


@functools.lru_cache
def _wanted(count: int) -> list[object]:
    return list(PROPERTIES.values())[PROPERTIES_MAX - count :]


def check_read(
    values: list[object], headers: tuple[object, ...], times: tuple[object, ...], shape: Shape
) -> None:
    """Whether a message came with everything it was sent with."""
    if values != _wanted(shape.properties) or (shape.headers and (headers != HEADERS or not all(times))):
        raise ExperimentError(f"a message came with {values}, {headers} and {times}")


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe}

if __name__ == "__main__":
    run_role(ROLES)
