"""What `pub`, `sub`, `request`, `reply` and `members` share: how to connect, and how to end."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

import typer

import shoal
from shoal.errors import ShoalError

#: What shells report for a program that Ctrl-C ended.
INTERRUPTED = 130

Url = Annotated[
    str | None,
    typer.Option(help="Where to connect, such as norm://239.192.74.1:7474.", rich_help_panel="Connection"),
]
Domain = Annotated[
    str | None, typer.Option(help="The set of programs to talk to, by name.", rich_help_panel="Connection")
]
Interface = Annotated[
    str | None, typer.Option(help="Network interface, by name or address.", rich_help_panel="Connection")
]


def connect(url: str | None, domain: str | None, interface: str | None) -> shoal.Bus:
    """Connect with the options that were given."""
    given: dict[str, Any] = {"domain": domain, "interface": interface}
    return shoal.connect(url, **{name: value for name, value in given.items() if value is not None})


@contextlib.contextmanager
def plain_endings(command: str) -> Iterator[None]:
    """Say in one line what went wrong, and end quietly after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        raise typer.Exit(1) from None
    except (ShoalError, ValueError, TypeError, OSError) as error:
        typer.echo(f"shoal {command}: {' '.join(str(error).split())}", err=True)
        raise typer.Exit(1) from None
