"""Sides of Narada's experiment, a process each: many subscribers, and a publisher that times its messages."""

import itertools
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import shoal
from shoal import jms
from shoal.processes.worker import Report, Role, run_role, wait_told

TOPIC = "narada/data"
PATIENCE_S = 30.0
CELL_S = 3600.0


def subscribers(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Receive on many subscriptions over few connections, and count, until told."""
    with ExitStack() as stack:
        buses = [stack.enter_context(shoal.connect(options["url"])) for _ in range(options["connections"])]
        counts = itertools.count()
        for _, bus in zip(range(options["count"]), itertools.cycle(buses), strict=False):
            bus.subscribe(TOPIC, lambda _: next(counts))
        for bus in buses:
            bus.sync()
        report(1)
        wait_told(CELL_S)
        deadline = time.monotonic() + PATIENCE_S
        # A look counts as well, so looks are taken off again.
        looks = 0
        while (seen := next(counts) - looks) < options["expected"] and time.monotonic() < deadline:
            looks += 1
            time.sleep(0.01)
        return {"received": seen}


def measure(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish at a rate, and time each message at a listener of the same process."""
    count, rate = options["count"], options["rate"]
    warm = options["warm"]
    sent, came = [0.0] * (warm + count), [0.0] * (warm + count)
    left, over = [warm + count], threading.Event()

    def take(message: jms.Message) -> None:
        now = time.perf_counter()
        came[int.from_bytes(message.body[:8], "big")] = now
        left[0] -= 1
        if not left[0]:
            over.set()

    with (
        shoal.connect(options["url"]) as reading,
        shoal.connect(options["url"]) as writing,
        jms.ConnectionFactory(bus=reading).create_context() as context,
        jms.ConnectionFactory(bus=writing).create_connection() as connection,
    ):
        context.create_consumer(context.create_topic(TOPIC)).message_listener = take
        session = connection.create_session()
        producer = session.create_producer(session.create_topic(TOPIC))
        producer.delivery_mode = jms.DeliveryMode.NON_PERSISTENT
        reading.sync()
        writing.wait_for_subscribers(TOPIC, 1, PATIENCE_S)
        report(1)
        wait_told(CELL_S)
        filler = bytes(max(0, options["size"] - 8))
        began = time.perf_counter()
        for number in range(warm + count):
            if number == warm:
                # Timed messages wait for none of the burst before them.
                deadline = time.perf_counter() + PATIENCE_S
                while left[0] > count and time.perf_counter() < deadline:
                    time.sleep(0.01)
                began = time.perf_counter()
            if number >= warm:
                time.sleep(max(0.0, began + (number - warm) / rate - time.perf_counter()))
            message = session.create_bytes_message(number.to_bytes(8, "big") + filler)
            sent[number] = time.perf_counter()
            producer.send(message)
        over.wait(PATIENCE_S)
    timed = list(zip(sent, came, strict=True))[warm:]
    delays = [after - before for before, after in timed if after]
    return {"sent": count, "delays_s": delays}


ROLES: dict[str, Role] = {"subscribers": subscribers, "measure": measure}

if __name__ == "__main__":
    run_role(ROLES)
