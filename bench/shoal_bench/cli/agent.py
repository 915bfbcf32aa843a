"""`shoal bench agent` and `shoal bench check`: other machines that take part in an experiment."""

import logging
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from shoal.errors import ShoalError
from shoal_bench.check import check as check_paths
from shoal_bench.frames import SECRET_BYTES_MIN
from shoal_bench.hosts import Control

SecretFile = Annotated[
    Path,
    typer.Option(
        help=f"A file with the secret that coordinator and agents share: {SECRET_BYTES_MIN} bytes or more."
    ),
]
#: How long a coordinator waits for its agents.
AGENTS_S = 60.0


def agent(
    control: Annotated[str, typer.Option(help="The coordinator: tcp://host:7490.")],
    secret_file: SecretFile,
    name: Annotated[str, typer.Option(help="What the coordinator calls this host.")],
    cpus: Annotated[
        str | None, typer.Option(help="Cores that its processes may use, such as 0 or 0-1.")
    ] = None,
) -> None:
    """Let a coordinator run sides of an experiment on this host: registered roles only, with the secret."""
    from shoal_bench.agent import serve

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        serve(control, name, read_secret(secret_file), cpus)
    except (ShoalError, ValueError, OSError) as error:
        typer.echo(f"shoal bench agent: {error}", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def check(
    hosts: Annotated[list[str], typer.Argument(help="Agents by their names, two or more.")],
    control: Annotated[str, typer.Option(help="Where agents connect to: tcp://0.0.0.0:7490.")],
    secret_file: SecretFile,
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for the agents.")] = AGENTS_S,
) -> None:
    """Check that hosts reach each other by unicast and multicast; status 1 if a path is missing."""
    if len(hosts) < 2:
        raise typer.BadParameter("a path needs two hosts")
    console = Console(highlight=False)
    try:
        with Control(control, hosts, read_secret(secret_file)) as running:
            running.wait(wait)
            named = [(host.name, host) for host in running.hosts]
            paths = check_paths(named, lambda text: typer.echo(f"checking {text}", err=True))
    except (ShoalError, ValueError, OSError) as error:
        typer.echo(f"shoal bench check: {error}", err=True)
        raise typer.Exit(1) from error
    table = Table("from", "to", "unicast", "multicast", "", box=None)
    for path in paths:
        told = "ok" if path.is_fine else path.advice
        table.add_row(path.sender, path.receiver, f"{path.unicast:.0%}", f"{path.multicast:.0%}", told)
    console.print(table)
    if not all(path.is_fine for path in paths):
        raise typer.Exit(1)


def read_secret(path: Path) -> bytes:
    """The secret of a file, without white space around it."""
    return path.read_bytes().strip()
