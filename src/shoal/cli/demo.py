"""`shoal demo`: a minute's look at what Shoal does. Verifies what it shows."""

import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, TextColumn
from rich.progress import Progress as Bars

from shoal.cli import demo_bus, demo_spark, demo_store, demo_transfer
from shoal.cli.progress import Progress
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
    parts: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("A simulated network that loses every fifth datagram", lambda: _run_simulation(seed)),
        ("Two processes on this machine, over multicast on loopback", lambda: _run_transfer(console)),
        ("One publisher and three subscribers, from Python", lambda: demo_bus.run(console)),
        ("Programs are killed; a store keeps their messages", lambda: demo_store.run(console)),
        ("A store records, Spark queries, and publishes the result", lambda: demo_spark.run(console)),
    )
    try:
        # On a terminal each part has bars of its own.
        with contextlib.nullcontext() if console.is_terminal else Progress(console=console) as progress:
            passed = []
            for number, (title, part) in enumerate(parts, 1):
                if progress:
                    progress.pace.restart(time.monotonic())
                    # Parts differ too much in length to tell the end of all from the first ones.
                    progress.tell(f"  part {number} of {len(parts)} is running")
                console.print(f"[bold]{number}. {title}[/bold]")
                passed.append(part())
                console.print()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if not all(passed):
        raise typer.Exit(1)
    console.print(OUTRO, highlight=False)


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
    columns = TextColumn("  received"), BarColumn(), DownloadColumn()
    try:
        with Bars(*columns, console=console) as progress:
            bar = progress.add_task("", total=REAL_BYTES)

            def watch(receiver: Worker) -> None:
                deadline = time.monotonic() + PATIENCE_S
                while not receiver.wait(0.1):
                    progress.update(bar, completed=receiver.progress)
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
