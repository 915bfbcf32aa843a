"""`shoal keys`: make the key of a group, and certificates for links over TLS."""

import importlib
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import plain_endings
from shoal.config.keys import new_key

app = typer.Typer(
    help="Make the key that all members of a domain share, and certificates for links over TLS.",
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


NODE_EPILOG = """
Examples:

  shoal keys ca certs                      (once)

  shoal keys node gateway --also 10.0.0.7 --ca certs

  shoal sub "prices/>" --url "tls://gateway:7474?tls_ca=certs/ca.pem"
"""

#: Where an authority is, if nothing else is said.
_FOLDER = Path("certs")


@app.callback()
def keys() -> None:
    """Make the key that all members of a domain share, and certificates for links over TLS."""


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


@app.command("ca")
def ca(
    folder: Annotated[Path, typer.Argument(help="Where its files go: ca.pem and ca.key.")] = _FOLDER,
    name: Annotated[str, typer.Option(help="What it is called in the certificates.")] = "shoal private CA",
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long it is valid.")] = 3650,
) -> None:
    """Make a private authority, which signs the certificates of nodes.

    Give ca.pem to every node (tls_ca). Keep ca.key where you make certificates, and nowhere else.
    """
    with plain_endings("keys"):
        cert, key = importlib.import_module("shoal.link.authority").make_authority(folder, name, days)
        print(f"{cert}: give it to every node (tls_ca)\n{key}: signs certificates; keep it to yourself")


@app.command("node", epilog=NODE_EPILOG)
def node(
    name: Annotated[str, typer.Argument(help="The node's name, as others connect to it, or its address.")],
    also: Annotated[
        list[str] | None, typer.Option(help="One more name or address of it; may be given several times.")
    ] = None,
    ca: Annotated[Path, typer.Option(help="Where the authority is.")] = _FOLDER,
    days: Annotated[int, typer.Option(min=1, max=36500, help="How long it is valid.")] = 825,
) -> None:
    """Make the certificate of a node and its key, signed by the authority in a folder."""
    with plain_endings("keys"):
        cert, key = importlib.import_module("shoal.link.authority").make_node(ca, name, also or [], days)
        print(f"{cert}: the certificate (tls_cert)\n{key}: its key (tls_key)")
