"""`shoal top`: the nodes, links and queues of a domain, again and again."""

import contextlib
import json as json_text
import os
import select
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

import shoal
from shoal.cli.connection import Domain, Interface, Url, connect, plain_endings
from shoal.cli.message_text import printable
from shoal.errors import NoReplyError, RemoteError
from shoal.monitor.answers import TOPIC
from shoal.monitor.board import COLUMNS, PAGES, Board, Cell, Page, Row

EPILOG = """
Keys: p the next page, s sort by the next column, / type a text that rows must contain, q end.

Daemons answer, and programs that were connected with answer=True.

Examples:

  shoal top

  shoal top --once --json | jq .nodes
"""

#: How long one round of answers may take.
_ROUND_S = 1.0
#: Looks of --once, at the most.
_ROUNDS_MAX = 4
#: The title and the headings.
_LINES_BESIDE = 2


def top(
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 1.0,
    once: Annotated[
        bool, typer.Option("--once", help="Look until rates are known, print all pages and end.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --once: print one JSON object.")] = False,
    url: Url = None,
    domain: Domain = None,
    interface: Interface = None,
) -> None:
    """Show what nodes, links and queues of the domain do now. The status is 1 if no node answers."""
    if json and not once:
        typer.echo("shoal top: --json needs --once", err=True)
        raise typer.Exit(2)
    with plain_endings("top"), connect(url, domain, interface, asks=True) as bus:
        if once or not sys.stdout.isatty():
            _print_once(bus, every, json)
        else:
            _Screen(bus, every).run()


def _ask(bus: shoal.Bus, timeout_s: float) -> list[Mapping[str, Any]]:
    """The statuses of all nodes that answer."""
    found: list[Mapping[str, Any]] = []
    with contextlib.suppress(NoReplyError, RemoteError):
        for answer in bus.request_many(TOPIC, timeout_s=timeout_s):
            if isinstance(answer.body, dict):
                found.append(answer.body)
    return found


def _print_once(bus: shoal.Bus, every_s: float, json: bool) -> None:
    board = Board()
    bus.wait_for_subscribers(TOPIC, timeout_s=2.0)
    # Of whom we know only since the last round, no rate is known yet.
    for round_ in range(_ROUNDS_MAX):
        if round_:
            time.sleep(every_s)
        board.update(time.monotonic(), _ask(bus, _ROUND_S))
        if board.has_rates:
            break
    if json:
        print(json_text.dumps(board.as_dict()))
    else:
        for page in PAGES:
            headings = [heading for _, heading, _ in COLUMNS[page]]
            print("\n".join(_table(headings, _cells(page, board.rows(page)), _ALIGNED[page])), end="\n\n")
    if not board.rows("nodes"):
        typer.echo("shoal top: no node answered. Connect programs with answer=True", err=True)
        raise typer.Exit(1)


def _cells(page: Page, rows: list[Row]) -> list[list[str]]:
    return [[shown(row.get(key), form) for key, _, form in COLUMNS[page]] for row in rows]


#: On which side each column begins: numbers at the right.
_ALIGNED: dict[Page, list[str]] = {
    page: ["<" if form == "s" else ">" for _, _, form in COLUMNS[page]] for page in PAGES
}


def _table(headings: list[str], rows: list[list[str]], aligned: list[str]) -> list[str]:
    """Columns as wide as they have to be."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    forms = [f"{side}{width}" for side, width in zip(aligned, widths, strict=True)]
    return [
        "  ".join(f"{cell:{form}}" for cell, form in zip(row, forms, strict=True)).rstrip()
        for row in [headings, *rows]
    ]


def shown(cell: Cell, form: str) -> str:
    """A cell as it is printed; `-` if it is not known."""
    if cell is None:
        return "-"
    return printable(str(cell)) if form == "s" else f"{cell:{form}}"


class _Screen:
    """The terminal, until q or Ctrl-C."""

    def __init__(self, bus: shoal.Bus, every_s: float) -> None:
        self._bus, self._every_s = bus, every_s
        self._board = Board()
        self._page: Page = "nodes"
        self._sort: dict[Page, int | None] = dict.fromkeys(PAGES)
        self._matching = ""
        #: Whether keys go into the text that rows must contain.
        self._typing = False
        #: Lines of the terminal: rows below the last line cost nothing.
        self._height = 25

    def run(self) -> None:
        """Look and show, until the user ends it."""
        from rich.live import Live

        with _keys() as read, Live(self._text(), screen=True, auto_refresh=False) as live:
            self._height = live.console.height
            while True:
                began = time.monotonic()
                self._board.update(began, _ask(self._bus, min(_ROUND_S, self._every_s)))
                live.update(self._text(), refresh=True)
                while (left_s := began + self._every_s - time.monotonic()) > 0:
                    key = read(left_s)
                    if key and not self.press(key):
                        return
                    if key:
                        live.update(self._text(), refresh=True)

    def press(self, key: str) -> bool:
        """What a key does; false if it ends."""
        if self._typing:
            if key in "\r\n\x1b":
                self._typing = False
            elif key in "\x7f\b":
                self._matching = self._matching[:-1]
            elif key.isprintable():
                self._matching += key
        elif key == "q":
            return False
        elif key == "p":
            self._page = PAGES[(PAGES.index(self._page) + 1) % len(PAGES)]
        elif key == "s":
            before = self._sort[self._page]
            after = 0 if before is None else before + 1
            self._sort[self._page] = after if after < len(COLUMNS[self._page]) else None
        elif key == "/":
            self._typing, self._matching = True, ""
        return True

    def _text(self) -> Any:
        """The screen. Plain lines: a table of rich's would take twenty times as long."""
        from rich.text import Text

        lines = self.lines()
        text = Text(lines[0], no_wrap=True, overflow="crop", style="bold")
        return text.append("\n" + "\n".join(lines[1:]), style="not bold")

    def lines(self) -> list[str]:
        """The title, the headings and as many rows as the terminal has lines for."""
        columns, sort = COLUMNS[self._page], self._sort[self._page]
        key = None if sort is None else columns[sort][0]
        rows = self._board.rows(self._page, sort=key, matching=self._matching)
        filtered = (
            f" /{self._matching}{'_' if self._typing else ''}" if self._matching or self._typing else ""
        )
        title = f"shoal top: {self._page}, {len(rows)} rows{filtered}   (p page, s sort, / filter, q quit)"
        headings = [heading + "*" * (number == sort) for number, (_, heading, _) in enumerate(columns)]
        seen = rows[: max(1, self._height - _LINES_BESIDE)]
        return [title, *_table(headings, _cells(self._page, seen), _ALIGNED[self._page])]


@contextlib.contextmanager
def _keys() -> Iterator[Any]:
    """Read single keys while this lasts; without a terminal at standard input it only waits."""
    if not sys.stdin.isatty():

        def wait(timeout_s: float) -> str:
            time.sleep(timeout_s)
            return ""

        yield wait
        return
    # Windows has neither; there --once works.
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read(timeout_s: float) -> str:
        if not select.select([descriptor], [], [], timeout_s)[0]:
            return ""
        return os.read(descriptor, 1).decode(errors="replace") or "q"

    tty.setcbreak(descriptor)
    try:
        yield read
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
