"""`shoal daemon`: run a node that a file describes."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import FAILED, plain_endings
from shoal.errors import ShoalError

EPILOG = """
Examples:

  shoal daemon shoald.toml

  shoal daemon shoald.toml --check

  kill -HUP PID                        (read the file again)
"""


def daemon(
    file: Annotated[Path, typer.Argument(help="The TOML file that says what it is.")],
    check: Annotated[bool, typer.Option("--check", help="Only say whether the file is right.")] = False,
) -> None:
    """Run a daemon: let programs connect, keep a store. Ends after SIGTERM or Ctrl-C."""
    with plain_endings("daemon"):
        from shoal.daemon import load
        from shoal.daemon.service import run

        config = load(file)
    if not check:
        # It logs as its file says.
        try:
            run(file)
        except (ShoalError, OSError) as error:
            typer.echo(f"shoal daemon: {' '.join(str(error).split())}", err=True)
            raise typer.Exit(FAILED) from None
        return
    links = config.open_links()
    closed = [name for name in config.links if name not in links]
    typer.echo(f"{file} is right: {config.name} in the domain {config.domain}")
    for name, link in links.items():
        what = "listens at" if link.listens else "connects by"
        host = link.connection.host or link.connection.group_address()
        typer.echo(f"  link {name} {what} {link.connection.scheme}://{host}:{link.connection.port}")
    for name in closed:
        typer.echo(f"  link {name} is switched off")
