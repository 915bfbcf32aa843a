"""The publisher, the steady subscriber and the crowd of `churn`, each for processes of its own."""

import os
from collections import deque
from collections.abc import Mapping
from time import perf_counter, process_time, sleep
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, run_role
from shoal_bench.errors import ExperimentError

GROUP = "239.192.74.206"
TOPIC, END, PATTERN = "churn/data", "churn/end", "churn/*"
PATIENCE_S = 60.0
#: After so long without a message the end was lost with others.
QUIET_S = 30.0


def connect(options: Mapping[str, Any]) -> shoal.Bus:
    """A connection on loopback, in a process that keeps to its cores."""
    os.sched_setaffinity(0, options["cpus"])
    return shoal.connect(f"norm://{GROUP}:{options['port']}", interface="lo", heartbeat_s=1.0)


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish at the rate asked for, for the time asked for, and then say that this is the end."""
    body, every_s = bytes(options["size"]), 1.0 / options["msg_s"]
    with connect(options) as bus:
        if not bus.wait_for_subscribers(TOPIC, 1, PATIENCE_S):
            raise ExperimentError("the steady subscriber did not come")
        report(1)
        sent, longest = 0, 0.0
        cpu, began = process_time(), perf_counter()
        while (now := perf_counter()) < began + options["seconds"]:
            if (early_s := began + sent * every_s - now) > 0:
                sleep(early_s)
                now = perf_counter()
            bus.publish(TOPIC, body)
            sent += 1
            longest = max(longest, perf_counter() - now)
        seconds, cpu = perf_counter() - began, process_time() - cpu
        bus.publish(END)
        told = [type(event) for event in bus.events(timeout_s=0.0)]
    return {
        "sent": sent,
        "seconds": seconds,
        "cpu_s": cpu,
        "publish_max_s": longest,
        "joined": told.count(shoal.MemberJoined),
        "left": told.count(shoal.MemberLeft),
    }


def subscribe(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Count what comes until the end."""
    received = 0
    with connect(options) as bus, bus.subscribe(PATTERN) as subscription:
        for message in iter(lambda: subscription.receive(QUIET_S), None):
            if message.topic == END:
                break
            received += 1
    return {"received": received}


def crowd(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Be so many nodes, of which the oldest leaves and a new one joins all the time, until killed."""
    nodes: deque[shoal.Bus] = deque()
    pause_s = options["life_s"] / options["nodes"]
    while True:
        bus = connect(options)
        bus.subscribe(f"crowd/{bus.node}/*")
        nodes.append(bus)
        if len(nodes) > options["nodes"]:
            nodes.popleft().close(0.0)
            sleep(pause_s)
        elif len(nodes) == options["nodes"]:
            report(1)


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe, "crowd": crowd}

if __name__ == "__main__":
    run_role(ROLES)
