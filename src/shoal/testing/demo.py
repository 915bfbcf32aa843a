"""A lossy simulated network to watch: `python -m shoal.testing.demo [--seed NUMBER]`."""

import argparse
import random
import sys

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from shoal.testing.checkers import CheckError, check_all, complete, numbered
from shoal.testing.faults import Link
from shoal.testing.simulation import Node, Simulation

MESSAGES = 60_000
MESSAGE_BYTES = 500
RECEIVERS = 3
LOSS = 0.2
RATE_BYTES_PER_S = 1e6
#: How far the sender may be ahead of its slowest receiver.
WINDOW_BYTES = 1 << 20
STEP_S = 0.1
PATIENCE_S = 120.0


def simulate(seed: int, console: Console) -> Simulation:
    """Send every message to every receiver through the loss, showing how far they are."""
    simulation = Simulation(
        seed=seed,
        link=Link(loss=LOSS, delay_s=0.001, jitter_s=0.0005),
        repeat=f"python -m shoal.testing.demo --seed {seed}",
    )
    sender = simulation.add_node(rate_bytes_per_s=RATE_BYTES_PER_S)
    receivers = simulation.add_nodes(RECEIVERS, sync="start")
    sender.set_ackers(receivers)
    stream = sender.open_stream(window_bytes=WINDOW_BYTES)
    sender.publish(stream, *numbered(MESSAGES, size=MESSAGE_BYTES))
    columns = TextColumn("  {task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %")
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=MESSAGES * RECEIVERS)
        while simulation.now_s < PATIENCE_S:
            simulation.run_for(STEP_S)
            delivered = sum(receiver.delivered for receiver in receivers)
            shown = f"{delivered:,} deliveries, {sender.stats['repairs_sent']:,} repairs"
            progress.update(bar, completed=delivered, description=f"{simulation.now_s:5.1f} s  {shown}")
            if delivered == MESSAGES * RECEIVERS:
                break
    _summarise(simulation, sender, receivers, console)
    return simulation


def _summarise(simulation: Simulation, sender: Node, receivers: list[Node], console: Console) -> None:
    sent, lost = simulation.traffic
    nacks = sum(receiver.stats["nacks_sent"] for receiver in receivers)
    lines = [
        f"{MESSAGES:,} messages to {RECEIVERS} receivers in {simulation.now_s:.1f} s of virtual time",
        f"{sent:,} datagrams sent; {lost:,} of their copies were lost on the way",
        f"{nacks:,} NACKs asked for repair, {sender.stats['repairs_sent']:,} segments were sent again",
    ]
    for line in lines:
        console.print(f"  {line}", highlight=False)


def main() -> int:
    """Run it; the status is 0 only if every receiver got every message once and in order."""
    parser = argparse.ArgumentParser(prog="python -m shoal.testing.demo", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="repeat the run with this seed")
    seed = parser.parse_args().seed
    seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
    console = Console()
    try:
        history = simulate(seed, console).history()
        check_all(history, complete(*(node for node in history.nodes if node != 1)))
    except CheckError as error:
        console.print(f"  [red]failed:[/red] {escape(str(error))}", highlight=False)
        return 1
    except KeyboardInterrupt:
        return 130
    console.print(f"  [green]nothing lost, nothing twice, order kept[/green] (seed {seed})", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
