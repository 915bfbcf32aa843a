"""Who fills a store and who reads its history, each for a process of its own (see `workers`)."""

import os
import secrets
from collections.abc import Mapping
from time import perf_counter, time_ns
from typing import Any

import shoal.history
from shoal._core import Log, encode_record
from shoal.config import resolve as resolve_connection
from shoal.processes.worker import Report, Role, run_role, wait_told
from shoal.store import Store
from shoal.store.config import resolve
from shoal_bench import shoal_loop
from shoal_bench.contestant import PATIENCE_S, Place
from shoal_bench.cpu import CpuClock
from shoal_bench.errors import ExperimentError

#: The property that a tenth of all rows has with each value, and the value that is asked for.
BUCKET, WANTED = "bucket", 3
#: No run takes longer.
STORE_S_MAX = 6 * 3600.0


def store(options: dict[str, Any], report: Report) -> Mapping[str, Any]:
    """Record everything and serve it, until the parent says that it is enough."""
    place = Place(**options["place"])
    config = resolve(options["path"], ">", flight="127.0.0.1:0")
    url = f"norm://{shoal_loop.GROUP}:{place.port}"
    with Store(config, resolve_connection(url, {"interface": place.interface})):
        report(1)
        wait_told(STORE_S_MAX)
    return {}


def fill(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Write a log directly, in batches, as recorders do."""
    topics, body = options["topics"], bytes(range(options["row_bytes"]))
    log = Log(options["path"], store_id=secrets.randbits(63) + 1, incarnation=os.urandom(16))
    now_us = time_ns() // 1000
    records: list[tuple[int | None, int, bytes]] = [
        (number + 1, now_us, encode_record(f"t/{number}", body)) for number in range(topics)
    ]
    rare = [(1, now_us, encode_record(options["rare_topic"], body))]
    began_s = perf_counter()
    left, batches = options["rows"] - options["rare_rows"], 0
    every = max(1, left // topics // options["rare_rows"])
    while left:
        log.append(1, 1, records[: min(left, topics)])
        left -= min(left, topics)
        batches += 1
        if batches % every == 0 and batches // every <= options["rare_rows"]:
            log.append(1, 1, rare)
    while log.end < options["rows"]:
        log.append(1, 1, rare)
    log.close()
    return {"seconds": perf_counter() - began_s}


def publish(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Publish rows of many topics, a few of them rare, with the property; stay until the parent has them."""
    rows, every = options["rows"], options["rows"] // options["rare_rows"]
    body, topics = bytes(range(options["row_bytes"])), [f"t/{number}" for number in range(options["topics"])]
    properties = [{BUCKET: number} for number in range(10)]
    with shoal_loop.connect(Place(**options["place"])) as bus:
        if not bus.wait_for_subscribers(topics[0], 1, PATIENCE_S):
            raise ExperimentError("the store did not come")
        for number in range(rows):
            rare = number % every == every // 2 and number // every < options["rare_rows"]
            topic = options["rare_topic"] if rare else topics[number % len(topics)]
            bus.publish(topic, body, properties=properties[number % 10])
        wait_told(STORE_S_MAX)
    return {}


def _connected(options: dict[str, Any]) -> shoal.history.History:
    """A connection that stands, and pandas imported: neither is what is measured."""
    import pandas  # noqa: F401

    history = shoal.history.connect(options["endpoint"])
    history.info()
    return history


def read(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Read a query batch by batch, and throw the rows away."""
    with _connected(options) as history:
        used, began_s = CpuClock(), perf_counter()
        rows = size = 0
        for batch in history.batches(**options["query"]):
            rows += batch.num_rows
            size += batch.nbytes
        return {"rows": rows, "bytes": size, "seconds": perf_counter() - began_s, "cpu_s": used.elapsed_s()}


def select_in_store(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Let the store select a tenth of the rows, into a frame."""
    with _connected(options) as history:
        began_s = perf_counter()
        frame = history.read(selector=f"{BUCKET} = {WANTED}", columns=options["columns"]).to_pandas()
        return {"rows": len(frame), "seconds": perf_counter() - began_s}


def select_in_pandas(options: dict[str, Any], _report: Report) -> Mapping[str, Any]:
    """Read everything into a frame, and let pandas select."""
    with _connected(options) as history:
        began_s = perf_counter()
        frame = history.read(columns=options["columns"], properties={BUCKET: "int64"}).to_pandas()
        frame = frame[frame[BUCKET] == WANTED]
        return {"rows": len(frame), "seconds": perf_counter() - began_s}


ROLES: dict[str, Role] = {
    "store": store,
    "fill": fill,
    "publish": publish,
    "read": read,
    "select_in_store": select_in_store,
    "select_in_pandas": select_in_pandas,
}

if __name__ == "__main__":
    run_role(ROLES)
