"""The part of `shoal demo` with a store and Spark: recorded, queried, and answered on the bus."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import shoal
from shoal.cli.progress import Tell

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HALLS = ("north", "south", "east", "west")
MESSAGES = 100_000
SUMMARY = "demo/summary"
PATIENCE_S = 60.0


def run(console: Console, tell: Tell) -> bool:
    """Publish, record, query with Spark, publish the result, and show what a subscriber gets of it."""
    if find_spec("pyspark") is None:
        told = "  left out: Spark is not installed (pip install 'shoal[spark]')"
        console.print(told, highlight=False, markup=False)
        return True
    from pyspark.errors import PySparkException

    from shoal.spark.explain import sentence

    try:
        with _quiet_stderr():
            summaries = _summaries(tell)
    except PySparkException as error:
        console.print(f"  [red]failed:[/red] {escape(sentence(error))}", highlight=False)
        return False
    except (shoal.ShoalError, OSError) as error:
        console.print(f"  [red]failed:[/red] {escape(str(error))}", highlight=False)
        return False
    return _show(console, summaries)


@contextlib.contextmanager
def _quiet_stderr() -> Iterator[None]:
    """Keep what Spark's processes write about themselves off the terminal; errors come as exceptions."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _summaries(tell: Tell) -> list[dict[str, Any]]:
    """What a subscriber gets of the result."""
    from shoal.processes.store import StoreProcess
    from shoal.spark import session

    # Spark takes seconds to start; meanwhile there is something to publish.
    with ThreadPoolExecutor(max_workers=1) as pool:
        starting = pool.submit(_session)
        try:
            with (
                tempfile.TemporaryDirectory(prefix="shoal-demo-") as place,
                StoreProcess(Path(place) / "store", record="demo/>") as store,
                shoal.connect(interface="lo", domain=store.domain) as bus,
                bus.subscribe(SUMMARY) as subscription,
            ):
                tell("  a store records, Spark starts", None)
                _publish(bus)
                _wait_until_recorded(store.address)
                tell(f"  {MESSAGES:,} messages recorded, Spark starts", None)
                # For this thread, too: it is another one that made it.
                spark = session(spark=starting.result())
                tell("  Spark queries, and publishes the result", None)
                _summarise(spark, store.address)
                received = [subscription.receive(PATIENCE_S) for _ in HALLS]
                return [message.body for message in received if message is not None]
        finally:
            _stop(starting)


def _session() -> "SparkSession":
    from shoal.spark import session

    return session("shoal demo", quiet=True)


def _stop(starting: "Future[SparkSession]") -> None:
    if starting.exception() is None:
        starting.result().stop()


def _publish(bus: shoal.Bus) -> None:
    if not bus.wait_for_subscribers("demo/halls/north", 1, timeout_s=PATIENCE_S):
        raise shoal.ShoalError("the store did not come up")
    for number in range(MESSAGES):
        hall = number % len(HALLS)
        bus.publish(f"demo/halls/{HALLS[hall]}", {"celsius": 15 + hall + number % 1000 / 1000})
    bus.flush(PATIENCE_S)


def _wait_until_recorded(store: str) -> None:
    """The disk is a little behind the bus."""
    from shoal import history

    deadline = time.monotonic() + PATIENCE_S
    with history.connect(store) as client:
        while client.latest("demo/halls/*")["rows"] < MESSAGES:
            if time.monotonic() > deadline:
                raise shoal.ShoalError("the store did not record everything")
            time.sleep(0.05)


def _summarise(spark: "SparkSession", store: str) -> None:
    """One Spark job: from history to a result on the bus."""
    from pyspark.sql import functions as f

    source = {
        "store": store,
        "subscribe": "demo/halls/*",
        "columns": "topic,celsius",
        "bodySchema": "celsius DOUBLE",
    }
    halls = spark.read.format("shoal").options(**source).load()
    means = halls.groupBy(f.substring_index("topic", "/", -1).alias("hall")).agg(
        f.count("*").alias("messages"), f.round(f.avg("celsius"), 2).alias("celsius")
    )
    means.write.format("shoal").option("store", store).option("topic", SUMMARY).mode("append").save()


def _show(console: Console, summaries: list[dict[str, Any]]) -> bool:
    table = Table("hall", "messages", "mean °C")
    for each in sorted(summaries, key=lambda summary: str(summary["hall"])):
        table.add_row(str(each["hall"]), f"{each['messages']:,}", f"{each['celsius']}")
    console.print(table)
    expected = sorted((hall, MESSAGES // len(HALLS)) for hall in HALLS)
    if sorted((each["hall"], each["messages"]) for each in summaries) != expected:
        console.print("  [red]failed:[/red] the result is not what was published", highlight=False)
        return False
    console.print(
        f"  {MESSAGES:,} messages recorded, queried by Spark, the result published: "
        "[green]every message counted once[/green]",
        highlight=False,
    )
    return True
