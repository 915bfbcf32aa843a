"""`shoal capacity`: fit the capacity model to measurements, predict from it, watch a daemon's own."""

import contextlib
import itertools
import json as json_text
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from shoal.capacity import Estimate, Estimator, Model, Replication, Waiting, Workload
from shoal.capacity.estimator import Load
from shoal.cli.connection import Domain, Interface, Url, connect
from shoal.cli.message_text import printable
from shoal.cli.pipeline import (
    Conf,
    Json,
    Master,
    Option_,
    Remote,
    Store,
    spark_progress,
    spark_session,
    told_plainly,
)
from shoal.cli.pipeline import pairs as _pairs
from shoal.errors import LinkError, NoReplyError, RemoteError, StoreUnavailableError

if TYPE_CHECKING:
    from shoal import Bus
    from shoal.spark.pipelines.capacity import Capacity

#: How long a node of the name that was given has time to answer.
ASK_S = 5.0

app = typer.Typer(
    help="What a node can carry: fit the model to measurements, predict from it, watch a daemon.",
    no_args_is_help=True,
)


@app.command("fit")
def fit(
    run: Annotated[str, typer.Argument(help="The run: shoal bench seeds prints its name.")],
    model: Annotated[
        Path | None, typer.Option(help="Write the best model as JSON, for `shoal capacity predict`.")
    ] = None,
    contestant: Annotated[str, typer.Option(help="Whose model --model writes.")] = "routed",
    kind: Annotated[str, typer.Option(help="For which kind of filter.")] = "property",
    experiment: Annotated[
        str, typer.Option(help="The experiment whose samples are fitted.")
    ] = "fiorano-joint",
    html: Annotated[Path | None, typer.Option(help="Write a page with tables and pictures.")] = None,
    any_sample: Annotated[
        bool, typer.Option("--any-sample", help="Also fit cells that broke a rule, for a look.")
    ] = False,
    publish: Annotated[bool, typer.Option(help="Publish the models to bench/RUN/model.")] = False,
    json: Json = None,
    store: Store = None,
    option: Option_ = None,
    master: Master = None,
    remote: Remote = None,
    conf: Conf = None,
) -> None:
    """Fit the models of a run on Spark, and judge them by cells they have not seen."""
    with told_plainly("capacity fit"):
        from shoal.spark.pipelines import capacity as pipeline

        with (
            _served(store) as address,
            spark_session("capacity", master, remote, conf) as spark,
            spark_progress(spark, "fitting"),
        ):
            found = pipeline.capacity(
                spark,
                run,
                store=address,
                options=_pairs(option),
                experiment=experiment,
                valid_only=not any_sample,
                publish=publish,
            )
        if html is not None:
            from shoal.spark.pipelines import capacity_report

            capacity_report.write(found, html)
        if model is not None:
            model.write_text(_chosen(found, contestant, kind).to_json(), encoding="utf-8")
        if json == "-":
            typer.echo(json_text.dumps(found.to_dict(), indent=2))
            return
        if json is not None:
            Path(json).write_text(json_text.dumps(found.to_dict(), indent=2) + "\n", encoding="utf-8")
        _show(found)


@contextlib.contextmanager
def _served(store: str | None) -> Iterator[str | None]:
    """The store's address; a store that is not running is started for the duration."""
    if store is None or "://" in store or not Path(store).is_dir():
        yield store
        return
    from shoal import history
    from shoal.processes.store import StoreProcess

    try:
        with history.connect(store):
            pass
    except StoreUnavailableError:
        with StoreProcess(Path(store), record="bench/>") as started:
            yield started.address
    else:
        yield store


def _chosen(found: "Capacity", contestant: str, kind: str) -> Model:
    """The model that predicts best comes first."""
    for model in found.models:
        if (model.contestant, model.kind) == (contestant, kind):
            return model
    there = sorted({f"{model.contestant} {model.kind}" for model in found.models})
    raise ValueError(f"the run has no model of {contestant} and {kind}; it has: {', '.join(there) or 'none'}")


def _show(found: "Capacity") -> None:
    from rich.table import Table

    table = Table(
        "contestant", "kind", "form", "t_rcv µs", "t_fltr/t_eval µs", "t_tx µs", "median error", "worst"
    )
    for model in found.models:
        times = [f"{seconds * 1e6:.4g}" for seconds in model.coefficients[:3]]
        errors = [
            "" if error is None else f"{error:.1%}" for error in (model.held_out_median, model.held_out_worst)
        ]
        table.add_row(model.contestant, model.kind, model.form, *times, *errors)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"{len(found.cells)} cells, {sum(cell.held_out for cell in found.cells)} of them held out; "
        f"{found.invalid} samples invalid, {found.dropped} incomplete"
    )


@app.command("live")
def live(
    daemon: Annotated[
        str,
        typer.Argument(help="A daemon or a store, by its name, or its HTTP address: http://127.0.0.1:7480."),
    ],
    seconds: Annotated[
        float | None, typer.Option(min=1.0, help="Seconds to watch; without it, until Ctrl-C.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a line of JSON each second.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Watch what a running daemon or store can carry, by its own counters, once a second."""
    with told_plainly("capacity live", needs_spark=False), _asking(daemon, url, domain, interface) as ask:
        estimator = Estimator()
        began = time.monotonic()
        for second in itertools.count():
            status = ask()
            if (own := status.get("capacity")) is not None:
                # It has watched itself for longer.
                is_low = bool(own.pop("low"))
                found: Estimate | None = Estimate(**own)
            else:
                found = (
                    estimator.update(time.monotonic(), Load.of_status(status)) if "load" in status else None
                )
                is_low = estimator.is_low_on_capacity
            if found is not None:
                typer.echo(json_text.dumps(asdict(found)) if json else _line(found, is_low))
            if seconds is not None and time.monotonic() - began >= seconds:
                return
            time.sleep(max(0.0, began + second + 1 - time.monotonic()))


@contextlib.contextmanager
def _asking(
    daemon: str, url: str | None, domain: str | None, interface: str | None
) -> Iterator[Callable[[], dict[str, Any]]]:
    """Asks a daemon or store for its status: over HTTP, or over the bus by its name."""
    if "://" in daemon:
        yield lambda: _status(daemon)
        return
    with connect(url, domain, interface, asks=True) as bus:
        yield lambda: _status_of(bus, daemon)


def _status_of(bus: "Bus", name: str) -> dict[str, Any]:
    """The status of the first node of this name that answers."""
    from shoal.monitor.answers import TOPIC

    deadline = time.monotonic() + ASK_S
    names: set[str] = set()
    # A node that is asked too early is not known yet: ask until the time is over.
    while (left_s := deadline - time.monotonic()) > 0:
        bus.wait_for_subscribers(TOPIC, timeout_s=left_s)
        with contextlib.suppress(NoReplyError, RemoteError):
            for answer in bus.request_many(TOPIC, timeout_s=max(0.1, min(left_s, 1.0))):
                status = answer.body if isinstance(answer.body, dict) else {}
                if status.get("name") == name:
                    return status
                names.add(printable(str(status.get("name"))))
    raise LinkError(
        f"no daemon or store called {name!r} answered within {ASK_S:g} s. There are: "
        f"{', '.join(sorted(names)) or 'none'}"
    )


def _status(daemon: str) -> dict[str, Any]:
    if not daemon.startswith(("http://", "https://")):
        raise ValueError(f"a daemon's address begins with http://, not {daemon!r}: see [http] in its file")
    try:
        with urllib.request.urlopen(f"{daemon.rstrip('/')}/status", timeout=5) as answer:
            told: dict[str, Any] = json_text.load(answer)
    except (urllib.error.URLError, ValueError) as error:
        raise LinkError(f"no daemon answers at {daemon}/status: {error}. Is [http] in its file?") from error
    return told


def _line(found: Estimate, is_low: bool) -> str:
    parts = [f"load {found.load:.0%}", f"{found.received_msg_s:,.0f} messages/s"]
    if found.processing_s is not None:
        parts.append(f"B {found.processing_s * 1e6:.3g} µs")
    if found.headroom is not None:
        parts.append(f"room for {found.headroom:.1f} times as much")
    if found.mean_wait_s is not None:
        parts.append(f"mean wait {found.mean_wait_s * 1e6:.3g} µs")
    if found.coefficients is not None:
        parts += _costs(found.coefficients)
    if found.why is not None:
        parts.append(found.why)
    if found.assumed is not None:
        parts.append("assumed " + " ".join(_costs(found.assumed)))
    if is_low:
        parts.append("LOW: above 80 % for 30 s")
    return " · ".join(parts)


def _costs(coefficients: Iterable[float]) -> list[str]:
    names = ("t_rcv", "t_eval", "t_tx", "t_byte")
    return [f"{name} {value * 1e6:.3g} µs" for name, value in zip(names, coefficients, strict=True)]


@app.command("predict")
def predict(
    model: Annotated[Path, typer.Option(help="The model, as `shoal capacity fit --model` wrote it.")],
    filters: Annotated[float, typer.Option(help="Filters that are installed.")],
    replication: Annotated[float, typer.Option(help="Copies of a message, on average.")] = 1.0,
    size: Annotated[float, typer.Option(help="Bytes of a body.")] = 0.0,
    law: Annotated[
        str, typer.Option(help="How copies vary: fixed, all-or-none:SHARE or binomial:SHARE.")
    ] = "fixed",
    load: Annotated[float, typer.Option(help="The share of the time that the node is busy.")] = 0.8,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Predict what a node can carry, and how long messages wait; status 1 where it cannot."""
    if load >= 1:
        typer.echo(f"shoal capacity predict: at load {load:g} the queue grows without end.", err=True)
        raise typer.Exit(1)
    with told_plainly("capacity predict", needs_spark=False):
        chosen = Model.from_json(model.read_text(encoding="utf-8"))
        work = Workload(filters=filters, replication=replication, size=size)
        processing_s = chosen.processing_s(work)
        send_s = chosen.send_s(replication)
        fixed_s = processing_s - replication * send_s
        waiting = Waiting.of(fixed_s, send_s, Replication.parse(law, replication), load)
        outside = chosen.outside(work)
    figures = {
        "processing_us": processing_s * 1e6,
        "received_msg_s": chosen.received_msg_s(work),
        "overall_msg_s": chosen.overall_msg_s(work),
        "load": load,
        "wait_mean_us": waiting.mean_s * 1e6,
        "wait_p99_us": waiting.quantile_s(0.99) * 1e6,
        "wait_p9999_us": waiting.quantile_s(0.9999) * 1e6,
    }
    if json:
        typer.echo(json_text.dumps({**figures, "extrapolated": outside}, indent=2))
        return
    typer.echo(
        f"B {figures['processing_us']:.3g} µs · received ≤ {figures['received_msg_s']:,.0f}/s · "
        f"overall ≤ {figures['overall_msg_s']:,.0f}/s"
    )
    typer.echo(
        f"at load {load:g}: mean wait {figures['wait_mean_us']:.3g} µs, p99 {figures['wait_p99_us']:.3g} µs, "
        f"p99.99 {figures['wait_p9999_us']:.3g} µs"
    )
    if outside:
        ranges = ", ".join(
            f"{name} {chosen.fitted[name][0]:g}-{chosen.fitted[name][1]:g}" for name in outside
        )
        typer.echo(f"extrapolated: the model was fitted for {ranges}")
