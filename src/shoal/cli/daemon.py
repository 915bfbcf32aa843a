"""`shoal daemon`: run a node that a file describes."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

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
    if not check:
        # The same process goes on without what the command line needed: a third of a small gateway's memory.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "shoal.daemon", str(file)])
    from shoal.cli.connection import plain_endings
    from shoal.daemon import load

    with plain_endings("daemon"):
        config = load(file)
    links = config.open_links()
    closed = [name for name in config.links if name not in links]
    typer.echo(f"{file} is right: {config.name} in the domain {config.domain}")
    for name, link in links.items():
        what = "listens at" if link.listens else "connects by"
        host = link.connection.host or link.connection.group_address()
        typer.echo(f"  link {name} {what} {link.connection.scheme}://{host}:{link.connection.port}")
    for name in closed:
        typer.echo(f"  link {name} is switched off")
