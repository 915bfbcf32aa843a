"""`shoal gateway`: lets STOMP clients take part."""

import signal
import threading
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.connection import Domain, Interface, Url, plain_endings

EPILOG = """
Examples:

  shoal gateway                                            (STOMP at 127.0.0.1:61613)

  shoal gateway --stomp ws://127.0.0.1:7482/stomp --origin http://localhost:8000

  shoal gateway --stomp wss://0.0.0.0:7482/stomp --tls-cert gw.pem --tls-key gw.key --tokens tokens
"""


def gateway(
    stomp: Annotated[
        list[str] | None,
        typer.Option(help="Where clients connect: tcp://, tls://, ws:// or wss://. Repeatable."),
    ] = None,
    tokens: Annotated[Path | None, typer.Option(help="The clients' token file; see `shoal token`.")] = None,
    access: Annotated[Path | None, typer.Option(help="The rules file; see `shoal access`.")] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A page that may connect: https://HOST. Repeatable.")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="The certificate (PEM).")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The certificate's key (PEM).")] = None,
    connections_max: Annotated[int, typer.Option(help="Connections at once.")] = 2000,
    message_bytes_max: Annotated[int, typer.Option(help="The longest body.")] = 16 << 20,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let other machines connect without tokens, or without TLS.")
    ] = False,
    token_file: Annotated[Path | None, typer.Option(help="The gateway's own token, for a store.")] = None,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Let STOMP 1.2 clients take part, over TCP and WebSocket. Ends with SIGTERM or Ctrl-C."""
    with plain_endings("gateway"):
        from shoal.bus.aio import connect
        from shoal.gateway.config import GatewayConfig
        from shoal.gateway.server import GatewayThread
        from shoal.system import raise_descriptor_limit

        given: dict[str, Any] = {"stomp": tuple(stomp)} if stomp else {}
        config = GatewayConfig(
            tokens=tokens,
            access=access,
            origins=tuple(origin or ()),
            tls_cert=tls_cert,
            tls_key=tls_key,
            connections_max=connections_max,
            message_bytes_max=message_bytes_max,
            insecure=insecure,
            token_file=token_file,
            **given,
        )
        options: dict[str, Any] = {"domain": domain, "interface": interface, "token_file": token_file}
        options = {name: value for name, value in options.items() if value is not None}
        ended = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: ended.set())
        # Each connection takes a descriptor.
        raise_descriptor_limit()
        with GatewayThread(config, lambda: connect(url, **options)) as running:
            typer.echo(f"shoal gateway: ready at {', '.join(running.urls)}", err=True)
            ended.wait()
