"""`shoal bench`: measure Shoal, alone and beside its peers."""

import typer

from shoal.cli import bench_selectors

app = typer.Typer(help="Measure Shoal, alone and beside its peers.", no_args_is_help=True)
app.command("selectors")(bench_selectors.selectors)


@app.callback()
def _root() -> None:
    """Keep experiments sub-commands although there is only one."""
