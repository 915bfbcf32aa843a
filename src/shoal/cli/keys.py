"""`shoal keys`: make the key of a group."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.config.keys import new_key

app = typer.Typer(
    help="Make the key that all members of a domain share.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)

EPILOG = """
Examples:

  shoal keys new > desk.key            (then: chmod 600 desk.key)

  shoal keys new desk.key              (only its owner can read it)

  SHOAL_KEY_FILE=desk.key shoal sub "prices/>"
"""


@app.callback()
def keys() -> None:
    """Make the key that all members of a domain share."""


@app.command("new", epilog=EPILOG)
def new(
    path: Annotated[
        Path | None,
        typer.Argument(help="A file to write it to, which must not exist; otherwise it is printed."),
    ] = None,
) -> None:
    """Make a new key: 256 random bits."""
    if path is None:
        print(new_key())
        return
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        print(
            f"shoal keys: {path} exists: a key in use is not overwritten; choose another name",
            file=sys.stderr,
        )
        raise typer.Exit(2) from None
    except OSError as error:
        print(f"shoal keys: {path} cannot be written: {error.strerror}", file=sys.stderr)
        raise typer.Exit(2) from None
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(new_key() + "\n")
