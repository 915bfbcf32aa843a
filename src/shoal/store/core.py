"""What the parts of the store's machine share: the log, the turn under way, and what goes out."""

from collections.abc import Callable
from typing import Any, NamedTuple

from shoal._core import Log, Turn
from shoal.bus.store_protocol import keeps, queue_name
from shoal.store.requests import RequestError
from shoal.store.rules import Rules

#: Destinations of which it is remembered whether they are kept.
OWNED_MAX = 100_000

#: Keys of the log that name queues whose messages came past the machine and are not journalled as come yet.
COUNTING = "counting/"

#: A consumer with credit again so soon after a delivery is granted messages ahead, and waits for no sync.
AHEAD_WITHIN_S = 0.1

#: What is done once it is known whether the rows of a turn were taken: the reason if they were not.
After = Callable[[str | None], None]


class Now(NamedTuple):
    """The time: by a clock that never jumps, for leases, and by the wall's, for messages."""

    mono_s: float
    wall_us: int


class Core:
    """The turn under way. For one thread at a time."""

    def __init__(
        self, log: Log, patterns: tuple[str, ...], queue_window: int, rules: Rules | None = None
    ) -> None:
        self.log = log
        #: Who may do what.
        self.rules = rules or Rules()
        #: Destinations that the store keeps.
        self.patterns = patterns
        self._owned: dict[str, bool] = {}
        #: Messages of a queue that are ready in memory, at the most.
        self.queue_window = queue_window
        #: How soon after a delivery a consumer has credit again that is granted messages ahead.
        self.ahead_within_s = AHEAD_WITHIN_S
        self.turn = Turn()
        #: Turns that were appended, and those of them that are durable.
        self.turns = self.durable_turns = 0
        self.now = Now(0.0, 0)
        #: Session and body, once everything appended so far is durable.
        self._held: list[tuple[str, dict[str, Any]]] = []
        self._outgoing: list[tuple[str, dict[str, Any]]] = []
        self._after: list[tuple[After, bool]] = []
        #: Destinations that got rows in this turn.
        self.touched: set[str] = set()
        #: Messages and bytes that the turn under way adds to queues and subscriptions, by their keys.
        self.adding: dict[str, tuple[int, int]] = {}
        #: Rows of the turn under way with messages for readers that consumers wait for, by the readers' keys:
        #: the first, the one after the last, and how many of them are the reader's.
        self.coming: dict[str, tuple[int, int, int]] = {}
        #: Acknowledgements leave so many gaps that only the oldest messages are given out.
        self.is_scattered = False
        #: Messages and bytes that room was taken for, and that come into the log past the machine, likewise.
        self.expected: dict[str, tuple[int, int]] = {}
        #: The last lease that a consumer was given. Leases of an earlier run are lower.
        self.lease = 0
        #: Why the store takes no messages now, if it does not.
        self.full: str | None = None

    def check_owned(self, destination: str) -> None:
        """Refuse what another store keeps."""
        found = self._owned.get(destination)
        if found is None:
            if len(self._owned) >= OWNED_MAX:
                self._owned.clear()
            found = self._owned[destination] = keeps(self.patterns, destination)
        if not found:
            raise RequestError(
                "NOT_OWNED",
                f"this store does not keep {queue_name(destination) or destination}, only "
                f"{', '.join(self.patterns)}: a connection that names no store finds the store that does",
                destination=destination,
            )

    def say(self, session: str, body: dict[str, Any]) -> None:
        """Tell a session something, once this turn is durable."""
        self._held.append((session, body))

    def answer(self, session: str, n: int, **fields: Any) -> None:
        """Answer a request, once this turn is durable, if an answer is wanted."""
        if n:
            self.say(session, {"op": "answer", "n": n, **fields})

    def add_to(self, key: str, messages: int, size: int) -> None:
        """This turn has messages for a queue or a subscription, which the log does not have yet."""
        before = self.adding.get(key, (0, 0))
        self.adding[key] = (before[0] + messages, before[1] + size)

    def come(self, key: str, first: int, end: int, messages: int) -> None:
        """This turn has messages for a reader among these rows."""
        start, _, before = self.coming.get(key, (first, first, 0))
        self.coming[key] = (start, end, before + messages)

    def expect(self, key: str, messages: int, size: int) -> None:
        """Room is taken for messages that come past the machine; less than none gives it back."""
        before = self.expected.pop(key, (0, 0))
        after = (before[0] + messages, before[1] + size)
        if after > (0, 0):
            self.expected[key] = after

    def after_rows(self, call: After, *, with_rows: bool = True) -> None:
        """Call this when the turn is appended, with why its rows were not taken, if it has some of them."""
        self._after.append((call, with_rows))

    def appended(self, refused: str | None) -> None:
        """The turn is appended, its rows perhaps not."""
        after, self._after = self._after, []
        for call, with_rows in after:
            call(refused if with_rows else None)

    def settle(self) -> None:
        """Everything that was appended is durable."""
        self._outgoing += self._held
        self._held = []
        self.adding.clear()

    @property
    def has_held(self) -> bool:
        """Whether somebody waits for this turn to be durable."""
        return bool(self._held)

    def send_now(self, session: str, body: dict[str, Any]) -> None:
        """Tell a session something that needs nothing to be durable."""
        self._outgoing.append((session, body))

    def take_outgoing(self) -> list[tuple[str, dict[str, Any]]]:
        """What goes out, in order."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing
