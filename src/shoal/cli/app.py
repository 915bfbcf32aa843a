"""The root of the `shoal` command."""

import typer

import shoal
from shoal.cli import bench, demo, norm, pub, request, selector, sub

app = typer.Typer(
    name="shoal",
    help="Messaging for Python programs, with no broker.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
)
app.add_typer(bench.app, name="bench")
app.add_typer(norm.app, name="norm")
app.add_typer(selector.app, name="selector")
app.command("demo")(demo.demo)
app.command("pub", epilog=pub.EPILOG)(pub.pub)
app.command("sub", epilog=sub.EPILOG)(sub.sub)
app.command("request", epilog=request.EPILOG)(request.request)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(shoal.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app()
