"""`shoal registry`: run a directory in which daemons find each other, and clients the best daemon."""

import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import plain_endings

EPILOG = """
Examples:

  shoal registry                                          (for this machine alone)

  shoal registry --listen 0.0.0.0:7480 --tls-cert reg.pem --tls-key reg.key --tokens tokens
"""


def registry(
    listen: Annotated[str, typer.Option(help="ADDRESS:PORT; port 0 is a free one.")] = "127.0.0.1:7480",
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    tokens: Annotated[Path | None, typer.Option(help="The token file; see `shoal token`.")] = None,
    audit: Annotated[Path | None, typer.Option(help="A file for the audit log.")] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(help="A reverse proxy (address or CIDR) whose X-Forwarded-For counts. Repeatable."),
    ] = None,
    site: Annotated[
        list[str] | None, typer.Option(help="A network (CIDR) whose clients prefer its daemons. Repeatable.")
    ] = None,
) -> None:
    """Run a registry: daemons find each other in it, clients the best daemon. Ends with SIGTERM or Ctrl-C."""
    with plain_endings("registry"):
        from shoal.registry import open_registry
        from shoal.registry.config import RegistryConfig

        config = RegistryConfig(
            listen=listen,
            tls_cert=tls_cert,
            tls_key=tls_key,
            tokens=tokens,
            audit=audit,
            proxies=tuple(proxy or ()),
            sites=tuple(site or ()),
        )
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        with open_registry(config) as running:
            typer.echo(f"shoal registry: ready at {running.url}; {running.url}/docs describes it", err=True)
            ended.wait()
