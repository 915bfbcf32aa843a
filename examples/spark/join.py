"""Join two topics: every order with the quotes of its symbol from the second before it.

    python join.py --store grpc://127.0.0.1:7475 --checkpoint /tmp/join

Orders are mappings {"symbol", "size"} on orders/…, quotes are mappings {"symbol", "bid"} on quotes/…. The
result goes to the topic fills. Watermarks tell Spark how late messages may be, so that it forgets what can no
longer match. Ctrl-C stops; a second start goes on from the checkpoint.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

import shoal.spark


def read(spark: SparkSession, store: str, topics: str, body: str) -> DataFrame:
    return (
        spark.readStream.format("shoal")
        .option("store", store)
        .option("subscribe", topics)
        .option("bodySchema", body)
        .option("startingOffsets", "earliest")
        .load()
    )


def fills(orders: DataFrame, quotes: DataFrame) -> DataFrame:
    """Each order with the best bid of its symbol in the second before it."""
    placed = orders.select(
        f.col("timestamp").alias("placed"), f.col("symbol").alias("ordered"), "size", "message_id"
    ).withWatermark("placed", "2 seconds")
    quoted = quotes.select(f.col("timestamp").alias("quoted"), "symbol", "bid").withWatermark(
        "quoted", "2 seconds"
    )
    before = f.expr("quoted <= placed AND quoted >= placed - INTERVAL 1 SECOND AND symbol = ordered")
    return placed.join(quoted, before).select("symbol", "size", "bid", f.col("message_id").alias("order_id"))


def start(spark: SparkSession, store: str, checkpoint: str, *, once: bool = False) -> StreamingQuery:
    orders = read(spark, store, "orders/>", "symbol STRING, size BIGINT")
    quotes = read(spark, store, "quotes/>", "symbol STRING, bid DOUBLE")
    writer = (
        fills(orders, quotes)
        .writeStream.format("shoal")
        .option("store", store)
        .option("topic", "fills")
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
    )
    return (writer.trigger(availableNow=True) if once else writer).start()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--store", default="grpc://127.0.0.1:7475")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument(
        "--once", action="store_true", help="end when everything that is stored has been joined"
    )
    chosen = parser.parse_args()
    query = start(shoal.spark.session("join"), chosen.store, chosen.checkpoint, once=chosen.once)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
