"""Messages of a rule on their way to the next store. Decides; waits for nothing, sends nothing.

A rule reads what it sends from the log, in portions, a few ahead of the next store's word. So it keeps
nothing: if a portion is refused, or a session is lost, it reads on from there. Numbers are offsets of this
log plus one. A session begins with a request without messages, which the next store answers with the number
that it has.

A portion that the next store refuses for room, or for rights, is sent again every second. One that it never
takes is divided, and the message at fault goes to the dead-letter queue of this store.
"""

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from shoal._core import Log, check_forwarded, forward_rows
from shoal.bus.store_chain import RETRY_S
from shoal.errors import ShoalError
from shoal.store.forwards import Next
from shoal.store.numbers import Chain, Run
from shoal.store.rule import ForwardRule

#: Rows and bytes of one portion, and bytes ahead of the next store's word.
ROWS_TOGETHER, BYTES_TOGETHER, WINDOW_BYTES = 1000, 256 << 10, 8 << 20
#: What the next store refuses for good.
_FINAL = frozenset({"TOO_LONG", "BAD_ROWS", "EXISTS_NOT", "BAD_REQUEST", "LOOP"})


class Portion(NamedTuple):
    """Messages of one request: numbers, rows, and whether it is a single message or transaction."""

    first: int
    last: int
    rows: bytes
    is_alone: bool


class Keeper(Protocol):
    """What a rule tells its own store, and asks it."""

    def next_of(self, name: str) -> Next | None:
        """The store that the rule led to."""

    def set_next(self, name: str, to: Next) -> None:
        """The rule leads to this store."""

    def release(self, name: str, end: int, messages: int, size: int) -> None:
        """Messages below an offset need no longer be kept."""

    def give_up(self, name: str, first: int, end: int, why: str) -> bool:
        """The next store never takes these; false if there is no room for them here."""

    def uneven(self, chain: Chain) -> list[Run] | None:
        """The runs of a publisher's chain that is not one run."""

    @property
    def upstream(self) -> list[str]:
        """The stores that a message here may have come through."""


class ForwardChain:
    """One rule's way to the next store. For one thread at a time."""

    patient = True

    def __init__(
        self,
        rule: ForwardRule,
        log: Log,
        keeper: Keeper,
        greeting: Callable[[], dict[str, Any]],
        *,
        place: int,
        rows_together: int = ROWS_TOGETHER,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` is read after messages are taken: what passes meanwhile is part of the age they say."""
        self._clock = clock
        self.rule, self._log, self._keeper, self._greeting = rule, log, keeper, greeting
        self._rows_together = rows_together
        # After a restore from a copy the same offsets mean other messages: that is another chain.
        self.publisher = log.store_id
        self.chain = zlib.crc32(f"{rule.name}/{log.incarnation}".encode())
        #: The next store has everything up to this number, or never takes it; messages below are released.
        self.stored, self.released = place, place
        #: Why nothing is sent before an operator says so, and what the next store refused last.
        self.stopped: str | None = None
        self.refused: str | None = None
        self._read = place
        #: The number of the last message that was sent: the next store has it, or it is on its way.
        self._after = 0
        self._flying: deque[Portion] = deque()
        #: What is released with which number: messages and bytes.
        self._weights: deque[tuple[int, int, int]] = deque()
        self._probe = "due"
        self._holes_due = 0
        self._alone_to = 0
        self._retry_at: float | None = None

    # --- getters ---

    @property
    def is_busy(self) -> bool:
        """Whether the next store has requests to answer."""
        return bool(self._flying or self._holes_due or self._probe == "asked")

    def is_next(self, number: int) -> bool:
        """Whether nothing before a message waits to be stored."""
        return number == self.stored + 1

    def poll_timeout(self) -> float | None:
        """When to look again, if not before."""
        return self._retry_at

    # --- commands ---

    def restart(self) -> None:
        """A new session begins: ask the next store how far it is, if it is the one that it was."""
        self._flying.clear()
        self._read, self._holes_due, self._retry_at = self.stored, 0, None
        self._probe = "due"
        self.stopped = self._judge()

    def give_up(self, error: ShoalError) -> None:
        """Nothing more is sent: the log keeps what is not stored."""
        self._flying.clear()

    def skip(self, place: int) -> None:
        """An operator dropped what waited below an offset."""
        self._weights.clear()
        self.stored, self.released = max(self.stored, place), max(self.released, place)
        self.restart()

    def _judge(self) -> str | None:
        """Why nothing is sent to the store that answers, if that is so."""
        greeting, name = self._greeting(), self.rule.name
        now = Next(str(greeting.get("store", "")), str(greeting.get("incarnation", "")))
        if now.store == f"{self._log.store_id:016x}":
            return f"{self.rule.to} is this store itself: give the rule the address of another one"
        if "forward" not in greeting.get("takes", ()):
            return f"the store at {self.rule.to} takes no messages of other stores: it is an older version"
        known = self._keeper.next_of(name)
        if known is None or known == now:
            if known is None:
                self._keeper.set_next(name, now)
            return None
        what = "was restored from a copy" if known.store == now.store else "is another store than before"
        return (
            f"the store at {self.rule.to} {what}, and may lack messages that were forwarded: look what it "
            f"has, then run: shoal store forward resume {name}"
        )

    # --- input ---

    def on_stored(self, through: int) -> None:
        """The next store has every message up to a number."""
        if self._probe == "asked":
            self._on_probed(through)
            return
        through = min(through, self._after)
        if through <= self.stored:
            return
        self.stored, self.refused = through, None
        while self._flying and self._flying[0].last <= through:
            self._flying.popleft()
        if self.rule.release == "stored":
            self._release(through)
        self._pass_by()

    def _on_probed(self, through: int) -> None:
        self._probe = "done"
        if through > self._log.end:
            self.stopped = (
                f"the store at {self.rule.to} has messages that this log does not: this store was restored "
                "from a copy by other means than `shoal store restore`. Stop it, and run: shoal store renew"
            )
            return
        # It may have more than is noted here, and never gets what was not for it, or what it refused.
        self._after = through
        self.stored = self._read = max(through, self.stored)
        if self.rule.release == "stored":
            self._release(self.stored)

    def on_passed(self, through: int) -> None:
        """The next store has passed every message up to a number on."""
        if self.rule.release == "passed":
            self._release(self.stored if through >= self._after else through)

    def _pass_by(self) -> None:
        """Nothing is on its way: what was read behind that is not for the next store, and no answer comes."""
        if self._flying or self._read <= self.stored:
            return
        is_released = self.released >= self.stored
        self.stored = self._read
        if is_released:
            self._release(self._read)

    def _release(self, through: int) -> None:
        if through <= self.released:
            return
        messages = size = 0
        while self._weights and self._weights[0][0] <= through:
            _, each, length = self._weights.popleft()
            messages, size = messages + each, size + length
        self.released = through
        self._keeper.release(self.rule.name, through, messages, size)

    def on_refused(self, now: float, body: dict[str, Any]) -> None:
        """The next store took nothing of a request."""
        if self._holes_due:
            self._holes_due -= 1
            return
        if self._probe == "asked":
            self._probe, self._retry_at = "due", now + RETRY_S
            self.refused = str(body.get("text"))
            return
        self.on_stored(body["mark"])
        if not self._flying:
            return
        refused = self._flying.popleft()
        self._holes_due = len(self._flying)
        self._go_back(refused.first - 1)
        self._after = body["mark"]
        self._judge_refusal(now, refused, str(body["error"]), str(body.get("text")))

    def _judge_refusal(self, now: float, refused: Portion, error: str, text: str) -> None:
        """Send a portion again, divide it, or give its message up."""
        if error == "HOLE":
            self._probe = "due"
            return
        self.refused = text
        if error not in _FINAL and not (error == "NOT_OWNED" and not refused.is_alone):
            self._retry_at = now + RETRY_S
        elif not refused.is_alone:
            self._alone_to = max(self._alone_to, refused.last)
        elif self._keeper.give_up(self.rule.name, refused.first - 1, refused.last, text):
            self._weights = deque(each for each in self._weights if each[0] > refused.last)
            self.stored = self.released = self._read = refused.last
        else:
            self._retry_at = now + RETRY_S

    def _go_back(self, offset: int) -> None:
        self._flying.clear()
        self._read = offset
        self._weights = deque(each for each in self._weights if each[0] <= offset)

    def on_unsent(self, rows: bytes, after: int, why: Exception) -> None:
        """The link does not take the last request: send its messages one by one, or give one up."""
        if not self._flying or self._flying[-1].rows is not rows:
            return
        unsent = self._flying.pop()
        self._after, self._read = after, unsent.first - 1
        self._weights = deque(each for each in self._weights if each[0] <= self._read)
        if self._flying:
            # Those in front of it are answered first.
            self._alone_to = max(self._alone_to, unsent.last)
        else:
            self._judge_refusal(0.0, unsent, "TOO_LONG", str(why))

    def handle_timeout(self, now: float) -> None:
        """Time has passed."""
        if self._retry_at is not None and now >= self._retry_at:
            self._retry_at = None

    # --- output ---

    def poll_send(self, now: float = 0.0) -> dict[str, Any] | None:
        """The next request, if one is to be sent now."""
        if self.stopped is not None or self._retry_at is not None or self._holes_due:
            return None
        request = {
            "op": "forward",
            "publisher": self.publisher,
            "chain": self.chain,
            "key": self._log.incarnation,
        }
        if self._probe == "asked":
            return None
        if self._probe == "due":
            self._probe = "asked"
            probe = {"first": 1, "last": 1, "upstream": self._keeper.upstream}
            return request | probe | {"passed": self.rule.release == "passed"}
        # A single message is judged by itself, when everything before it is stored.
        if self._flying and (self._read < self._alone_to or self._window >= WINDOW_BYTES):
            return None
        portion = self._take()
        if portion is None:
            return None
        after, self._after = self._after, portion.last
        self._flying.append(portion)
        request |= {"first": portion.first, "last": portion.last, "after": after, "rows": portion.rows}
        request["since"] = now if self._clock is None else self._clock()
        request["publish"] = self.rule.publish
        if runs := self._runs(portion.rows):
            request["runs"] = runs
        return request

    @property
    def _window(self) -> int:
        return sum(len(portion.rows) for portion in self._flying)

    def _take(self) -> Portion | None:
        """The next messages, if some are durable; passes those by that expired."""
        end = self._log.durable_end
        while self._read < end:
            start = self._read
            is_alone = start < self._alone_to
            rows_max = 1 if is_alone else self._rows_together
            rows, self._read, count, messages, size = forward_rows(
                self._log, start, end, self.rule.patterns, rows_max, BYTES_TOGETHER, self._log.clock_us
            )
            if messages:
                self._weights.append((self._read, messages, size))
            if count:
                return Portion(start + 1, self._read, rows, is_alone)
            self._pass_by()
        return None

    def _runs(self, rows: bytes) -> list[list[Any]]:
        """Where runs begin of publishers that changed stores."""
        chains = {(publisher, chain) for publisher, chain, _, _ in check_forwarded(rows)[1]}
        uneven = [(each, self._keeper.uneven(each)) for each in sorted(chains)]
        return [[*each, [at for run in runs for at in run]] for each, runs in uneven if runs]
