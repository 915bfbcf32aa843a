"""`shoal destination`: which options a topic has."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import plain_endings
from shoal.config.destinations import Destinations

app = typer.Typer(
    help="Show which options a topic has.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    add_completion=False,
)


@app.callback()
def _group() -> None:
    pass


@app.command()
def explain(
    topic: Annotated[str, typer.Argument(help="The topic, such as fx/USD, or a pattern.")],
    file: Annotated[Path, typer.Option(help="The file that connect(destinations=…) names.")],
) -> None:
    """Print the options of a topic, the pattern they come from, and the patterns that do not count."""
    with plain_endings("destination explain"):
        rules = Destinations.of(file).matching(topic)
        if not rules:
            print(f"{topic}: no pattern matches; the defaults count")
            return
        (pattern, options), *others = rules
        print(f"{topic}: {pattern}")
        for name, value in asdict(options).items():
            if value is not None:
                print(f"  {name} = {value}")
        for other, _ in others:
            print(f"  {other} matches as well, and is less specific")
