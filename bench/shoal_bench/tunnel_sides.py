"""A program of one LAN, for a process of its own (see `workers`): it knows of no tunnel."""

import time
from collections.abc import Mapping
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, is_told, run_role, wait_told
from shoal_bench.bodies import Bodies
from shoal_bench.errors import ExperimentError
from shoal_bench.sharing_sides import Arrivals

TOPIC = "tunnel/data"
URL = "norm://?interface=eth0"
PATIENCE_S = 30.0


def publish(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Publish as fast as it goes, for as long as asked: much more than the path takes."""
    bodies = Bodies(options["size"])
    with shoal.connect(URL) as bus:
        if not bus.wait_for_subscribers(TOPIC, timeout_s=PATIENCE_S):
            raise ExperimentError(f"no program behind the tunnel subscribed within {PATIENCE_S:g} s")
        report(1)
        wait_told()
        began_s = time.monotonic()
        count = 0
        while time.monotonic() < began_s + options["seconds"]:
            # A clock is not asked for every message.
            for _ in range(16):
                bus.publish(TOPIC, bodies[count])
                count += 1
        # What is on its way does not count.
        bus.close(linger_s=0.0)
    return {"began_s": began_s, "count": count}


def subscribe(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Count what comes until the parent says that it is over; every message is checked.

    What is lost has to be told: whoever publishes more than anybody takes may lose some of it.
    """
    bodies, arrivals = Bodies(options["size"]), Arrivals()
    count = skipped = last = 0
    with shoal.connect(URL) as bus:
        subscription = bus.subscribe(TOPIC)
        report(1)
        while not is_told():
            first = subscription.receive(timeout_s=0.05)
            for message in [] if first is None else [first, *subscription.receive_nowait()]:
                number = int(str(message.message_id).rpartition("-")[2])
                if number <= last or message.body != bodies[number - 1]:
                    raise ExperimentError(f"message {number} came twice, or is not what was sent")
                skipped += number - last - 1 if last else 0
                last = number
                count += 1
                arrivals.add(len(message.body))
        told = [event for event in bus.events(timeout_s=0.0) if isinstance(event, shoal.MessagesLost)]
    lost = sum(event.last - event.first + 1 for event in told)
    if skipped > lost:
        raise ExperimentError(f"{skipped} messages are missing, and {lost} were told as lost")
    return {**arrivals.result(), "count": count, "messages_lost": skipped}


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe}

if __name__ == "__main__":
    run_role(ROLES)
