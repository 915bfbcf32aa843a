"""`shoal daemon`: run a node that a file describes."""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

EPILOG = """
Examples:

  shoal daemon shoald.toml

  shoal daemon shoald.toml --check

  kill -HUP PID                        (read the file again)

  shoal daemon drain shoald.toml       (send its programs to other daemons)

  shoal daemon drain shoald.toml --end

  shoal daemon unit > /etc/systemd/system/shoald@.service
"""


def daemon(
    file: Annotated[Path, typer.Argument(help="The TOML file that says what it is; or `drain`, or `unit`.")],
    of: Annotated[Path | None, typer.Argument(help="After `drain`: the file of the running daemon.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say whether the file is right.")] = False,
    end: Annotated[bool, typer.Option("--end", help="With drain: let programs in again.")] = False,
    pid: Annotated[int | None, typer.Option(help="With drain: the daemon's process.")] = None,
) -> None:
    """Run a daemon: let programs connect, keep a store. Ends after SIGTERM or Ctrl-C."""
    if str(file) == "drain":
        drain(of, end=end, pid=pid)
        return
    if str(file) == "unit" and of is None:
        from shoal.daemon.unit import unit

        typer.echo(unit(), nl=False)
        return
    if of is not None or end or pid is not None:
        raise typer.BadParameter("a second file, --end and --pid are for: shoal daemon drain FILE")
    if not check:
        # The same process goes on without what the command line needed: a third of a small gateway's memory.
        os.execv(sys.executable, [sys.executable, "-P", "-m", "shoal.daemon", str(file)])
    from shoal.cli.connection import plain_endings
    from shoal.daemon import load

    with plain_endings("daemon"):
        config = load(file)
    links = config.open_links()
    closed = [name for name in config.links if name not in links]
    typer.echo(f"{file} is right: {config.name} in the domain {config.domain}")
    for name, link in links.items():
        what = "listens at" if link.listens else "connects by"
        host = link.connection.host or link.connection.group_address()
        typer.echo(f"  link {name} {what} {link.connection.scheme}://{host}:{link.connection.port}")
    for name in closed:
        typer.echo(f"  link {name} is switched off")


def drain(file: Path | None, *, end: bool, pid: int | None) -> None:
    """Have a running daemon send its programs elsewhere, or let them in again."""
    from shoal.cli.connection import plain_endings
    from shoal.daemon import load
    from shoal.daemon.running import process_of
    from shoal.errors import ConfigError

    with plain_endings("daemon drain"):
        if sys.platform == "win32":
            raise ConfigError("a daemon on Windows has no signals: stop it, and its programs reconnect")
        if (file is None) == (pid is None):
            raise ConfigError("name the daemon by its file or by --pid, one of them")
        number = pid if file is None else process_of(load(file))
        assert number is not None
        try:
            os.kill(number, signal.SIGUSR2 if end else signal.SIGUSR1)
        except OSError as error:
            raise ConfigError(f"process {number} gets no signal: {error.strerror}") from None
    typer.echo("it lets programs in again" if end else "it sends its programs to other daemons")
