"""A declarative pipeline: prices as they come, and their mean for each topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()


@dp.table(comment="Every price that the store recorded, once.")
def prices() -> DataFrame:
    return (
        spark.readStream.format("shoal")
        .option("subscribe", "prices/>")
        .option("startingOffsets", "earliest")
        .option("columns", "offset,topic,stored,bid")
        .option("bodySchema", "bid DOUBLE")
        .load()
    )


@dp.materialized_view(comment="How many prices each topic has, and their mean.")
def means() -> DataFrame:
    return (
        spark.read.table("prices")
        .groupBy("topic")
        .agg(f.count("*").alias("prices"), f.avg("bid").alias("mean"))
    )
