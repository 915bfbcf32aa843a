"""The publisher and the subscribers of `slow`, each for a process of its own (see `workers`)."""

from collections.abc import Mapping
from time import perf_counter, sleep
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, run_role
from shoal_bench.errors import ExperimentError

GROUP = "239.192.74.205"
TOPIC, END, PATTERN = "slow/data", "slow/end", "slow/*"
PATIENCE_S = 30.0
#: After so long without a message the end was lost with others.
QUIET_S = 20.0
#: Messages that a slow reader reads at once before it pauses.
BURST = 100


def connect(options: Mapping[str, Any]) -> shoal.Bus:
    """A connection on loopback that loses what it was told to lose."""
    lost = options.get("drop_received", 0.0)
    return shoal.connect(f"norm://{GROUP}:{options['port']}", interface="lo", drop_received=lost)


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish as fast as members take it, for the time asked for, and then say that this is the end."""
    body, subscribers = bytes(options["size"]), options["subscribers"]
    with connect(options) as bus:
        if not bus.wait_for_subscribers(TOPIC, subscribers, PATIENCE_S):
            raise ExperimentError(f"only {len(bus.members)} of {subscribers} subscribers came")
        report(1)
        send, longest, before = bus.publish, 0.0, perf_counter()
        until = before + options["seconds"]
        while before < until:
            send(TOPIC, body)
            now = perf_counter()
            longest, before = max(longest, now - before), now
        bus.publish(END)
        told = [event for event in bus.events(timeout_s=0.0) if isinstance(event, shoal.MemberSlow)]
    return {"publish_max_s": longest, "expelled": len({event.node for event in told})}


def subscribe(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Count what comes until the end, at most so many a second if that was asked for."""
    msg_s_max = options.get("msg_s_max")
    received, began, ended = 0, 0.0, 0.0
    with connect(options) as bus, bus.subscribe(PATTERN) as subscription:
        for message in iter(lambda: subscription.receive(QUIET_S), None):
            if message.topic == END:
                break
            received += 1
            ended = perf_counter()
            began = began or ended
            if msg_s_max and received % BURST == 0:
                sleep(max(0.0, began + received / msg_s_max - ended))
        told = [event for event in bus.events(timeout_s=0.0) if isinstance(event, shoal.MessagesLost)]
    if received < 2:
        raise ExperimentError(f"{received} messages came: too few to measure a rate")
    return {
        "received": received,
        "seconds": ended - began,
        "told_lost": sum(event.last - event.first + 1 for event in told if event.last),
    }


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe}

if __name__ == "__main__":
    run_role(ROLES)
