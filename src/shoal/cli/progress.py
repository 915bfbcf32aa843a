"""Progress of commands that take longer than two seconds, on standard error: what they do, and the time left.

On a terminal one line is rewritten. Elsewhere, in a log or a pipe, a new line is printed every few seconds.
"""

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console

#: When the first line comes where output is no terminal, and how often others follow.
FIRST_S, EVERY_S = 2.0, 5.0
#: How often the line on a terminal is rewritten.
REFRESH_S = 0.5
#: Says what happens now, and which share of all is done, as `Progress.tell` does.
Tell = Callable[[str, float | None], None]
#: From when on the time so far is worth a word.
SO_FAR_S = 2.0


class Pace:
    """How far something is, and how long the rest takes at the speed so far. Times are arguments."""

    def __init__(self, now: float) -> None:
        self._began = now
        self._share = 0.0
        self._text = "starting"

    def tell(self, text: str, share: float | None = None) -> None:
        """Say what happens now, and which share of all is done; none leaves the share as it was."""
        self._text = text
        if share is not None:
            self._share = min(1.0, share)

    def restart(self, now: float) -> None:
        """Begin another part, whose end is estimated from its own beginning."""
        self._began, self._share = now, 0.0

    def line(self, now: float) -> str:
        """What happens now, with the time left; if that cannot be estimated, with the time so far."""
        if self._share >= 1.0:
            return self._text
        if not self._share:
            so_far_s = now - self._began
            return f"{self._text}, {duration(so_far_s)} so far" if so_far_s >= SO_FAR_S else self._text
        left_s = (now - self._began) * (1.0 - self._share) / self._share
        return f"{self._text}, about {duration(left_s)} left"


class RoundPace:
    """The pace of an experiment whose contestants take turns in rounds.

    How many contestants there are shows after the first round. A round number that falls begins another part.
    """

    def __init__(self, pace: Pace, rounds: int) -> None:
        self._pace = pace
        self._rounds = rounds
        self._round = 0
        self._turns: dict[str, None] = {}
        self._contestants = 0

    def follow(self, number: int, contestant: str, reached: str, now: float) -> None:
        """A contestant begins its turn, or has `reached` something in it; round 0 is the warm-up."""
        if number != self._round:
            self._contestants = len(self._turns) if number > self._round >= 1 else 0
            if number < self._round or self._round == 0:
                self._pace.restart(now)
            self._round, self._turns = number, {}
        if reached:
            self._turns[contestant] = None
        share = None
        if number >= 1:
            done = len(self._turns) / self._contestants if self._contestants else 0.0
            share = (number - 1 + min(done, 1.0)) / self._rounds
        at = f"round {number} of {self._rounds}" if number else "warming up"
        self._pace.tell(f"{at}, {contestant}{': ' if reached else ''}{reached}", share)


def duration(seconds: float) -> str:
    """A time that people read at a glance: `40 s`, `3 min`, `2 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{round(minutes / 60)} h"


class Progress:
    """Shows a pace while a `with` block runs.

    `look` is called before each line, on the thread that prints it: it may `tell` what it sees.
    """

    def __init__(
        self,
        text: str = "starting",
        console: Console | None = None,
        look: "Callable[[Progress], object] | None" = None,
    ) -> None:
        self._look = look
        self.pace = Pace(time.monotonic())
        self.pace.tell(text)
        self._console = console or Console(stderr=True, highlight=False)
        self._status = self._console.status(text) if self._console.is_terminal else None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._show, name="shoal-progress", daemon=True)

    def tell(self, text: str, share: float | None = None) -> None:
        """As `Pace.tell`."""
        self.pace.tell(text, share)

    def _show(self) -> None:
        wait_s = REFRESH_S if self._status else FIRST_S
        while not self._over.wait(wait_s):
            if self._look is not None:
                self._look(self)
            line = self.pace.line(time.monotonic())
            if self._status:
                self._status.update(line)
            else:
                self._console.print(line, markup=False, soft_wrap=True)
                wait_s = EVERY_S

    def __enter__(self) -> Self:
        if self._status:
            self._status.start()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()
        if self._status:
            self._status.stop()
