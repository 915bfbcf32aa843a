"""`shoal pipeline`: what people do with recorded messages, on Spark. One command for each pipeline."""

import contextlib
import json as json_text
import logging
import os
import signal
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from shoal.spark.pipelines.audit import Audit
    from shoal.spark.pipelines.stats import WindowStats

app = typer.Typer(
    help="Archive, replay, measure and audit recorded messages, on Spark.", no_args_is_help=True
)

#: Columns of a table that is not shown in a terminal.
WIDTH = 160

Topics = Annotated[
    str, typer.Argument(help="Topics: * is one level, > all that follow; commas between several.")
]
Store = Annotated[
    str | None,
    typer.Option(
        help="The store: grpc://host:port, or its directory.", rich_help_panel="Source", envvar="SHOAL_STORE"
    ),
]
Selector = Annotated[str | None, typer.Option(help="Only messages that match.", rich_help_panel="Source")]
Option_ = Annotated[
    list[str] | None,
    typer.Option(
        "--option", metavar="NAME=VALUE", help="A further option of the source.", rich_help_panel="Source"
    ),
]
Master = Annotated[
    str | None,
    typer.Option(help="Where Spark runs; all cores of this machine by default.", rich_help_panel="Spark"),
]
Remote = Annotated[
    str | None, typer.Option(help="A Spark Connect server, such as sc://host:15002.", rich_help_panel="Spark")
]
Conf = Annotated[
    list[str] | None, typer.Option(metavar="NAME=VALUE", help="A Spark setting.", rich_help_panel="Spark")
]
Json = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the result as JSON; - is standard output.")
]


def _is_ambient(context: typer.Context, option: str) -> bool:
    """Whether an option comes from the environment: then a command may ignore it."""
    source = context.get_parameter_source(option)
    return source is not None and source.name == "ENVIRONMENT"


@app.command("archive")
def archive(
    topics: Topics,
    directory: Annotated[Path, typer.Argument(help="Where the Parquet files go.")],
    follow: Annotated[bool, typer.Option(help="Go on with what is published later, until Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(help="How often files are written with --follow.")] = "10 seconds",
    compact: Annotated[bool, typer.Option(help="Make few large files of all when done.")] = False,
    iceberg: Annotated[
        str | None, typer.Option(metavar="NAMESPACE.TABLE", help="Add the files to this Iceberg table.")
    ] = None,
    store: Store = None,
    selector: Selector = None,
    option: Option_ = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Write messages into Parquet files by date and topic, each once; goes on where it stopped before."""
    with told_plainly("pipeline archive"):
        from shoal.spark.pipelines import archive as pipeline
        from shoal.spark.pipelines import iceberg as tables

        pipeline.prepare(directory)
        table = None if iceberg is None else tables.open_table(iceberg, directory)
        with spark_session("archive", master, remote, conf) as spark:
            query = pipeline.archive(
                spark,
                topics,
                directory,
                store=store,
                selector=selector,
                follow=follow,
                every=every,
                options=pairs(option),
            )
            _wait(query, follow=follow)
        if compact:
            before, after = pipeline.compact(directory)
            typer.echo(f"compacted {before} files into {after}")
        if table is not None:
            typer.echo(f"{tables.refresh(table, directory)} files are in the table {iceberg}")
        typer.echo(f"{len(pipeline.parquet_files(directory))} files in {directory}")


@app.command("replay")
def replay(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="The directory of an archive, or topics in history.")],
    speed: Annotated[float, typer.Option(min=0.0, help="2 is twice as fast; 0 as fast as possible.")] = 1.0,
    prefix: Annotated[str | None, typer.Option(help="Published topics begin with this and a slash.")] = None,
    topics: Annotated[str | None, typer.Option(help="Of an archive, only these topics.")] = None,
    property_schema: Annotated[
        str | None, typer.Option(help="Types of properties, such as 'size BIGINT'; others are texts.")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a first subscriber.")] = 1.0,
    store: Store = None,
    option: Option_ = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Publish recorded messages again, in their order and with their spacing."""
    with told_plainly("pipeline replay"):
        from shoal.spark.pipelines.replay import replay as pipeline

        with (
            spark_session("replay", master, None, conf) as spark,
            connect(url, domain, interface) as bus,
            Progress("reading") as progress,
        ):
            bus.wait_for_subscribers(f"{prefix or 'any'}/any", 1, timeout_s=wait)
            done = pipeline(
                spark,
                source,
                bus,
                speed=speed,
                store=None if _is_ambient(context, "store") and Path(source).is_dir() else store,
                topics=topics,
                prefix=prefix,
                property_schema=property_schema,
                options=pairs(option),
                told=lambda count: progress.tell(f"{count:,} messages"),
            )
        typer.echo(
            f"{done.messages:,} messages in {done.seconds:.1f} s, the latest {done.late_max_s * 1000:.1f} "
            f"ms late"
        )


@app.command("stats")
def stats(
    topics: Topics = ">",
    window: Annotated[str, typer.Option(help="How long a window is: 500ms, 10s, 5m.")] = "10s",
    follow: Annotated[bool, typer.Option(help="Show each window when it is complete, until Ctrl-C.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="With --follow: where it is kept how far this got; needed for --to.")
    ] = None,
    to: Annotated[str | None, typer.Option(metavar="TOPIC", help="Publish each row there as well.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="IMAGE", help="Draw rate and delay into a file.")
    ] = None,
    json: Json = None,
    store: Store = None,
    selector: Selector = None,
    option: Option_ = None,
    master: Master = None,
    conf: Conf = None,
) -> None:
    """Rate, size, delay and loss for each window of time, topic and publisher."""
    with told_plainly("pipeline stats"):
        from shoal.spark.options import parse_duration_s
        from shoal.spark.pipelines import stats as pipeline

        if follow and plot is not None:
            raise ValueError("--plot draws what is stored now: leave out --follow")
        if not follow and checkpoint is not None:
            raise ValueError("--checkpoint is for --follow: without it, everything is read once")
        if follow and to is not None and checkpoint is None:
            raise ValueError(
                "--to with --follow needs --checkpoint DIRECTORY, so that each row is published once"
            )
        parse_duration_s("window", window)
        chosen: dict[str, Any] = {
            "window": window,
            "store": store,
            "selector": selector,
            "to_topic": to,
            "options": pairs(option),
        }
        with contextlib.ExitStack() as stack:
            if follow:
                place = checkpoint or stack.enter_context(_temporary())
            spark = stack.enter_context(spark_session("stats", master, None, conf))
            if follow:
                query = pipeline.follow_stats(
                    spark, topics, checkpoint=place, shown=lambda found: _show_stats(found, json), **chosen
                )
                _wait(query, follow=True, quiet=True)
                return
            with spark_progress(spark, "measuring"):
                found = pipeline.stats(spark, topics, **chosen)
        if plot is not None:
            pipeline.plot(found, plot)
        _show_stats(found, json)


@app.command("audit")
def audit(
    topics: Topics = ">",
    json: Json = None,
    store: Store = None,
    option: Option_ = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Look for gaps, duplicates and violations of order in history; the status is 1 if there are any."""
    with told_plainly("pipeline audit"):
        from shoal.spark.pipelines.audit import audit as pipeline

        with spark_session("audit", master, remote, conf) as spark, spark_progress(spark, "auditing"):
            found = pipeline(spark, topics, store=store, options=pairs(option))
        if json is not None:
            _write(json, [json_text.dumps(found.to_dict(), indent=2, default=str)])
        if json != "-":
            _show_audit(found)
    if not found.is_clean:
        raise typer.Exit(1)


@contextlib.contextmanager
def told_plainly(command: str, *, needs_spark: bool = True) -> Iterator[None]:
    """Say in one line what went wrong, also where Spark wraps it into a trace."""
    with plain_endings(command):
        if not needs_spark:
            yield
            return
        if find_spec("pyspark") is None:
            raise ValueError("Spark is not installed: pip install 'shoal[spark]'")
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from shoal.spark.explain import plain

        # What goes wrong is said once, below; Py4J would log it, too.
        quiet = logging.NullHandler()
        logging.getLogger().addHandler(quiet)
        try:
            yield
        except (PySparkException, Py4JError) as error:
            raise plain(error) from error
        finally:
            logging.getLogger().removeHandler(quiet)


@contextlib.contextmanager
def spark_session(
    name: str, master: str | None, remote: str | None, conf: list[str] | None
) -> "Iterator[SparkSession]":
    """Spark for one command. What is started here is stopped, so that its workers end in order."""
    from pyspark.sql import SparkSession

    import shoal.spark
    from shoal.spark.stderr import filtered

    before = SparkSession.getActiveSession()
    with (
        os.fdopen(os.dup(2), "w") as terminal,
        Progress("starting Spark", Console(file=terminal, highlight=False)),
        filtered(),
    ):
        spark = shoal.spark.session(
            f"shoal {name}", master=master, remote=remote, conf=pairs(conf), quiet=True
        )
    try:
        yield spark
    finally:
        if before is None:
            spark.stop()


def spark_progress(spark: "SparkSession", text: str) -> Progress:
    """Show how many of Spark's tasks are done; a Spark Connect server does not tell."""

    def look(progress: Progress) -> None:
        context = getattr(spark, "_sc", None)
        if context is None:
            return
        tracker = context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        tasks = sum(stage.numTasks for stage in stages if stage is not None)
        done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
        if tasks:
            progress.tell(f"{text}: {done} of {tasks} tasks of this stage", done / tasks)

    return Progress(text, look=look)


def _wait(query: "StreamingQuery", *, follow: bool, quiet: bool = False) -> None:
    """Follow a query to its end, or until Ctrl-C; the last line tells what it did.

    In a log, a query that ends shows its progress; one that follows has a line for each micro-batch, unless
    it is `quiet`.
    """
    from shoal.spark import progress

    console = Console(stderr=True, highlight=False)
    shown = Progress("running; Ctrl-C stops, and a second start goes on from here", console)
    shows_pace = console.is_terminal or not follow
    with shown if shows_pace else contextlib.nullcontext():
        last = ""

        def told(line: str) -> None:
            nonlocal last
            last = line
            shown.tell(line)
            if not shows_pace and not quiet:
                console.print(line)

        # No KeyboardInterrupt: it would come in the middle of a call to Spark's JVM, which logs it at length.
        stopping = threading.Event()
        before = signal.signal(signal.SIGINT, lambda *_: stopping.set())
        try:
            progress.wait(query, told, stopping=stopping)
        finally:
            signal.signal(signal.SIGINT, before)
    if last and not follow and not console.is_terminal:
        console.print(last)
    failed = query.exception()
    if failed is not None:
        raise failed


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    import tempfile

    with tempfile.TemporaryDirectory(prefix="shoal-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def pairs(given: list[str] | None) -> dict[str, str]:
    """Read NAME=VALUE, each given once."""
    pairs = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise ValueError(f"an option is given as NAME=VALUE, not {text!r}")
        pairs[name.strip()] = value
    return pairs


def _write(to: str, lines: list[str]) -> None:
    if to == "-":
        for line in lines:
            typer.echo(line)
    else:
        with Path(to).open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


def _show_stats(found: "list[WindowStats]", json: str | None) -> None:
    if json is not None:
        _write(json, [json_text.dumps(each.to_dict()) for each in found])
    if json == "-":
        return
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in (
        "from",
        "topic",
        "publisher",
        "messages",
        "msg/s",
        "bytes/s",
        "p50 ms",
        "p99 ms",
        "max ms",
        "lost",
    ):
        table.add_column(heading, justify="left" if heading in ("from", "topic", "publisher") else "right")
    for each in found:
        table.add_row(
            f"{each.start:%H:%M:%S}",
            each.topic,
            each.publisher[:8],
            f"{each.messages:,}",
            f"{each.messages_per_s:,.1f}",
            f"{each.bytes_per_s:,.0f}",
            *(
                "" if delay is None else f"{delay:,.2f}"
                for delay in (each.delay_p50_ms, each.delay_p99_ms, each.delay_max_ms)
            ),
            f"{each.lost:,}",
        )
    _wide_console().print(table)


def _wide_console() -> Console:
    """A table in a file or a pipe is as wide as it needs to be."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH)


def _show_audit(found: "Audit") -> None:
    console = _wide_console()
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    headings = (
        "publisher",
        "chain",
        "messages",
        "numbers",
        "unseen",
        "duplicates",
        "out of order",
        "at offsets",
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in ("publisher", "at offsets") else "right")
    for chain in found.chains:
        table.add_row(
            chain.publisher,
            str(chain.chain),
            f"{chain.messages:,}",
            f"{chain.first}-{chain.last}",
            f"{chain.unseen:,}",
            f"{chain.duplicates:,}",
            f"{chain.out_of_order:,}",
            ", ".join(map(str, chain.examples)),
        )
    console.print(table)
    verdict = "[green]whole[/green]" if found.is_clean else "[red]not whole[/red]"
    if found.unheard:
        console.print(
            f"{found.unheard:,} messages may be missing: the store was not there when they were published; "
            "some may have been for topics that it does not record"
        )
    console.print(
        f"{found.messages:,} messages, {found.unnumbered:,} without a number, {found.lost:,} lost in "
        f"{len(found.gaps):,} gaps: {verdict}"
    )
