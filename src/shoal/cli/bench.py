"""`shoal bench`: measure Shoal, alone and beside its peers."""

import typer

app = typer.Typer(help="Measure Shoal, alone and beside its peers.", no_args_is_help=True)
