"""What clients of a store did and were told, and whether that can be true, in the manner of Jepsen.

The history knows nothing of the store: only what its clients sent, what they were told, what they received.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(slots=True)
class Sent:
    """A message that was sent."""

    topic: str
    #: The transaction it was part of.
    commit: str | None = None
    stored: bool = False


@dataclass(slots=True)
class Delivery:
    """A message that was received."""

    order: int
    offset: int
    marked: bool
    #: Which life of which client.
    to: tuple[str, int]


@dataclass(slots=True)
class Commit:
    """A transaction."""

    reader: str
    offsets: list[int]
    outcome: str = "unknown"
    #: When the client knew.
    order: int = 0


#: A reader and an offset.
Place = tuple[str, int]


@dataclass
class Marks:
    """Which messages may say that a program received them before, and how often.

    A message may be marked if a program received it; or if it was granted to a consumer that has neither said
    what it handed over nor said goodbye; or if it was given out marked before. It is counted no higher than
    programs received it.
    """

    received: dict[Place, int] = field(default_factory=lambda: defaultdict(int))
    #: Consumers that a message was granted to.
    granted: dict[Place, set[str]] = field(default_factory=lambda: defaultdict(set))
    #: Consumers that said what they handed over.
    heard_of: set[str] = field(default_factory=set)
    #: Messages that were given out marked.
    marked: set[Place] = field(default_factory=set)
    #: How many marked messages no program had received.
    needless: int = 0

    def mark(self, reader: str, offset: int, to: str | None = None) -> bool:
        """The store marks a message as one that a program may have received: whether that can be so.

        In the store's log, marks and grants lie over offsets of others, too: there it need not be so.
        """
        place = (reader, offset)
        may_be = bool(
            self.received[place] or place in self.marked or self.granted[place] - self.heard_of - {to}
        )
        if may_be:
            self.marked.add(place)
        return may_be

    def given(self, reader: str, offset: int, to: str, count: int) -> None:
        """The store gives a message to a consumer and says which delivery it is; 0 if it does not know."""
        place = (reader, offset)
        received = self.received[place]
        if count > received + 1:
            raise AssertionError(f"{reader} gives {offset} as delivery {count}, and {received} were received")
        if count != 1 and not received:
            self.needless += 1
            if not self.mark(reader, offset, to):
                raise AssertionError(f"{reader} marks {offset} for {to}, and no program can have it")
        self.granted[place].add(to)


@dataclass
class History:
    """Everything that clients know. In the order in which it happened."""

    messages: dict[str, Sent] = field(default_factory=dict)
    #: By reader and message.
    deliveries: dict[tuple[str, str], list[Delivery]] = field(default_factory=lambda: defaultdict(list))
    #: When a client was told that its acknowledgement is durable, by reader and offset.
    acks: dict[tuple[str, int], int] = field(default_factory=dict)
    commits: dict[str, Commit] = field(default_factory=dict)
    #: Which message was seen at an offset.
    offsets: dict[int, str] = field(default_factory=dict)
    marks: Marks = field(default_factory=lambda: Marks())
    order: int = 0

    def _next(self) -> int:
        self.order += 1
        return self.order

    def sent(self, publisher: int, number: int, topic: str, commit: str | None = None) -> None:
        """A client sent a message."""
        self.messages[f"{publisher}-{number}"] = Sent(topic, commit)

    def stored(self, publisher: int, number: int) -> None:
        """A client was told that a message is stored."""
        self.messages[f"{publisher}-{number}"].stored = True

    def setting_out(self) -> int:
        """Something leaves the store now: its place in the order of everything."""
        return self._next()

    def delivered(
        self,
        reader: str,
        offset: int,
        message: str,
        marked: bool,
        to: tuple[str, int],
        order: int | None = None,
    ) -> None:
        """A client received a message, which set out when `order` says."""
        if message not in self.messages:
            raise AssertionError(f"{reader} received {message!r}, which nobody sent")
        self.marks.received[reader, offset] += 1
        known = self.offsets.setdefault(offset, message)
        if known != message:
            raise AssertionError(f"offset {offset} was {known}, and is {message} now")
        self.deliveries[reader, message].append(Delivery(order or self._next(), offset, marked, to))

    def acknowledged(self, reader: str, offsets: list[int]) -> None:
        """A client was told that its acknowledgement is durable."""
        for offset in offsets:
            self.acks[reader, offset] = self._next()

    def committing(self, id_: str, reader: str, offsets: list[int]) -> None:
        """A client asks for a commit."""
        self.commits[id_] = Commit(reader, offsets)

    def committed(self, id_: str) -> None:
        """A client was told that its commit is durable."""
        commit = self.commits[id_]
        commit.outcome, commit.order = "done", self._next()
        for sent in self.messages.values():
            sent.stored = sent.stored or sent.commit == id_

    def rolled_back(self, id_: str) -> None:
        """A client was told that nothing of its commit was done."""
        self.commits[id_].outcome = "nothing"


def _wants(reader: str, sent: Sent) -> bool:
    if sent.topic.startswith("_queue/"):
        return sent.topic == f"_queue/{reader}"
    if reader == "live":
        # What others publish reaches it without the store.
        return sent.commit is not None
    return {"desk": sent.topic.startswith("t/"), "night": sent.topic == "t/1"}.get(reader, False)


def check(history: History, readers: tuple[str, ...] = ("orders", "work", "desk", "night", "live")) -> None:
    """Raise what cannot be true.

    Every stored message reached each durable subscription that wants it, and one receiver of its queue, and
    what was committed the live subscriber, whom the store publishes it to; what came more than once says so,
    and nothing comes after its acknowledgement was durable; each reader has one offset per message, and a
    subscription's messages of one publisher are in order; transactions are whole.
    """
    for reader in readers:
        _check_reader(history, reader)
    _check_commits(history, readers)


def _check_reader(history: History, reader: str) -> None:
    last: dict[str, int] = {}
    firsts: list[tuple[int, int, str]] = []
    for message, sent in history.messages.items():
        deliveries = sorted(history.deliveries.get((reader, message), []), key=lambda each: each.order)
        if deliveries and not _wants(reader, sent):
            raise AssertionError(f"{reader} received {message} of {sent.topic}")
        if sent.stored and _wants(reader, sent) and not deliveries:
            raise AssertionError(f"{reader} never received {message}, which was stored")
        if len({each.offset for each in deliveries}) > 1:
            raise AssertionError(f"{reader} received {message} at several offsets: it is stored twice")
        for each in deliveries[1:]:
            if not each.marked:
                # Only the first that set out may say nothing; the one to hear it last is not to blame.
                raise AssertionError(f"{reader} received {message} again, and it does not say so")
        if deliveries:
            done = history.acks.get((reader, deliveries[0].offset))
            if done is not None and deliveries[-1].order > done:
                raise AssertionError(f"{reader} received {message} after it was acknowledged")
            firsts.append((deliveries[0].order, deliveries[0].offset, message))
    if reader not in ("desk", "night", "live"):
        return
    for _, _, message in sorted(firsts):
        publisher, number = message.rsplit("-", 1)
        if int(number) < last.get(publisher, 0):
            raise AssertionError(f"{reader} received {message} after {last[publisher]} of {publisher}")
        last[publisher] = int(number)


def _check_commits(history: History, readers: tuple[str, ...]) -> None:
    """Transactions are whole, also those of which no client knows the outcome.

    If a receiver sees a message that a transaction sent, the transaction is done. Then what it acknowledged
    never sets out again, and no other transaction that acknowledges the same is done.
    """
    done_by: dict[tuple[str, int], str] = {}
    for id_, commit in history.commits.items():
        seen = [
            [each.order for reader in readers for each in history.deliveries.get((reader, message), [])]
            for message, sent in history.messages.items()
            if sent.commit == id_
        ]
        if any(seen) and not all(seen):
            raise AssertionError(f"the transaction {id_} is there in part")
        if commit.outcome == "done" and not all(seen):
            raise AssertionError(f"the transaction {id_} was committed, and its messages are missing")
        if commit.outcome == "nothing" and any(seen):
            raise AssertionError(f"the transaction {id_} was rolled back, and its messages are there")
        orders = [order for each in seen for order in each]
        if commit.outcome == "done":
            orders.append(commit.order)
        if orders:
            _check_inputs(history, id_, commit, min(orders), done_by)


def _check_inputs(
    history: History, id_: str, commit: Commit, order: int, done_by: dict[tuple[str, int], str]
) -> None:
    for offset in commit.offsets:
        other = done_by.setdefault((commit.reader, offset), id_)
        if other != id_:
            raise AssertionError(f"{other} and {id_} acknowledge offset {offset}, and both are done")
        message = history.offsets.get(offset, "")
        if any(each.order > order for each in history.deliveries.get((commit.reader, message), [])):
            raise AssertionError(f"{message} came again after {id_}, which acknowledged it")
