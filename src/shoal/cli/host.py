"""`shoal host`: the key with which a console gives orders to a daemon that has the role host."""

from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import plain_endings
from shoal.config.orders import HostKey

app = typer.Typer(
    help="Make the key with which a console starts and stops daemons.",
    pretty_exceptions_show_locals=False,
    add_completion=False,
    no_args_is_help=True,
)


@app.callback()
def _host() -> None:
    """Make the key with which a console starts and stops daemons."""


@app.command()
def init(
    host: Annotated[str, typer.Argument(help="What the host is called in the console, such as rack-3.")],
    out: Annotated[Path, typer.Option(help="Where to write the key.")] = Path("host.key"),
) -> None:
    """Write a new key. The host's daemon and the console each need the file."""
    with plain_endings("host init"):
        HostKey.new(host).write(out)
        typer.echo(
            f"{out} has the key of {host}. Name it in the daemon's [host] as key_file, and copy it to the "
            f"console: shoal console --host-key {out}"
        )
