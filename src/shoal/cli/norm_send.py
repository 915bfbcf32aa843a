"""`shoal norm send`: files to all receivers of a group."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from shoal.cli.connection import plain_endings
from shoal.cli.norm_options import DEFAULTS, Group, Interface, Node, Port, node_from_text, optional_node
from shoal.cli.progress import Progress
from shoal.errors import FlushError, FullError, ShoalError
from shoal.norm import FileFailed, ObjectSent, Session

EPILOG = """
Examples:

  shoal norm send report.pdf

  shoal norm send *.iso --rate 400 --parity 16 --auto-parity 4

  shoal norm send report.pdf --to 1001 --to 1002       (ends when both have it)

  shoal norm send report.pdf --group 10.0.0.7          (to one host, without multicast)
"""

#: How often to look at the progress.
_GLANCE_S = 0.1


def send(
    files: Annotated[list[Path], typer.Argument(help="What to send.", exists=True, dir_okay=False)],
    to: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="A receiver that must confirm; may be repeated. It prints its id."),
    ] = None,
    wait: Annotated[float, typer.Option(min=0.0, help="Seconds to wait for them after all was sent.")] = 60.0,
    rate: Annotated[float | None, typer.Option(metavar="MBIT_S", help="To stay below.")] = None,
    congestion: Annotated[
        Literal["fixed", "nack_driven", "norm_cc", "delivery"] | None,
        typer.Option(help="What decides the rate: fixed if --rate is given, else norm_cc."),
    ] = None,
    parity: Annotated[
        int, typer.Option(min=0, help="Reed-Solomon parity for repair, per block of 64 segments.")
    ] = 0,
    auto_parity: Annotated[int, typer.Option(min=0, help="How much of it follows each block unasked.")] = 0,
    group: Group = DEFAULTS.group,
    port: Port = DEFAULTS.port,
    interface: Interface = DEFAULTS.interface,
    node: Node = None,
) -> None:
    """Send files to every host that runs `shoal norm receive`, or another NORM receiver.

    The status is 0 if all of them were sent, and every receiver named with --to has them.
    """
    options: dict[str, Any] = {
        "group": group,
        "port": port,
        "interface": interface,
        "node": optional_node(node),
        "ackers": tuple(map(node_from_text, to or ())),
        "rate_bytes_per_s": None if rate is None else rate * 1e6 / 8,
        "congestion": congestion or ("norm_cc" if rate is None else "fixed"),
        "parity_symbols": parity,
        "auto_parity": auto_parity,
        # One that is busy with its disk is not gone; who is gone is known before the time is over.
        "acker_patience_s": min(0.8 * wait, 5.0),
        "lanes": 0,
        "receive": False,
    }
    with plain_endings("norm send"):
        for path in files:
            if path.is_file() and path.stat().st_size == 0:
                raise ShoalError(f"{path} is empty, and NORM has no empty objects: leave it out")
        with Session(**options) as session, Progress() as progress:
            failed = _send_all(session, files, progress)
            progress.tell(f"waiting for receivers, {wait:g} s at the most", 1.0)
            silent = _wait_for_ackers(session, wait) if to else ()
            announced = session.close(wait)
            heard = session.stats()["datagrams_received"] > 0
    for path, why in failed.items():
        typer.echo(f"shoal norm send: {path}: {why}", err=True)
    if silent:
        typer.echo(f"shoal norm send: not confirmed by {', '.join(map(str, silent))}", err=True)
    elif not to and not announced:
        typer.echo(f"shoal norm send: receivers still ask for repair after {wait:g} s", err=True)
    elif not heard:
        typer.echo(f"shoal norm send: no receiver answered on {group} port {port}. Is one running?", err=True)
    if failed or silent or not (to or announced):
        raise typer.Exit(1)


def _send_all(session: Session, files: list[Path], progress: Progress) -> dict[Path, str]:
    """Send every file, and return those that could not be read to their end."""
    sizes = {path: path.stat().st_size for path in files}
    total = sum(sizes.values())
    waiting = list(files)
    sending: dict[int, Path] = {}
    failed: dict[Path, str] = {}
    segment_bytes = session.config.segment_bytes or 0
    while waiting or sending:
        if waiting and (number := _try_send(session, waiting[0])) is not None:
            sending[number] = waiting.pop(0)
            continue
        event = session.receive(_GLANCE_S)
        if isinstance(event, FileFailed) and event.object in sending:
            failed[sending.pop(event.object)] = event.why
        elif isinstance(event, ObjectSent) and event.object in sending:
            path = sending.pop(event.object)
            print(f"sent {path} {sizes[path]} bytes", flush=True)
        sent = min(session.stats()["segments_sent"] * segment_bytes, total)
        progress.tell(f"{sent / 1e6:,.1f} of {total / 1e6:,.1f} MB sent", sent / max(total, 1))
    return failed


def _try_send(session: Session, path: Path) -> int | None:
    try:
        return session.send_file(path, info=path.name.encode(), timeout_s=0.0)
    except FullError:
        return None


def _wait_for_ackers(session: Session, wait_s: float) -> tuple[int, ...]:
    """Wait until every receiver that was named has everything; return those that have not."""
    try:
        silent = session.flush(timeout_s=wait_s).silent
    except FlushError as error:
        silent = error.silent
    for node in session.config.ackers:
        if node not in silent:
            print(f"confirmed by {node}", flush=True)
    return silent
