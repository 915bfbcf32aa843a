"""Messages on their way into the store: sends and transactions."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from shoal._core import Hearing, age_rows, check_rows
from shoal.bus.log_limit import LOG_EVERY_S
from shoal.bus.store_protocol import BATCH_BYTES_MAX, COMMIT_BYTES_MAX, QUEUES, TEMPORARY, queue_name
from shoal.errors import StoreRefusedError
from shoal.messages import store as notices
from shoal.store.commits import Commits, owner_of
from shoal.store.consumer import Consumer
from shoal.store.core import After, Core
from shoal.store.credit import Credit
from shoal.store.numbers import Numbers
from shoal.store.publishers import Publishers
from shoal.store.reader import Reader, Session
from shoal.store.readers import Readers, queue_key
from shoal.store.requests import Request, RequestError, Runs, runs_of
from shoal.store.retained import Values

log = logging.getLogger("shoal.store")

#: A record is no longer.
RECORD_BYTES_MAX = 128 << 20


class Sending:
    """What comes in. For one thread at a time."""

    def __init__(
        self,
        core: Core,
        readers: Readers,
        commits: Commits,
        credit: Credit,
        values: Values,
        numbers: Numbers,
        recorded: tuple[str, ...] = (),
    ) -> None:
        self._core = core
        self._numbers = numbers
        #: Whether other stores forward messages here.
        self.is_fed: Callable[[], bool] = lambda: False
        self._credit = credit
        self._readers = readers
        self._commits = commits
        self._values = values
        self._hearing = Hearing(recorded)
        #: Messages that were heard, and for which there was no room.
        self.unheard = 0
        #: Of chains in this turn: how far they will be stored.
        self._marks: dict[tuple[int, int], int] = {}
        self.publishers = Publishers(core)
        #: Ids of transactions in this turn that have rows.
        self._committing: set[str] = set()
        #: Whose destinations are refused because they pin space, and why.
        self.pinned: tuple[str, str] | None = None

    def begin_turn(self) -> None:
        """Marks of the last turn are in the log, or were refused."""
        self._marks.clear()
        self.publishers.begin_turn()
        self._committing.clear()

    def mark_of(self, publisher: int, chain: int) -> int:
        """The highest number that is stored of a chain, or will be with this turn."""
        found = self._marks.get((publisher, chain))
        return self._core.log.chain(publisher, chain) if found is None else found

    def set_mark(self, chain: tuple[int, int], number: int) -> None:
        """A chain will be stored up to a number with this turn."""
        self._marks[chain] = number

    # Requests.

    def send(self, session: Session, request: Request, n: int) -> None:
        """Rows of one chain.

        Requests of a chain are answered in their order, once the log has the rows of the turn or refused
        them: an answer counts on those before it.
        """
        publisher, chain, after = _chain(request)
        rows = rows_of(session, request)
        mark = self.mark_of(publisher, chain)
        elsewhere = request.number("elsewhere", default=0)
        core = self._core
        try:
            owner = self.publishers.check(session, request, publisher, chain)
            first, last, new, destinations = self._check(
                session,
                rows,
                publisher,
                chain,
                min(after, mark) if after <= elsewhere else after,
                mark,
                live=request.flag("live"),
            )
        except RequestError as error:
            # Nothing of what was sent behind it is taken either.
            refusal = error
            core.after_rows(lambda _: self.refuse(session, publisher, chain, refusal), with_rows=False)
            return
        if publisher not in session.publishers:
            # An outbox has an identity of its own, and is as local as its connection.
            session.publishers.append(publisher)
            self._readers.leave_out(session, publisher)
        if new:
            self.cover((publisher, chain), max(mark, elsewhere), last)
            self._take(session, rows, (publisher, chain), owner, mark, last, destinations)
        session.chains.add((publisher, chain))

        def done(refused: str | None) -> None:
            stored = core.log.chain(publisher, chain)
            if refused is None or last <= stored:
                body = {"op": "stored", "publisher": publisher, "chain": chain}
                core.say(session.id, {**body, "through": min(stored, max(last, mark))})
            else:
                error = RequestError("FULL", refused, first=first, last=last)
                self.refuse(session, publisher, chain, error)

        core.after_rows(done)

    def refuse(self, session: Session, publisher: int, chain: int, error: RequestError) -> None:
        """Say that the store took nothing of a request, and up to where it has the chain."""
        body = {"op": "refused", "publisher": publisher, "chain": chain, "error": error.code}
        mark = self._core.log.chain(publisher, chain)
        self._core.say(session.id, {**body, "text": error.text, "mark": mark, **error.more})

    def _check(
        self,
        session: Session,
        rows: bytes,
        publisher: int,
        chain: int,
        after: int,
        mark: int,
        most: int = 0,
        live: bool = False,
    ) -> tuple[int, int, int, list[tuple[str, int, int]]]:
        """First and last number, how many are new, and where they go; refuses what cannot be taken.

        Rows that are `live` were published within the session's credit: for room they are not refused.
        """
        try:
            first, last, new, longest, destinations = check_rows(rows, publisher, chain, mark)
        except StoreRefusedError as error:
            raise RequestError("BAD_ROWS", str(error)) from None
        more = {"first": first, "last": last}
        if after > mark:
            text = f"messages up to {after} were sent before, and only those up to {mark} are stored"
            raise RequestError("HOLE", text, **more, **({"awaits": True} if self.is_fed() else {}))
        if longest > RECORD_BYTES_MAX or len(rows) > max(most, BATCH_BYTES_MAX, longest + 65_536):
            text = f"{len(rows)} bytes at once are too long: send at most {most or BATCH_BYTES_MAX}"
            raise RequestError("TOO_LONG", text, **more)
        if not new:
            return first, last, 0, []
        lacking: RequestError | None = None
        if self._core.full is not None:
            lacking = RequestError("FULL", self._core.full, **more)
            if not live:
                raise lacking
        for destination, _, size in destinations:
            try:
                session.owner.check(self._core, "publish", destination)
                found = self._admit(destination, size, live)
            except RequestError as error:
                raise _about(error, destination, more) from None
            if found is not None and lacking is None:
                lacking = _about(found, destination, more)
        try:
            self._values.check(rows, mark)
        except RequestError as error:
            raise RequestError(error.code, error.text, **more) from None
        # Once, however much lacks room, and only for what is taken.
        if lacking is not None and not self._credit.overdraw(session, sum(size for *_, size in destinations)):
            raise lacking
        return first, last, new, destinations

    def _admit(self, destination: str, size: int, live: bool) -> RequestError | None:
        """Take room, or refuse; why there is none for rows that are `live`."""
        self.check_destination(destination)
        lacking: RequestError | None = None
        for reader in self._readers.concerned(destination):
            try:
                self._admit_for(reader, size)
            except RequestError as error:
                if not live:
                    raise
                lacking = lacking or error
        return lacking

    def check_destination(self, destination: str) -> None:
        """Refuse what no client may send here; a queue comes into being."""
        if self._readers.is_forwarded(destination):
            return
        self._core.check_owned(destination)
        name = queue_name(destination)
        if name is not None:
            self._readers.queue(name)
        elif destination.startswith("_") and not destination.startswith(TEMPORARY):
            raise RequestError("BAD_REQUEST", f"{destination} is a reserved topic")

    def expect(self, sizes: Mapping[str, tuple[int, int]]) -> bool:
        """Rows are about to come past the machine: take room for them, or refuse them.

        Returns whether a queue came into being, which has to begin in the log before its rows.
        """
        core = self._core
        if sizes and self._core.full is not None:
            raise RequestError("FULL", self._core.full)
        is_new = False
        for destination in sizes:
            # The queue that the rows were staged for may have been deleted since, or have expired.
            is_new |= not self._readers.wanting(destination) and queue_name(destination) is not None
            self.check_destination(destination)
        for destination, (_, size) in sizes.items():
            for reader in self._readers.concerned(destination):
                self._admit_for(reader, size)
        for destination, (messages, size) in sizes.items():
            for reader in self._readers.concerned(destination):
                reader.idle_since_s = core.now.mono_s
                reader.totals.messages += messages
                reader.totals.bytes += size
                core.expect(reader.key, messages, size)
        return is_new

    def came(self, destination: str, messages: int, size: int, expected: tuple[int, int], end: int) -> None:
        """Rows of a destination came past the machine, up to an offset; room was taken for the expected."""
        core = self._core
        for reader in self._readers.concerned(destination):
            if reader.shape.forward and messages:
                core.turn.came(reader.key, messages, size)
            if reader.key in core.expected:
                core.expect(reader.key, -expected[0], -expected[1])
                reader.totals.messages -= expected[0]
                reader.totals.bytes -= expected[1]
            if reader.measured_to < end:
                reader.totals.messages += messages
                reader.totals.bytes += size
        core.touched.add(destination)
        name = queue_name(destination)
        if name is not None and messages and self._readers.get(queue_key(name)) is not None:
            core.turn.came(queue_key(name), messages, size)

    def _admit_for(self, reader: Reader, size: int) -> None:
        if self.pinned is not None and reader.key == self.pinned[0]:
            raise RequestError("FULL", self.pinned[1])
        if reader.has_room(self._core, size):
            return
        if reader.options.on_full == "refuse":
            most = reader.options.backlog_max_bytes
            raise RequestError(
                "BACKLOG",
                f"{reader.name} has {reader.totals.bytes} bytes not acknowledged and may have {most}: "
                f"there is no room for {size} more",
            )
        dropped = reader.drop_oldest(self._core, size)
        if dropped:
            self._log_dropped(reader, dropped)
            reader.tell_dropped(self._core)

    def _log_dropped(self, reader: Reader, dropped: int) -> None:
        """Log it, of each reader now and then: one that stays full drops with every message."""
        now_s = self._core.now.mono_s
        reader.unlogged += dropped
        if now_s >= reader.log_at_s:
            notices.BACKLOG_FULL(name=reader.name, messages=reader.unlogged).log(log)
            reader.unlogged, reader.log_at_s = 0, now_s + LOG_EVERY_S

    def _take(
        self,
        session: Session,
        rows: bytes,
        chain: tuple[int, int],
        owner: int,
        mark: int,
        last: int,
        destinations: list[tuple[str, int, int]],
        publish: bool = False,
    ) -> None:
        core = self._core
        first = core.turn.rows
        core.turn.push_rows(rows, mark, QUEUES if publish else None)
        self._values.take(rows, mark)
        core.turn.chain(*chain, last, core.now.wall_us, session.kept, owner)
        self.publishers.begin(*chain, owner)
        self._marks[chain] = last
        self._count(destinations, first, self._readers.concerned)

    # What other stores forward.

    def admit(self, session: Session, rows: bytes, destinations: list[tuple[str, int, int]]) -> None:
        """Take room for messages of any publishers, or refuse them."""
        if destinations and self._core.full is not None:
            raise RequestError("FULL", self._core.full)
        for destination, _, size in destinations:
            try:
                session.owner.check(self._core, "publish", destination)
                self._admit(destination, size, live=False)
            except RequestError as error:
                raise _about(error, destination, {}) from None
        self._values.check(rows, 0)

    def cover(self, chain: tuple[int, int], after: int, last: int) -> None:
        """Rows of this turn cover the numbers of a chain from after one up to and with another."""
        mark = self.mark_of(*chain)
        if after > mark or self._numbers.uneven(chain) is not None:
            self._numbers.add(chain, mark, after, last)

    def raise_mark(self, chain: tuple[int, int], number: int) -> None:
        """A message of a chain that another store forwards has this number."""
        if number > self.mark_of(*chain):
            self._core.turn.chain(*chain, number, self._core.now.wall_us, False)
            self._marks[chain] = number

    def take_forwarded(
        self,
        rows: bytes,
        destinations: list[tuple[str, int, int]],
        *,
        publish: bool,
    ) -> None:
        """Take messages of any publishers, which were admitted."""
        core = self._core
        first = core.turn.rows
        core.turn.push_forwarded(rows, QUEUES if publish else None)
        self._values.take(rows, 0)
        self._count(destinations, first, self._readers.concerned)

    def _count(
        self,
        destinations: list[tuple[str, int, int]],
        first: int,
        readers_of: Callable[[str], list[Reader]],
    ) -> None:
        core = self._core
        end = core.turn.rows
        for destination, messages, size in destinations:
            core.touched.add(destination)
            name = queue_name(destination)
            for reader in readers_of(destination):
                if reader.shape.forward:
                    core.turn.came(reader.key, messages, size)
                elif name is not None:
                    # Whoever sends uses it.
                    reader.idle_since_s = core.now.mono_s
                    if reader.shape.durable:
                        core.turn.came(queue_key(name), messages, size)
                # Before it is appended, so that the next one in this turn finds it counted.
                reader.totals.messages += messages
                reader.totals.bytes += size
                core.add_to(reader.key, messages, size)
                core.after_rows(_uncount(reader, messages, size))
                if reader.consumers:
                    core.come(reader.key, first, end, messages)

    def hear(self, rows: bytes) -> None:
        """Messages that are not persistent, and nobody sent here: for subscriptions, if there is room."""
        core = self._core
        rows, destinations, chains = self._hearing.sift(core.log, rows)
        taken: list[tuple[str, int, int]] = []
        refused: list[str] = []
        for each in destinations:
            try:
                if core.full is not None:
                    raise RequestError("FULL", core.full)
                for reader in self._readers.wanting(each[0]):
                    self._admit_for(reader, each[2])
                taken.append(each)
            except RequestError:
                refused.append(each[0])
                self.unheard += each[1]
        if not taken:
            return
        first = core.turn.rows
        core.turn.push_heard(rows, refused)
        for publisher, chain, number in chains:
            core.turn.chain(publisher, chain, number, core.now.wall_us, False)
        self._count(taken, first, self._readers.wanting)
        core.after_rows(self._unhear(sum(messages for _, messages, _ in taken)))

    def _unhear(self, messages: int) -> After:
        def after(refused: str | None) -> None:
            self.unheard += messages if refused is not None else 0

        return after

    def commit(self, session: Session, request: Request, n: int) -> None:
        """A transaction: rows and acknowledgements, all or none, in this step.

        What it acknowledges leaves the hold of its consumers now. So no other request of this turn can
        acknowledge it or give it back, and the end of a consumer does not deliver it again.
        """
        core = self._core
        id_, chain = request.text("id"), _chain(request)
        owner = self.publishers.check(session, request, *chain[:2])
        whose = owner_of(session.owner.principal, session.client_id)
        known = self._commits.find(id_, chain[:2], whose)
        if known is not None:
            repeated = known

            def tell(refused: str | None) -> None:
                if refused is not None:
                    self._fail_commit(session, n, refused)
                else:
                    core.answer(session.id, n, first=repeated.first, end=repeated.end, repeated=True)

            core.after_rows(tell, with_rows=id_ in self._committing)
            return
        acks = [self._ack(session, each) for each in request.items("acks")]
        rows = rows_of(session, request) if request.has("rows") else b""
        new = 0
        if rows:
            publisher, number, _ = chain
            mark = self.mark_of(publisher, number)
            # A chain has its next commit when the one before is answered, by a store that was restored since,
            # perhaps: nothing is on the way that this one could overtake.
            _first, last, new, destinations = self._check(
                session, rows, publisher, number, mark, mark, COMMIT_BYTES_MAX
            )
            if not new:
                raise RequestError("BAD_ROWS", f"messages up to {mark} of this chain are stored already")
        held = [
            reader.begin_commit(self._core, consumer, runs, bool(rows)) for reader, consumer, runs in acks
        ]
        named = request.flag("named")
        done = self._commits.add(id_, chain[:2], whose, new, named=named, with_rows=bool(rows))
        if rows:
            self._committing.add(id_)
            self.cover((publisher, number), max(mark, chain[2]), last)
            self._take(session, rows, (publisher, number), owner, mark, last, destinations, publish=True)

        def done_with(refused: str | None) -> None:
            for each in held:
                each.end(refused is None)
            if refused is not None:
                self._commits.drop(id_, chain[:2], whose)
                self._fail_commit(session, n, refused)
            else:
                core.answer(session.id, n, first=done.first, end=done.end, repeated=False)

        core.after_rows(done_with, with_rows=bool(rows))

    def _fail_commit(self, session: Session, n: int, why: str) -> None:
        body = {"op": "failed", "n": n, "request": "commit", "error": "FULL", "text": why}
        self._core.say(session.id, body)

    def _ack(self, session: Session, each: Any) -> tuple[Reader, Consumer, Runs]:
        if not isinstance(each, list) or len(each) != 3:
            raise RequestError("BAD_REQUEST", "acks has entries that are not [consumer, lease, offsets]")
        own, lease, offsets = each
        if not isinstance(own, int):
            raise RequestError("BAD_REQUEST", f"acks names the consumer {own!r:.100}, and must name a number")
        key, consumer = session.consumers.get(own, ("", None))
        reader = self._readers.get(key)
        if consumer is None or reader is None or consumer.lease != lease:
            raise RequestError("LEASE", f"the lease of consumer {own} is over: nothing was committed")
        runs = runs_of("offsets", offsets)
        if reader.backlog.has(consumer.number, runs) < sum(last - first + 1 for first, last in runs):
            text = f"consumer {own} does not have all it acknowledges: nothing was committed"
            raise RequestError("LEASE", text)
        return reader, consumer, runs


def _about(error: RequestError, destination: str, more: Mapping[str, Any]) -> RequestError:
    """A refusal of rows, which names the destination that it is about."""
    return RequestError(error.code, error.text, **{**more, "destination": destination, **error.more})


def _uncount(reader: Reader, messages: int, size: int) -> Any:
    def after(refused: str | None) -> None:
        if refused is not None:
            reader.totals.messages -= messages
            reader.totals.bytes -= size

    return after


def rows_of(session: Session, request: Request) -> bytes:
    """The rows of a request, as old as they are now: they waited at the client, and on their way here."""
    waited_s = request.number("waited_us", default=0) / 1e6
    return age_rows(request.data("rows"), waited_s + session.age_s)


def _chain(request: Request) -> tuple[int, int, int]:
    publisher = request.number("publisher", 1, (1 << 64) - 1)
    return publisher, request.number("chain", 0, (1 << 32) - 1), request.number("after", default=0)
