"""`shoal doctor`: finds what keeps messages from arriving."""

from typing import Annotated, NoReturn

import typer

from shoal.cli.connection import FAILED, Domain, Interface, Url, end_on_sigterm, plain_endings
from shoal.config import resolve
from shoal.doctor import Answerer, Options, examine
from shoal.doctor.peer import PORT
from shoal.doctor.traffic import QUERY_S

EPILOG = """
Examples:

  shoal doctor

  shoal doctor --domain desk --interface eth0 --json

  shoal doctor --answer                (on another machine, until Ctrl-C)

  shoal doctor --peer 192.0.2.7        (measures with it)
"""


def doctor(
    peer: Annotated[
        str | None, typer.Option(help="Measure with this machine, where shoal doctor --answer runs.")
    ] = None,
    answer: Annotated[bool, typer.Option("--answer", help="Answer doctors of other machines.")] = False,
    peer_port: Annotated[
        int, typer.Option(min=1, max=65535, help="TCP port for --peer and --answer.")
    ] = PORT,
    long: Annotated[
        bool, typer.Option("--long", help=f"Wait {QUERY_S:g} s for an IGMP querier, too; needs root.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Check interface, route, multicast, firewall, buffers and the domain; print a line for each.

    The status is 1 if a check failed. It needs no root; what it could not look at it says.
    """
    given = {"domain": domain, "interface": interface}
    with plain_endings("doctor"):
        config = resolve(url, {name: value for name, value in given.items() if value is not None})
        if config.scheme not in ("norm", "udp"):
            raise ValueError(f"{config.where()} has no multicast: shoal doctor is for norm:// and udp://")
        if answer:
            _answer(Answerer(config, peer_port))
        querier_s = QUERY_S if long else None
        report = examine(config, Options(peer=peer, peer_port=peer_port, querier_s=querier_s))
    for line in [report.as_json()] if json else report.lines():
        print(line)
    if report.failed:
        raise typer.Exit(FAILED)


def _answer(answerer: Answerer) -> NoReturn:
    end_on_sigterm()
    host, port = answerer.address
    typer.echo(f"shoal doctor: answers at {host}:{port}, until Ctrl-C", err=True)
    try:
        answerer.run()
    finally:
        answerer.close()
    raise typer.Exit
