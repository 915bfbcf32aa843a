"""The capacity model, fitted by Spark to the samples that an experiment left in a store.

A sample is what a node counted in one second of one cell: (contestant, kind of filter, filters, replication,
size). Spark adds up each cell, without the ends of its runs, and sums the normal equations over the cells.
The driver solves them. Cells named in `HELD_OUT` are never fitted: they judge the models.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from shoal.capacity import Model, Moments, Workload
from shoal.capacity.model import FORMS
from shoal.errors import ConfigError
from shoal.spark.pipelines import common

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

#: A sample's body. All but `equal` and `why` are needed: a sample that lacks one is dropped and counted.
BODY = (
    "run STRING, experiment STRING, cell STRING, rep INT, contestant STRING, kind STRING, n INT, r INT, "
    "size INT, t_s DOUBLE, received BIGINT, dispatched BIGINT, evaluated BIGINT, cpu_s DOUBLE, "
    "valid BOOLEAN, equal BOOLEAN, why STRING"
)
NEEDED = tuple(part.split()[0] for part in BODY.split(", ") if not part.startswith(("equal", "why")))
#: The share of a run that is cut at both ends.
CUT = 0.05
#: (filters beside the matching ones, replication) of the cells that judge a model.
HELD_OUT = frozenset({(n, r) for n in (10, 80) for r in (2, 20)} | {(120, 15), (300, 30)})
#: The experiment that varies filters and replication together.
JOINT = "fiorano-joint"
#: Cells that a model needs.
CELLS_MIN = 4


@dataclass(frozen=True)
class Cell:
    """One cell as it was measured.

    Attributes:
        contestant: which system.
        kind: the kind of filter.
        n: filters that do not match.
        r: copies of each message.
        size: bytes of a body.
        processing_s: what a message took.
        evaluated: filters that were looked at for a message.
        overall_msg_s: messages received and sent in a second of a full core.
        held_out: whether it judges the models instead of making them.
        equal: whether the filters that do not match are equal. Models are of different ones.
    """

    contestant: str
    kind: str
    n: int
    r: int
    size: int
    processing_s: float
    evaluated: float
    overall_msg_s: float
    held_out: bool
    equal: bool = False

    @property
    def workload(self) -> Workload:
        """What the node was asked to do."""
        return Workload(filters=self.n + self.r, replication=self.r, size=self.size, evaluated=self.evaluated)


@dataclass(frozen=True)
class Capacity:
    """What a run says of capacity.

    Attributes:
        run: which run.
        models: for each contestant and kind every form, the better predictor first.
        cells: what was measured.
        dropped: samples without all that is needed.
        invalid: samples of cells that broke the study's rules; they are left out.
    """

    run: str
    models: tuple[Model, ...]
    cells: tuple[Cell, ...]
    dropped: int
    invalid: int

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def capacity(
    spark: "SparkSession",
    run: str,
    *,
    store: str | None = None,
    options: Mapping[str, str] | None = None,
    experiment: str = JOINT,
    valid_only: bool = True,
    publish: bool = False,
) -> Capacity:
    """Fit the models of a run's joint experiment.

    Args:
        spark: the session.
        run: the run's name; its samples are on `bench/RUN/>`.
        store: the store's address or directory.
        options: further options of the source.
        experiment: samples of other experiments of the run are left out.
        valid_only: leave out cells that broke a rule of the study; otherwise fit them, too.
        publish: also publish the models to `bench/RUN/model`.
    """
    samples = _samples(spark, run, experiment, store, options)
    whole, dropped, invalid = _usable(samples, valid_only)
    measured = _cells(whole).cache()
    try:
        found = tuple(
            _cell(row) for row in measured.orderBy("contestant", "kind", "equal", "size", "r", "n").collect()
        )
        if not found:
            raise ConfigError(
                f"the run {run!r} has no valid samples: {dropped} are incomplete, {invalid} invalid. "
                "Run one first: shoal bench seeds fiorano-joint --store DIR"
            )
        models = tuple(_models(measured, found))
    finally:
        measured.unpersist()
    result = Capacity(run, models, found, dropped, invalid)
    if publish:
        _publish(spark, result, store)
    return result


def _samples(
    spark: "SparkSession", run: str, experiment: str, store: str | None, options: Mapping[str, str] | None
) -> "DataFrame":
    from pyspark.sql import functions as f

    chosen = common.source_options(f"bench/{run}/>", store, None, options)
    names = ",".join(part.split()[0] for part in BODY.split(", "))
    found = common.read(spark, chosen | {"columns": f"topic,{names}", "bodySchema": BODY})
    # A sample that does not say its experiment is incomplete, and is counted.
    return found.where(f.col("experiment").isNull() | (f.col("experiment") == experiment))


def _usable(samples: "DataFrame", valid_only: bool) -> "tuple[DataFrame, int, int]":
    """Whole and valid samples; how many are not whole, and not valid."""
    from pyspark.sql import functions as f

    samples = samples.where(~f.col("topic").endswith("/model"))
    is_whole = f.lit(True)
    for name in NEEDED:
        is_whole = is_whole & f.col(name).isNotNull()
    counted = samples.agg(
        f.count_if(~is_whole).alias("dropped"), f.count_if(is_whole & ~f.col("valid")).alias("invalid")
    ).collect()[0]
    wanted = is_whole & f.col("valid") if valid_only else is_whole
    return samples.where(wanted), int(counted["dropped"]), int(counted["invalid"])


def _cells(samples: "DataFrame") -> "DataFrame":
    """One row a cell: its ends cut, its repetitions added up."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    run = Window.partitionBy("cell", "rep", "contestant")
    middle = samples.withColumn("end_s", f.max("t_s").over(run)).where(
        (f.col("t_s") > CUT * f.col("end_s")) & (f.col("t_s") <= (1 - CUT) * f.col("end_s"))
        | (f.col("end_s") < 3)
    )
    held_out = f.lit(False)
    for n, r in sorted(HELD_OUT):
        held_out = held_out | ((f.col("n") == n) & (f.col("r") == r))
    return (
        middle.withColumn("equal", f.coalesce("equal", f.lit(False)))
        .groupBy("contestant", "kind", "n", "r", "size", "equal")
        .agg(
            f.sum("received").alias("received"),
            f.sum("cpu_s").alias("cpu_s"),
            (f.sum("evaluated") / f.sum("received")).alias("evaluated"),
        )
        .where("received > 0 and cpu_s > 0")
        .withColumn("seconds", f.col("cpu_s") / f.col("received"))
        .withColumn("held_out", held_out & ~f.col("equal"))
    )


def _cell(row: "Row") -> Cell:
    return Cell(
        contestant=row["contestant"],
        kind=row["kind"],
        n=row["n"],
        r=row["r"],
        size=row["size"],
        processing_s=row["seconds"],
        evaluated=row["evaluated"],
        overall_msg_s=(row["r"] + 1) / row["seconds"],
        held_out=row["held_out"],
        equal=row["equal"],
    )


def _factors(form: str) -> "list[Column]":
    from pyspark.sql import functions as f

    one = f.lit(1.0)
    if form == "filters":
        return [one, (f.col("n") + f.col("r")).cast("double"), f.col("r").cast("double")]
    last = f.col("r") * f.col("r") if form == "crowd" else f.col("size")
    return [one, f.col("evaluated"), f.col("r").cast("double"), last.cast("double")]


def _moments(cells: "DataFrame", form: str) -> dict[tuple[str, str], Moments]:
    """The normal equations of each contestant and kind, summed by Spark."""
    from pyspark.sql import functions as f

    scaled = [factor / f.col("seconds") for factor in _factors(form)]
    size = len(scaled)
    sums = [f.sum(scaled[i] * scaled[j]).alias(f"g{i}{j}") for i in range(size) for j in range(i, size)]
    sums += [f.sum(scaled[i]).alias(f"m{i}") for i in range(size)]
    grouped = cells.where(~f.col("held_out") & ~f.col("equal")).groupBy("contestant", "kind")
    made = {}
    for row in grouped.agg(f.count("*").alias("rows"), *sums).collect():
        gram = tuple(tuple(float(row[f"g{min(i, j)}{max(i, j)}"]) for j in range(size)) for i in range(size))
        moment = tuple(float(row[f"m{i}"]) for i in range(size))
        made[row["contestant"], row["kind"]] = Moments(gram, moment, float(row["rows"]), row["rows"])
    return made


def _models(measured: "DataFrame", cells: Iterable[Cell]) -> Iterable[Model]:
    every = list(cells)
    moments = {form: _moments(measured, form) for form in FORMS}
    for contestant, kind in sorted(moments["filters"]):
        own = [
            cell for cell in every if (cell.contestant, cell.kind) == (contestant, kind) and not cell.equal
        ]
        fitted = [cell for cell in own if not cell.held_out]
        if len(fitted) < CELLS_MIN:
            continue
        table = {float(cell.n + cell.r): cell.evaluated for cell in fitted}
        ranges = {
            "filters": _range(cell.n + cell.r for cell in fitted),
            "replication": _range(cell.r for cell in fitted),
            "size": _range(cell.size for cell in fitted),
        }
        made = [
            Model.of(
                moments[form][contestant, kind].solve(),
                form=form,
                contestant=contestant,
                kind=kind,
                fitted=ranges,
                evaluated=() if form == "filters" else tuple(sorted(table.items())),
            )
            for form in moments
        ]
        judged = [_judged(model, [cell for cell in own if cell.held_out]) for model in made]
        yield from sorted(judged, key=lambda model: (model.held_out_median is None, model.held_out_median))


def _range(values: Iterable[float]) -> tuple[float, float]:
    found = [float(value) for value in values]
    return min(found), max(found)


def _judged(model: Model, cells: list[Cell]) -> Model:
    """The model with its errors on cells that it has not seen, of which it knows n, r and size alone."""
    errors = [
        abs(model.processing_s(replace(cell.workload, evaluated=None)) - cell.processing_s)
        / cell.processing_s
        for cell in cells
    ]
    if not errors:
        return model
    return replace(model, held_out_median=median(errors), held_out_worst=max(errors))


def _publish(spark: "SparkSession", found: Capacity, store: str | None) -> None:
    rows = [(model.to_json(),) for model in found.models]
    frame = spark.createDataFrame(rows, "body STRING")
    sink = common.sink_options(f"bench/{found.run}/model", store)
    frame.write.format("shoal").options(**sink).mode("append").save()
