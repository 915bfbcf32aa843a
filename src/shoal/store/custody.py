"""Messages that other stores forward here: each is taken once, whoever sent it before.

Requests of a rule are numbered with the offsets of the store that forwards: its *transport chain*. So sending
again is harmless, and one number says where to go on. The messages keep the identity that their publisher
gave them. A message that a publisher sent here itself, because its former store did not answer, is known
by that identity, and left out.
"""

import json
from collections import deque
from collections.abc import Callable

from shoal._core import check_forwarded, sift_forwarded
from shoal.bus.store_protocol import COMMIT_BYTES_MAX, queue_name
from shoal.errors import StoreRefusedError
from shoal.store.core import Core
from shoal.store.forwards import Forwards
from shoal.store.numbers import Chain, Numbers, Run
from shoal.store.reader import Session
from shoal.store.readers import Readers
from shoal.store.requests import Request, RequestError
from shoal.store.sending import RECORD_BYTES_MAX, Sending, rows_of

#: Stores from which messages may come; rules are checked for circles among them.
UPSTREAM_MAX = 1000
#: Requests of one rule that wait to be passed on one by one; those behind them count together.
UNPASSED_MAX = 1000

_UPSTREAM = "upstream"


class Custody:
    """What other stores forward here. For one thread at a time."""

    def __init__(
        self,
        core: Core,
        readers: Readers,
        sending: Sending,
        numbers: Numbers,
        forwards: Forwards,
        *,
        is_secured: bool,
    ) -> None:
        self._core, self._readers, self._sending = core, readers, sending
        self._numbers, self._forwards, self._is_secured = numbers, forwards, is_secured
        self._own = f"{core.log.store_id:016x}"
        #: Stores whose messages come here, directly or through others.
        self._upstream: set[str] = set(json.loads(core.log.get(_UPSTREAM) or b"[]"))
        #: Rules of other stores that get messages of this one: transport chains.
        self._circular: set[Chain] = set()
        #: Sessions that are told how far messages were passed on: by transport chain, the session.
        self._told: dict[Chain, str] = {}
        #: By transport chain: its number, and the offset here that has to be passed before it counts.
        self._unpassed: dict[Chain, deque[tuple[int, int]]] = {}

    @property
    def is_fed(self) -> bool:
        """Whether other stores forward messages here: what a publisher lacks here may be on its way."""
        return bool(self._upstream)

    @property
    def upstream(self) -> list[str]:
        """The stores that a message here may have come through, with this one."""
        return sorted({self._own, *self._upstream})

    def forward(self, session: Session, request: Request, n: int) -> None:
        """Messages of a rule: all of a request, or none of it. One without messages asks where to go on."""
        core, sending = self._core, self._sending
        publisher, number = (
            request.number("publisher", 1, (1 << 64) - 1),
            request.number("chain", 0, (1 << 32) - 1),
        )
        first, last = request.number("first", 1), request.number("last", 1)
        chain, mark = (publisher, number), sending.mark_of(publisher, number)
        try:
            if self._is_secured and not session.owner.may_forward:
                raise RequestError(
                    "DENIED", "This token may not forward: give the store one with the role 'store'."
                )
            owner = sending.publishers.check(session, request, publisher, number)
            if not request.has("rows"):
                self._meet(session, request, chain, mark)
                return
            take = self._check(session, request, chain, mark, first, last)
        except RequestError as error:
            refusal = RequestError(error.code, error.text, **{"first": first, "last": last, **error.more})
            core.after_rows(lambda _: sending.refuse(session, publisher, number, refusal), with_rows=False)
            return
        if take is not None:
            take()
            core.turn.chain(publisher, number, last, core.now.wall_us, True, owner)
            sending.publishers.begin(publisher, number, owner)
            sending.set_mark(chain, last)

        def done(refused: str | None) -> None:
            stored = core.log.chain(publisher, number)
            if refused is not None and last > stored:
                error = RequestError("FULL", refused, first=first, last=last)
                sending.refuse(session, publisher, number, error)
                return
            self._say(session.id, "stored", chain, stored)
            if self._told.get(chain) == session.id:
                waiting = self._unpassed.setdefault(chain, deque())
                if len(waiting) >= UNPASSED_MAX:
                    waiting.pop()
                waiting.append((last, core.log.end))
                self.tell_passed()

        core.after_rows(done)

    def _say(self, session: str, op: str, chain: Chain, through: int) -> None:
        body = {"op": op, "publisher": chain[0], "chain": chain[1], "through": through}
        self._core.say(session, body)

    def _meet(self, session: Session, request: Request, chain: Chain, mark: int) -> None:
        """A store begins to forward: it is told where to go on."""
        core = self._core
        upstream = set(request.texts("upstream"))
        (self._circular.add if self._own in upstream else self._circular.discard)(chain)
        new = upstream - self._upstream - {self._own}
        if new and len(self._upstream) + len(new) <= UPSTREAM_MAX:
            self._upstream |= new
            core.turn.put(_UPSTREAM, json.dumps(sorted(self._upstream)).encode())
        if request.flag("passed"):
            self._told[chain] = session.id
            self._unpassed[chain] = deque([(mark, core.log.end)])
        core.after_rows(
            lambda _: self._say(session.id, "stored", chain, core.log.chain(*chain)), with_rows=False
        )
        core.after_rows(lambda _: self.tell_passed(), with_rows=False)

    def _check(
        self, session: Session, request: Request, chain: Chain, mark: int, first: int, last: int
    ) -> Callable[[], None] | None:
        """What takes the messages, or none if all of them are known; refuses what cannot be taken."""
        after = request.number("after", default=0)
        if last <= mark:
            return None
        if first <= mark or after > mark:
            text = f"messages up to {after} were forwarded before, and only those up to {mark} are stored"
            raise RequestError("HOLE", text)
        rows = rows_of(session, request)
        try:
            longest, runs = check_forwarded(rows)
        except StoreRefusedError as error:
            raise RequestError("BAD_ROWS", str(error)) from None
        if longest > RECORD_BYTES_MAX or len(rows) > max(COMMIT_BYTES_MAX, longest + 65_536):
            raise RequestError("TOO_LONG", f"{len(rows)} bytes at once are too long")
        chains = {(publisher, number) for publisher, number, _, _ in runs}
        known = [(*each, self._numbers.known(each, self._sending.mark_of(*each))) for each in sorted(chains)]
        new, count, destinations = sift_forwarded(rows, known)
        if len(new) != len(rows) and chain in self._circular:
            self._check_circle(rows, destinations)
        self._sending.admit(session, new, destinations)
        begins = _begins(request)

        def take() -> None:
            for publisher, number, low, high in runs:
                self._sending.cover((publisher, number), _begin(begins, (publisher, number), low), high)
                self._sending.raise_mark((publisher, number), high)
            if count:
                self._sending.take_forwarded(new, destinations, publish=request.flag("publish"))

        return take

    def _check_circle(self, rows: bytes, taken: list[tuple[str, int, int]]) -> None:
        """Refuse messages of a queue that this store forwarded itself, and that come back to it."""
        new = {destination: messages for destination, messages, _ in taken}
        _, _, sent = sift_forwarded(rows, [])
        for destination, messages, _ in sent:
            is_back = messages > new.get(destination, 0) and self._readers.is_forwarded(destination)
            # A topic that comes back is at both stores; a queue's message would be at none.
            if is_back and queue_name(destination) is not None:
                raise RequestError(
                    "LOOP",
                    f"messages of the queue {queue_name(destination)!r} come back to the store that "
                    "forwarded them: the rules lead in a circle",
                    destination=destination,
                )

    def tell_passed(self) -> None:
        """Tell stores that want to know how far this one has passed their messages on."""
        pin = self._forwards.pin
        for chain, waiting in self._unpassed.items():
            through = None
            while waiting and (pin is None or waiting[0][1] <= pin):
                through = waiting.popleft()[0]
            if through is not None:
                self._say(self._told[chain], "passed", chain, through)

    def status(self) -> list[str]:
        """The stores whose messages come here."""
        return sorted(self._upstream)


def _begins(request: Request) -> dict[Chain, list[Run]]:
    """Where runs of publishers begin that changed stores, as the store that forwards says."""
    found: dict[Chain, list[Run]] = {}
    for each in request.items("runs"):
        if not isinstance(each, list) or len(each) != 3 or not isinstance(each[2], list):
            raise RequestError("BAD_REQUEST", "runs has entries that are not [publisher, chain, runs]")
        publisher, chain, flat = each
        numbers = [publisher, chain, *flat]
        if len(flat) % 2 or any(not isinstance(at, int) or at < 0 for at in numbers):
            raise RequestError("BAD_REQUEST", "runs has entries that are not numbers in pairs")
        found[publisher, chain] = list(zip(flat[::2], flat[1::2], strict=True))
    return found


def _begin(begins: dict[Chain, list[Run]], chain: Chain, number: int) -> int:
    """After which number the run begins that a number is in."""
    found = [after for after, last in begins.get(chain, ()) if after < number <= last]
    return found[0] if found else number - 1 if chain in begins else 0
