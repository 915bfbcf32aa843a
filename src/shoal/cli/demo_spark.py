"""The part of `shoal demo` with a store and Spark: recorded, queried, and answered on the bus."""

import tempfile
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

import shoal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HALLS = ("north", "south", "east", "west")
MESSAGES = 100_000
SUMMARY = "demo/summary"
PATIENCE_S = 60.0


def run(console: Console) -> bool:
    """Publish, record, query with Spark, publish the result, and show what a subscriber gets of it."""
    if find_spec("pyspark") is None:
        console.print("  left out: it needs Spark, pip install 'shoal[spark]'", highlight=False)
        return True
    from shoal.bench.store_process import StoreProcess

    started: list[SparkSession] = []
    # Spark takes seconds to start; meanwhile there is something to publish.
    starting = threading.Thread(target=lambda: started.append(_session()))
    starting.start()
    try:
        with (
            console.status("  a store records, Spark starts"),
            tempfile.TemporaryDirectory(prefix="shoal-demo-") as place,
            StoreProcess(Path(place) / "store", record="demo/>") as store,
            shoal.connect(interface="lo", domain=store.domain) as bus,
            bus.subscribe(SUMMARY) as subscription,
        ):
            _publish(bus)
            starting.join(PATIENCE_S)
            if not started:
                raise shoal.ShoalError("Spark did not start")
            _summarise(started[0], store.address)
            received = [subscription.receive(PATIENCE_S) for _ in HALLS]
    except (shoal.ShoalError, OSError) as error:
        console.print(f"  [red]failed:[/red] {error}", highlight=False)
        return False
    finally:
        starting.join()
        for spark in started:
            spark.stop()
    return _show(console, [message.body for message in received if message is not None])


def _session() -> "SparkSession":
    import shoal.spark

    return shoal.spark.session("shoal demo", quiet=True)


def _publish(bus: shoal.Bus) -> None:
    if not bus.wait_for_subscribers("demo/halls/north", 1, timeout_s=PATIENCE_S):
        raise shoal.ShoalError("the store did not come up")
    for number in range(MESSAGES):
        hall = number % len(HALLS)
        bus.publish(f"demo/halls/{HALLS[hall]}", {"celsius": 15 + hall + number % 1000 / 1000})
    bus.flush(PATIENCE_S)


def _summarise(spark: "SparkSession", store: str) -> None:
    """One Spark job: from history to a result on the bus."""
    from pyspark.sql import functions as f

    from shoal import history

    source = {
        "store": store,
        "subscribe": "demo/halls/*",
        "columns": "topic,celsius",
        "bodySchema": "celsius DOUBLE",
    }
    deadline = time.monotonic() + PATIENCE_S
    with history.connect(store) as client:
        while client.latest("demo/halls/*")["rows"] < MESSAGES:  # the disk is a little behind the bus
            if time.monotonic() > deadline:
                raise shoal.ShoalError("the store did not record everything")
            time.sleep(0.05)
    halls = spark.read.format("shoal").options(**source).load()
    means = halls.groupBy(f.substring_index("topic", "/", -1).alias("hall")).agg(
        f.count("*").alias("messages"), f.round(f.avg("celsius"), 2).alias("celsius")
    )
    means.write.format("shoal").option("store", store).option("topic", SUMMARY).mode("append").save()


def _show(console: Console, summaries: list[dict[str, object]]) -> bool:
    table = Table("hall", "messages", "mean °C")
    for each in sorted(summaries, key=lambda summary: str(summary["hall"])):
        table.add_row(str(each["hall"]), f"{each['messages']:,}", f"{each['celsius']}")
    console.print(table)
    expected = {(hall, MESSAGES // len(HALLS)) for hall in HALLS}
    if {(each["hall"], each["messages"]) for each in summaries} != expected:
        console.print("  [red]failed:[/red] the result is not what was published", highlight=False)
        return False
    console.print(
        f"  {MESSAGES:,} messages recorded, queried by Spark, the result published: [green]every message "
        f"counted once"
        "[/green]",
        highlight=False,
    )
    return True
