"""`shoal profile`: named sets of options, and iBus's QoS strings as such."""

from typing import Annotated

import typer

from shoal.cli.connection import plain_endings
from shoal.config import profile as profiles

app = typer.Typer(
    help="Show named sets of options, and translate iBus's.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)


@app.command("list")
def list_() -> None:
    """Print every profile and what it is for."""
    with plain_endings("profile list"):
        for name in profiles.names():
            print(f"{name:<8} {profiles.load(name).description}")


@app.command()
def show(name: Annotated[str, typer.Argument(help="The profile, such as busy.")]) -> None:
    """Print a profile as the TOML file that makes it."""
    with plain_endings("profile show"):
        print(profiles.load(name).as_toml(), end="")


@app.command()
def from_ibus(
    stack: Annotated[str, typer.Argument(help="Such as 'NAK(epochsz=50):IPMCAST(senddelay=5)'.")],
    save: Annotated[str | None, typer.Option(help="Save it as a profile of this name.")] = None,
) -> None:
    """Print what a QoS string of iBus//MessageBus means here, as a profile."""
    with plain_endings("profile from-ibus"):
        told = profiles.from_ibus(stack)
        for note in told.notes:
            print(f"# {note}")
        made = profiles.Profile(save or "ibus", f"iBus: {stack.strip()}", told.options)
        print(made.as_toml(), end="")
        if save is not None:
            typer.echo(f"shoal profile: saved {profiles.save(made)}", err=True)
