"""`shoal token`: make and remove the tokens that a store's clients show."""

import datetime
import os
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import plain_endings
from shoal.config.tokens import (
    ROLES,
    Principal,
    Token,
    day_of,
    is_principal,
    read_principals,
    write_principals,
)
from shoal.errors import ConfigError

app = typer.Typer(
    help="Make and remove the tokens that a store's clients show.",
    pretty_exceptions_show_locals=False,
    add_completion=False,
    no_args_is_help=True,
)

Tokens = Annotated[Path, typer.Option(help="The store's token file, made if it is missing.")]


def _known(path: Path) -> list[Principal]:
    return read_principals(path) if path.exists() else []


@app.command()
def new(
    principal: Annotated[str, typer.Argument(help="Whose token it is, such as desk-7.")],
    tokens: Tokens,
    out: Annotated[Path, typer.Option(help="Where to write the token, for its principal alone.")],
    role: Annotated[str, typer.Option(help=f"What it may do: {' or '.join(ROLES)}.")] = ROLES[0],
    replace: Annotated[bool, typer.Option("--replace", help="Replace the principal's former token.")] = False,
    domain: Annotated[
        list[str] | None, typer.Option(help="A domain in which it is valid; all, if not given. Repeatable.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="The last day (UTC) it is valid: 2027-01-31.")] = None,
) -> None:
    """Make a token: a line for the store's file, and a file for the client. The token is not printed."""
    with plain_endings("token new"):
        if role not in ROLES:
            raise ConfigError(f"--role is {role!r}, and must be {' or '.join(ROLES)}")
        last_day = None if expires is None else day_of(expires, "--expires")
        if last_day is not None and last_day < datetime.datetime.now(datetime.UTC).date():
            raise ConfigError(f"--expires is {expires!r}, which is over: give a day to come")
        token = Token.new(principal)
        known = _known(tokens)
        if any(each.name == principal for each in known) and not replace:
            raise ConfigError(f"{tokens} has a token of {principal!r}: add --replace, or choose another name")
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise ConfigError(f"{str(out)!r} exists, and is not overwritten: move it away first") from None
        except OSError as error:
            raise ConfigError(f"{str(out)!r} cannot be written: {error.strerror}") from None
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(token.text + "\n")
        others = [each for each in known if each.name != principal]
        write_principals(
            tokens, [*others, Principal(principal, role, token.verifier, tuple(domain or ()), last_day)]
        )
        typer.echo(f"{out} has the token of {principal} ({role}); {tokens} knows it. Give {out} to it alone.")


@app.command()
def remove(
    principal: Annotated[str, typer.Argument(help="Whose token goes.")],
    tokens: Tokens,
) -> None:
    """Remove a principal from a token file. A running store refuses its next session within a second."""
    with plain_endings("token remove"):
        known = _known(tokens)
        if not is_principal(principal) or all(each.name != principal for each in known):
            raise ConfigError(f"{tokens} has no token of {principal!r}")
        write_principals(tokens, [each for each in known if each.name != principal])
        typer.echo(f"{tokens} does not know {principal} any more")


@app.command("list")
def list_(tokens: Tokens) -> None:
    """Print principals and roles of a token file."""
    with plain_endings("token list"):
        for each in _known(tokens):
            domains = f"  domains {', '.join(each.domains)}" if each.domains else ""
            until = f"  until {each.expires}" if each.expires is not None else ""
            typer.echo(f"{each.name}  {each.role}{domains}{until}")
