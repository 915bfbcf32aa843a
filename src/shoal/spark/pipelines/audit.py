"""Is history whole? Gaps, duplicates and violations of order, for each publisher and chain.

A message is (publisher, chain, number), and numbers of a chain grow by one. So each chain can be checked by
its numbers alone, whatever the bodies are. A number that is missing was lost, or was published to a topic
that the store does not record or the audit does not read: only the store's own gap records say that it was
lost.
"""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from shoal.spark.pipelines import common

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: At most this number of examples of each finding is shown.
EXAMPLES_MAX = 5


@dataclass(frozen=True)
class ChainFindings:
    """What was found about one chain of a publisher.

    Attributes:
        publisher: who published.
        chain: which of its ordered paths.
        messages: how many messages were read.
        first: the lowest number.
        last: the highest number.
        unseen: numbers between them that no message has.
        duplicates: messages whose number another message has already.
        out_of_order: messages that are stored behind one with a higher number.
        examples: offsets of some of the messages that are duplicates or out of order.
    """

    publisher: str
    chain: int | None
    messages: int
    first: int | None
    last: int | None
    unseen: int
    duplicates: int
    out_of_order: int
    examples: tuple[int, ...]


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes:
        messages: how many messages were read.
        unnumbered: how many of them have no number, and so tell nothing.
        lost: how many messages the store knows it missed, about.
        unheard: how many numbers were given while the store was not there: those may be missing, as far as
            they were published to topics that it records.
        chains: what was found about each chain.
        gaps: the store's records of what it missed.
    """

    messages: int
    unnumbered: int
    lost: int
    unheard: int
    chains: tuple[ChainFindings, ...]
    gaps: tuple[dict[str, Any], ...]

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost, doubled or out of order, and the store was there all the time."""
        wrong = any(chain.duplicates or chain.out_of_order for chain in self.chains)
        return not wrong and not self.gaps

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self) | {"clean": self.is_clean}


def audit(
    spark: "SparkSession",
    topics: str = ">",
    *,
    store: str | None = None,
    options: dict[str, str] | None = None,
) -> Audit:
    """Check the history of `topics`; `options` are further options of the source (`startingOffsets`)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    chosen = common.source_options(topics, store, None, options)
    rows = common.read(spark, chosen | {"columns": "offset,publisher,chain,number"})
    order = Window.partitionBy("publisher", "chain").orderBy("offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    copies = Window.partitionBy("publisher", "chain", "number").orderBy("offset")
    marked = rows.select(
        "*",
        (f.col("number") < f.max("number").over(before)).alias("behind"),
        (f.col("number").isNotNull() & (f.row_number().over(copies) > 1)).alias("copy"),
    )
    # A copy stands behind its original by nature; it is reported as a copy only.
    late = f.col("behind") & ~f.col("copy")
    found = (
        marked.groupBy("publisher", "chain")
        .agg(
            f.count("*").alias("messages"),
            f.count("number").alias("numbered"),
            f.min("number").alias("first"),
            f.max("number").alias("last"),
            f.count_if("copy").alias("duplicates"),
            f.count_if(late).alias("out_of_order"),
            f.slice(
                f.sort_array(f.collect_list(f.when(f.col("copy") | late, f.col("offset")))), 1, EXAMPLES_MAX
            ).alias("examples"),
        )
        .orderBy("publisher", "chain")
        .collect()
    )
    gaps = tuple(
        row.asDict()
        for row in common.read(spark, common.gap_options(chosen)).orderBy("after_offset").collect()
    )
    return Audit(
        messages=sum(row["messages"] for row in found),
        unnumbered=sum(row["messages"] - row["numbered"] for row in found),
        lost=sum(gap["count"] for gap in gaps if gap["reason"] == "lost"),
        unheard=sum(gap["count"] for gap in gaps if gap["reason"] == "away"),
        chains=tuple(_findings(row) for row in found if row["numbered"]),
        gaps=gaps,
    )


def _findings(row: Any) -> ChainFindings:
    distinct = row["numbered"] - row["duplicates"]
    return ChainFindings(
        publisher=row["publisher"],
        chain=row["chain"],
        messages=row["messages"],
        first=row["first"],
        last=row["last"],
        unseen=row["last"] - row["first"] + 1 - distinct,
        duplicates=row["duplicates"],
        out_of_order=row["out_of_order"],
        examples=tuple(row["examples"]),
    )
