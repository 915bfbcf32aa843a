"""What stands between publisher and subscriber, for a process of its own (see `workers`)."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import shoal
from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.contestant import TOPIC, Place

#: Longer than a round takes.
ROUND_S = 600.0


def route(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Route until the parent has had enough."""
    place = Place(**options["place"])
    if options["contestant"] == "zenoh":
        router = import_module("shoal_bench.peers.zenoh").router(place)
    else:
        router = shoal.listen(f"tcp://127.0.0.1:{place.port}", router=True)
    with router:
        report(1)
        wait_told(ROUND_S)
    return {}


def select(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Subscribe to the load with many selectors, none of which matches."""
    place = Place(**options["place"])
    with shoal.connect(f"tcp://127.0.0.1:{place.port}") as bus:
        for number in range(options["selectors"]):
            bus.subscribe(TOPIC, selector=f"number = {number} AND region LIKE 'E%'")
        bus.sync()
        report(1)
        wait_told(ROUND_S)
    return {}


ROLES: dict[str, Role] = {"route": route, "select": select}

if __name__ == "__main__":
    run_role(ROLES)
