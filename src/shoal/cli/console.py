"""`shoal console`: an operator's view of the domain, for browsers."""

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, plain_endings
from shoal.console import open_console
from shoal.console.config import PORT, ConsoleConfig, state_directory
from shoal.errors import ConfigError

EPILOG = """
Examples:

  shoal console                                            (for this machine alone; prints where to log in)

  shoal console --domain desk --tokens tokens

  shoal console --listen 0.0.0.0:7481 --name ops.example.org --tls-cert c.pem --tls-key c.key --tokens tokens

  shoal console audit verify
"""

app = typer.Typer(
    help="Run an operator's view of the domain for browsers; check its audit log.",
    pretty_exceptions_show_locals=False,
    add_completion=False,
    invoke_without_command=True,
    epilog=EPILOG,
)
audit = typer.Typer(help="Check the audit log of a console.", no_args_is_help=True)
app.add_typer(audit, name="audit")

Data = Annotated[Path | None, typer.Option(help="Where it keeps its audit log.", show_default=False)]


@app.callback()
def console(
    context: typer.Context,
    listen: Annotated[str, typer.Option(help="ADDRESS:PORT; port 0 is a free one.")] = f"127.0.0.1:{PORT}",
    tokens: Annotated[
        Path | None, typer.Option(help="The token file; see `shoal token`. Without it: a token for this run.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="A host name under which browsers reach it. Repeatable.")
    ] = None,
    history: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WHERE", help="A store's history: grpc://HOST:PORT or a directory. Repeatable."
        ),
    ] = None,
    host_key: Annotated[
        list[Path] | None, typer.Option(help="The key of a host, as `shoal host init` makes it. Repeatable.")
    ] = None,
    data: Data = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Run an operator's view of the domain for browsers. Ends with SIGTERM or Ctrl-C."""
    if context.invoked_subcommand is not None:
        return
    with plain_endings("console"):
        config = ConsoleConfig(
            listen=listen,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tokens=tokens,
            names=tuple(name or ()),
            data=data or state_directory(),
            histories=dict(map(_history, history or ())),
            host_keys=tuple(host_key or ()),
        )
        given = {"domain": domain, "interface": interface}
        options: dict[str, Any] = {key: value for key, value in given.items() if value is not None}

        def connect(**more: Any) -> shoal.Bus:
            return shoal.connect(url, **options, **more)

        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        with open_console(config, connect) as running:
            where = running.login_url or running.url
            typer.echo(f"shoal console: ready at {where}", err=True)
            ended.wait()


def _history(text: str) -> tuple[str, str]:
    name, equals, where = text.partition("=")
    if not (name and equals and where):
        raise ConfigError(
            f"--history is {text!r}, and must be NAME=WHERE, such as store=grpc://127.0.0.1:7475"
        )
    return name, where


@audit.command("verify")
def verify(
    data: Data = None,
    file: Annotated[
        Path | None, typer.Option(help="Another log, such as a registry's.", show_default=False)
    ] = None,
) -> None:
    """Check the hash chain of an audit log. The status is 1 if a line was changed, removed or added."""
    from shoal.console.config import AUDIT_FILE
    from shoal.web.audit import verify as verify_chain

    with plain_endings("console audit verify"):
        path = file or (data or state_directory()) / AUDIT_FILE
        found = verify_chain(path)
        if found.wrong_line:
            typer.echo(f"{path}, line {found.wrong_line}: {found.why}", err=True)
            raise typer.Exit(1)
        typer.echo(f"{path} is whole: {found.lines} lines, the last with the hash {found.last_hash}")
