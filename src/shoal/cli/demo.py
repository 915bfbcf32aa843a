"""`shoal demo`: a minute's look at what Shoal does. Verifies what it shows."""

import subprocess
import sys
import time
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from shoal.bench.norm import NormOptions, transfer
from shoal.bench.workers import Worker
from shoal.cli import demo_bus, demo_spark, demo_store
from shoal.errors import ExperimentError

#: About a second at full speed, and still within the patience on a machine that does much else.
REAL_BYTES = 1_500_000_000
PATIENCE_S = 60.0


def demo(
    seed: Annotated[int | None, typer.Option(help="Repeat the simulated part with this seed.")] = None,
) -> None:
    """See it work: a lossy simulated network, real processes on loopback multicast, a store and Spark."""
    console = Console()
    try:
        console.print("[bold]1. A simulated network that loses every fifth datagram[/bold]")
        simulated = _run_simulation(seed)
        console.print(
            "\n[bold]2. Two processes on this machine, over multicast on the loopback interface[/bold]"
        )
        real = _run_transfer(console)
        console.print("\n[bold]3. One publisher and three subscribers, from Python[/bold]")
        messages = demo_bus.run(console)
        console.print("\n[bold]4. Programs are killed, and a store has kept what they need[/bold]")
        kept = demo_store.run(console)
        console.print("\n[bold]5. A store records, Spark queries, and the result is published[/bold]")
        queried = demo_spark.run(console)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not (simulated and real and messages and kept and queried):
        raise typer.Exit(1)


def _run_simulation(seed: int | None) -> bool:
    """In a process of its own: nothing that ships depends on the test kit."""
    chosen = [] if seed is None else ["--seed", str(seed)]
    process = subprocess.Popen([sys.executable, "-m", "shoal.testing.demo", *chosen])
    try:
        return process.wait() == 0
    finally:
        process.kill()
        process.wait()


def _run_transfer(console: Console) -> bool:
    columns = TextColumn("  received"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    try:
        with Progress(*columns, console=console) as progress:
            bar = progress.add_task("", total=REAL_BYTES)

            def watch(_sender: Worker, receiver: Worker) -> None:
                deadline = time.monotonic() + PATIENCE_S
                while not receiver.wait(0.1):
                    progress.update(bar, completed=receiver.progress)
                    if time.monotonic() > deadline:
                        raise ExperimentError(f"the transfer did not finish within {PATIENCE_S} s")
                progress.update(bar, completed=REAL_BYTES)

            done = transfer("shoal", NormOptions(), REAL_BYTES, watch)
    except ExperimentError as error:
        console.print(f"  [red]failed:[/red] {error}", highlight=False)
        return False
    console.print(
        f"  {done.bytes / 1e9:.1f} GB at {done.gbit_s:.1f} Gbit/s, [green]every byte compared[/green]",
        highlight=False,
    )
    return True
