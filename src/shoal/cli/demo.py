"""`shoal demo`: a minute's look at what Shoal does. Verifies what it shows."""

import logging
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.progress import Progress as Bars

from shoal.cli import demo_bus, demo_spark, demo_store, demo_transfer
from shoal.cli.progress import Progress, Tell
from shoal.errors import ProcessFailedError
from shoal.processes.worker import Worker

#: About a second at full speed, and still within the patience on a machine that does much else.
REAL_BYTES = 1_500_000_000
PATIENCE_S = 60.0
OUTRO = """[bold]What you saw[/bold]
  Nothing was lost: through a network that loses packets, at full speed, and although programs were killed.
  Messages that a killed program had in hand came again, marked as redelivered. No broker ran.

[bold]Try next[/bold]
  shoal sub 'prices/>'                        (in one shell)
  shoal pub prices/ACME 10.25                 (in another)
  shoal store --data ./data --record '>'      (keeps what you publish)

  The tutorial, in the repository: docs/tutorial/first-messages.md"""


def demo(
    seed: Annotated[int | None, typer.Option(help="Repeat the simulated part with this seed.")] = None,
) -> None:
    """See it work: a lossy simulated network, real processes on loopback multicast, a store and Spark."""
    console = Console(soft_wrap=True)
    # Programs are killed on purpose; each part checks what arrives and says so itself.
    logging.getLogger("shoal").setLevel(logging.ERROR)
    passed = []
    try:
        for number, part in enumerate(_parts(console, seed), 1):
            console.print(f"[bold]{number}. {part.title}[/bold]")
            if part.has_bars and console.is_terminal:
                passed.append(part.run(_tell_nobody))
            else:
                with Progress(f"  {part.doing}", console=console) as progress:
                    passed.append(part.run(progress.tell))
            console.print()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not all(passed):
        raise typer.Exit(1)
    console.print(OUTRO, highlight=False)


@dataclass(frozen=True)
class _Part:
    """One part of the demo."""

    title: str
    #: Its line of progress until it tells its first step.
    doing: str
    #: Shows and checks something, and returns whether all was well.
    run: Callable[[Tell], bool]
    #: Whether it draws bars on a terminal, which leave no room for a line of progress.
    has_bars: bool = False


def _parts(console: Console, seed: int | None) -> tuple[_Part, ...]:
    return (
        _Part(
            "A simulated network that loses every fifth datagram",
            "simulating",
            lambda _: _run_simulation(seed),
            has_bars=True,
        ),
        _Part(
            "Two processes on this machine, over multicast on loopback",
            "starting two processes",
            lambda tell: _run_transfer(console, tell),
            has_bars=True,
        ),
        _Part(
            "One publisher and three subscribers, from Python",
            "starting four programs",
            lambda tell: demo_bus.run(console, tell),
            has_bars=True,
        ),
        _Part(
            "Programs are killed; a store keeps their messages",
            "starting a store",
            lambda tell: demo_store.run(console, tell),
        ),
        _Part(
            "A store records, Spark queries, and publishes the result",
            "starting a store and Spark",
            lambda tell: demo_spark.run(console, tell),
        ),
    )


def _tell_nobody(text: str, share: float | None = None) -> None:
    """Bars show it."""


def _run_simulation(seed: int | None) -> bool:
    """In a process of its own: nothing that ships depends on the test kit."""
    chosen = [] if seed is None else ["--seed", str(seed)]
    process = subprocess.Popen([sys.executable, "-m", "shoal.testing.demo", *chosen])
    try:
        return process.wait() == 0
    finally:
        process.kill()
        process.wait()


def _run_transfer(console: Console, tell: Tell) -> bool:
    columns = TextColumn("  received"), BarColumn(), DownloadColumn()
    try:
        with Bars(*columns, console=console) as progress:
            bar = progress.add_task("", total=REAL_BYTES)

            def watch(receiver: Worker) -> None:
                deadline = time.monotonic() + PATIENCE_S
                while not receiver.wait(0.1):
                    progress.update(bar, completed=receiver.progress)
                    done = receiver.progress / REAL_BYTES
                    tell(f"  received {done:.0%} of {REAL_BYTES / 1e9:.1f} GB", done)
                    if time.monotonic() > deadline:
                        raise ProcessFailedError(f"the transfer did not finish within {PATIENCE_S} s")
                progress.update(bar, completed=REAL_BYTES)

            gbit_s = demo_transfer.run(REAL_BYTES, watch)
    except ProcessFailedError as error:
        console.print(f"  [red]failed:[/red] {escape(str(error))}", highlight=False)
        return False
    console.print(
        f"  {REAL_BYTES / 1e9:.1f} GB at {gbit_s:.1f} Gbit/s, [green]every byte compared[/green]",
        highlight=False,
    )
    return True
