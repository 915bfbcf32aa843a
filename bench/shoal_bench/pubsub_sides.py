"""One side of a transfer or of a round trip by any contestant, for a process of its own (see `workers`)."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal_bench.bodies import Bodies, Reception
from shoal_bench.contestant import Contestant, Load, Place
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError

MODULES = {
    "shoal_loop": "shoal_bench.shoal_loop",
    "shoal_callback": "shoal_bench.shoal_callback",
    "zmq": "shoal_bench.peers.zmq",
    "zenoh": "shoal_bench.peers.zenoh",
    "nats": "shoal_bench.peers.nats",
}


def _contestant(options: Mapping[str, Any]) -> Contestant:
    return cast(Contestant, import_module(MODULES[options["contestant"]]))


def publish(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Publish the load, and stay until the parent says that all of it was received."""
    contestant, used = _contestant(options), CpuClock()
    said = contestant.publish(Place(**options["place"]), Load(**options["load"]), wait_told)
    return said | {"cpu_s": used.elapsed_s()}


def subscribe(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Receive the load, and check it."""
    contestant, load = _contestant(options), Load(**options["load"])
    reception, used = Reception(load.bodies(), load.count), CpuClock()
    contestant.subscribe(Place(**options["place"]), reception)
    if reception.fault is not None:
        raise ExperimentError(f"{options['contestant']}: {reception.fault}")
    return {"seconds": reception.ended_s - reception.began_s, "cpu_s": used.elapsed_s()}


def ping(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Ask, and time each answer; the first ones only warm up."""
    warm_up, count = options["warm_up"], options["count"]
    times = _contestant(options).ping(Place(**options["place"]), Bodies(options["size"]), warm_up + count)
    return {"times_ns": times[warm_up:]}


def echo(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Answer."""
    _contestant(options).echo(Place(**options["place"]), options["warm_up"] + options["count"])
    return {}


ROLES: dict[str, Role] = {"publish": publish, "subscribe": subscribe, "ping": ping, "echo": echo}

if __name__ == "__main__":
    run_role(ROLES)
