"""`shoal sub`: watch what is published."""

from typing import Annotated

import typer
from rich.console import Console

from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import for_people, for_programs

EPILOG = """
Examples:

  shoal sub 'prices/*'                 one level

  shoal sub '>'                        everything

  shoal sub 'prices/>' --json | jq .body

  shoal sub orders --count 1 --timeout 10
"""


def sub(
    pattern: Annotated[str, typer.Argument(help="Topics: * is one level, > all that follow.")],
    count: Annotated[int | None, typer.Option(min=1, help="End after so many messages.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Fail if no message comes for so many seconds.")
    ] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Print messages as they come, until Ctrl-C."""
    with plain_endings("sub"):
        console = Console(highlight=False, soft_wrap=True)
        with connect(url, domain, interface) as bus, bus.subscribe(pattern) as subscription:
            received = 0
            while count is None or received < count:
                message = subscription.receive(timeout)
                if message is None:
                    typer.echo(f"shoal sub: no message on {pattern} within {timeout:g} s", err=True)
                    raise typer.Exit(1)
                received += 1
                if json:
                    print(for_programs(message), flush=True)
                else:
                    console.print(for_people(message))
