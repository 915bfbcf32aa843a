"""The job that kill tests kill: copies in/> to out/> exactly once, until all is copied.

python copy_job.py STORE CHECKPOINT ROWS
"""

import sys

import shoal.spark
from shoal import history


def main(store: str, checkpoint: str, rows: int) -> None:
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss8m"
    conf = {"spark.driver.memory": "1g", "spark.driver.extraJavaOptions": java}
    spark = shoal.spark.session("copy", master="local[2,4]", conf=conf, quiet=True)
    frame = (
        spark.readStream.format("shoal")
        .option("store", store)
        .option("subscribe", "in/>")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "1000")
        .option("minPartitions", "2")
        .option("columns", "body")
        .load()
    )
    query = (
        frame.writeStream.format("shoal")
        .option("store", store)
        .option("topic", "out/all")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    client = history.connect(store)
    while query.isActive:
        try:
            if client.latest("out/>")["rows"] >= rows:
                query.stop()
                return
        except shoal.ShoalError:
            pass  # the store is being killed as well
        query.awaitTermination(1)
    raise SystemExit(f"the query ended: {query.exception()}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
