"""`shoal norm receive`: files from all senders of a group."""

import json as json_text
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.connection import end_on_sigterm, plain_endings
from shoal.cli.norm_options import DEFAULTS, Group, Interface, Node, Port, optional_node
from shoal.norm import (
    FileFailed,
    FileReceived,
    ObjectAborted,
    ObjectOpened,
    SenderGone,
    SenderHeard,
    Session,
)

EPILOG = """
Examples:

  shoal norm receive inbox                     until Ctrl-C

  shoal norm receive inbox --count 1 --timeout 60

  shoal norm receive inbox --node 1001         (for a sender that says --to 1001)

  shoal norm receive inbox --json | jq -r .path
"""

#: A name that any file system takes.
_NAME_BYTES_MAX = 200


def receive(
    directory: Annotated[Path, typer.Argument(help="Where files go; made if it is not there.")],
    count: Annotated[
        int | None,
        typer.Option(min=1, help="End after this many files, and those that come with the last answers."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.0, help="Fail if nothing arrives for this many seconds.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    linger: Annotated[
        float,
        typer.Option(min=0.0, help="Seconds to answer senders after the last file, until they are done."),
    ] = 10.0,
    drop: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of packets to lose, to see them repaired.")
    ] = 0.0,
    group: Group = DEFAULTS.group,
    port: Port = DEFAULTS.port,
    interface: Interface = DEFAULTS.interface,
    node: Node = None,
) -> None:
    """Receive files into a directory and print each when it is complete, until Ctrl-C.

    A file gets the name its sender gave it, and a number if there is one of that name. The status is 1 if a
    file could not be completed or written.
    """
    # What is not complete is removed, also when a service manager ends us.
    end_on_sigterm()
    with plain_endings("norm receive"):
        directory.mkdir(parents=True, exist_ok=True)
        with (
            # What is not complete stays out of sight, and goes with this program.
            tempfile.TemporaryDirectory(prefix=".incoming-", dir=directory) as incoming,
            Session(
                group=group,
                port=port,
                interface=interface,
                node=optional_node(node),
                files_directory=incoming,
                drop_received=drop,
                lanes=0,
                sync="all",
            ) as session,
        ):
            typer.echo(f"shoal norm receive: node {session.node} listens to {group} port {port}", err=True)
            reception = _Reception(session, directory, json)
            reception.run(count, timeout)
            # What is given up from now on was not asked for.
            failed = reception.failed
            reception.linger(linger)
    if failed:
        raise typer.Exit(1)


class _Reception:
    """Files as they come."""

    def __init__(self, session: Session, directory: Path, json: bool) -> None:
        self._session = session
        self._directory = directory
        self._json = json
        self._senders: set[tuple[int, int]] = set()
        self.received = 0
        self.failed = False

    def run(self, count: int | None, timeout_s: float | None) -> None:
        """Receive `count` files."""
        while count is None or self.received < count:
            before = self._segments()
            # A long file is no event before it is complete.
            if not self._step(timeout_s) and self._segments() == before:
                typer.echo(f"shoal norm receive: nothing arrived within {timeout_s:g} s", err=True)
                raise typer.Exit(1)

    def _segments(self) -> int:
        stats = self._session.stats()
        return stats["segments_received"] + stats["parity_received"]

    def linger(self, linger_s: float) -> None:
        """Stay until every sender has its answers and is gone."""
        deadline = time.monotonic() + linger_s
        while self._senders and (left_s := deadline - time.monotonic()) > 0:
            self._step(left_s)

    def _step(self, timeout_s: float | None) -> bool:
        event = self._session.receive(timeout_s)
        match event:
            case SenderHeard():
                self._senders.add((event.sender, event.instance))
            case SenderGone():
                self._senders.discard((event.sender, event.instance))
            case FileReceived(path=Path() as path):
                self.received += 1
                self._print(event, _store(path, event.info, self._directory))
            case ObjectAborted():
                self._complain(event.sender, event.object, event.reason.replace("_", " "))
            case FileFailed(sender=int() as sender):
                self._complain(sender, event.object, event.why)
            case ObjectOpened(kind="data"):
                typer.echo(
                    f"shoal norm receive: object {event.object} of node {event.sender} is no file", err=True
                )
        return event is not None

    def _print(self, event: FileReceived, path: Path) -> None:
        if self._json:
            told = {"path": str(path), "bytes": event.bytes, "sender": event.sender, "object": event.object}
            print(json_text.dumps(told), flush=True)
        else:
            print(f"{path} {event.bytes} bytes from {event.sender}", flush=True)

    def _complain(self, sender: int, object: int, why: str) -> None:
        self.failed = True
        typer.echo(f"shoal norm receive: file {object} of node {sender} was given up: {why}", err=True)


def _store(path: Path, info: bytes, directory: Path) -> Path:
    """Give a received file its name, without touching any other."""
    name = _name(info) or path.name
    number = 1
    while True:
        target = directory / (name if number == 1 else f"{name}.{number}")
        try:
            target.open("xb").close()
        except FileExistsError:
            number += 1
            continue
        return path.replace(target)


def _name(info: bytes) -> str | None:
    """The name of a file that its sender gives, whatever directory it was in; none if that is no name."""
    try:
        text = info.decode()
    except UnicodeDecodeError:
        return None
    name = text.replace("\\", "/").rsplit("/", 1)[-1].strip()
    if name in ("", ".", "..") or not name.isprintable() or len(name.encode()) > _NAME_BYTES_MAX:
        return None
    return name
