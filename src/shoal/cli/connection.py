"""What `pub`, `sub`, `request`, `reply` and `members` share: how to connect, and how to end."""

import contextlib
import logging
import signal
import time
from collections.abc import Iterator
from typing import Annotated, Any, NoReturn

import typer

import shoal
from shoal.bus.inside import be_private
from shoal.config import resolve
from shoal.errors import ConfigError, HistoryError, InvalidSelectorError, InvalidTopicError, ShoalError
from shoal.messages import Line

#: The command failed.
FAILED = 1
#: The command line is wrong.
WRONG_COMMAND = 2
#: What shells report for a program that Ctrl-C ended.
INTERRUPTED = 130
#: The same for SIGTERM.
TERMINATED = 143

Url = Annotated[
    str | None,
    typer.Option(help="Where to connect, such as norm://239.192.74.1:7474.", rich_help_panel="Connection"),
]
Domain = Annotated[
    str | None, typer.Option(help="The set of programs to talk to, by name.", rich_help_panel="Connection")
]
Interface = Annotated[
    str | None, typer.Option(help="Network interface, by name or address.", rich_help_panel="Connection")
]


def connect(
    url: str | None,
    domain: str | None,
    interface: str | None,
    *,
    patient: bool = False,
    asks: bool = False,
    **options: Any,
) -> shoal.Bus:
    """Connect with the options that were given; the connection is closed after SIGTERM, too.

    Args:
        patient: go on trying if no program answers at the address; otherwise raise.
        asks: the command prints which answers came, and has nothing to say about its questions.
    """
    end_on_sigterm()
    given: dict[str, Any] = {"domain": domain, "interface": interface}
    given = {name: value for name, value in given.items() if value is not None}
    if not patient and resolve(url, dict(given)).has_links:
        given["required"] = True
    bus = shoal.connect(url, **given, **{name: value for name, value in options.items() if value is not None})
    if asks:
        be_private(bus)
    return bus


def end_on_sigterm() -> None:
    """End after SIGTERM as after Ctrl-C, but for the status: whatever is open is closed."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: object) -> NoReturn:
    raise SystemExit(TERMINATED)


@contextlib.contextmanager
def plain_endings(command: str) -> Iterator[None]:
    """Say in one line what goes wrong, and end quietly after Ctrl-C."""
    handler = logging.StreamHandler()
    handler.setFormatter(_OneLine(command))
    log = logging.getLogger("shoal")
    log.addHandler(handler)
    try:
        yield
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of the output has seen enough.
        raise typer.Exit(FAILED) from None
    except InvalidSelectorError as error:
        # A caret has to stand where it points.
        typer.echo(f"shoal {command}: the selector is wrong {error}", err=True)
        raise typer.Exit(WRONG_COMMAND) from None
    except (ShoalError, ValueError, TypeError, OSError) as error:
        typer.echo(f"shoal {command}: {_one_line(error)}", err=True)
        raise typer.Exit(WRONG_COMMAND if _was_typed(error) else FAILED) from None
    finally:
        log.removeHandler(handler)


def _was_typed(error: Exception) -> bool:
    """Whether the command line was wrong. Otherwise something failed: a library or a file is missing, say."""
    if isinstance(error, ConfigError | InvalidTopicError):
        return not isinstance(error.__cause__, ImportError | OSError)
    if isinstance(error, HistoryError):
        return error.code == "BAD-QUERY"
    return not isinstance(error, ShoalError | OSError)


class _OneLine(logging.Formatter):
    """What the library logs, as one line: a command has no use for a traceback."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command

    def format(self, record: logging.LogRecord) -> str:
        if not isinstance(record.msg, Line):
            return f"shoal {self._command}: {_one_line(record.getMessage())}"
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        said = f"{record.msg.notice.id} {record.levelname.lower()}: {_one_line(record.msg.text)}"
        return f"{moment} shoal {self._command}: {said}"


def _one_line(what: object) -> str:
    return " ".join(str(what).split())
