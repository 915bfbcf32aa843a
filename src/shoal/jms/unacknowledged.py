"""What a session delivered and did not acknowledge, and what becomes of it (section 6.2.10).

The lock of the connection guards it. It is not held while a store is asked.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal._core import Message as BusMessage
from shoal.bus.store_session import Body
from shoal.errors import JMSError, ShoalError
from shoal.jms.consumer import MessageConsumer
from shoal.jms.failures import translating
from shoal.jms.feeds import Entry, StoreFeed
from shoal.messages import jms as notices

if TYPE_CHECKING:
    from shoal.jms.gate import Gate

log = logging.getLogger("shoal.jms")

#: Acknowledgements that DUPS_OK_ACKNOWLEDGE saves up.
LAZY_MAX = 100

Delivered = tuple[MessageConsumer, Entry]


class Unacknowledged:
    """What one session has to acknowledge, or to deliver again."""

    def __init__(self, gate: "Gate", messages_max: int, made_room: Callable[[], None]) -> None:
        """`made_room` is called, under the lock, when fewer messages are unacknowledged."""
        self._gate = gate
        self._messages_max = messages_max
        self._tell_room = made_room
        #: In the order of delivery.
        self._entries: list[Delivered] = []
        #: Acknowledgements that are saved up.
        self._lazy: list[Delivered] = []
        #: Feeds of closed consumers whose messages can still be acknowledged.
        self._retired: list[StoreFeed] = []
        self._warned = False
        #: The last acknowledgement failed.
        self._is_refused = False

    # Under the lock.

    def add(self, consumer: MessageConsumer, entry: Entry) -> None:
        """A message was delivered."""
        self._entries.append((consumer, entry))

    def is_full(self) -> bool:
        """Whether nothing more may be delivered before something is acknowledged."""
        full = len(self._entries) >= self._messages_max
        if full and not self._warned:
            self._warned = True
            notices.SESSION_FULL(messages=self._messages_max).log(log)
        return full

    def keep_feed(self, consumer: MessageConsumer) -> StoreFeed | None:
        """The feed of a consumer that closes, if what it delivered can still be acknowledged."""
        feed = consumer._feed
        if not isinstance(feed, StoreFeed) or all(each is not consumer for each, _ in self._entries):
            return None
        self._retired.append(feed)
        return feed

    def take_retired(self) -> list[StoreFeed]:
        """The feeds of closed consumers of which nothing is left to acknowledge."""
        retired, self._retired = self._retired, []
        return retired

    # What the session acknowledges by itself.

    def take_last(self, consumer: MessageConsumer, entry: Entry) -> bool:
        """Acknowledge this apart from the others; false if it is not the last that was delivered."""
        with self._gate.lock:
            if not self._entries or self._entries[-1] != (consumer, entry):
                return False
            self._entries.pop()
            return True

    def save(self, consumer: MessageConsumer, entry: Entry) -> list[Delivered]:
        """Save an acknowledgement up: the last of each consumer, if it is time to acknowledge."""
        with self._gate.lock:
            self._lazy.append((consumer, entry))
            if len(self._lazy) < LAZY_MAX:
                return []
            lazy, self._lazy = self._lazy, []
        return list(dict(lazy).items())

    def save_and_acknowledge(self, consumer: MessageConsumer, entry: Entry) -> None:
        """Save an acknowledgement up, and acknowledge all that are, if it is time."""
        _acknowledge_all(self.save(consumer, entry))

    def flush(self) -> None:
        """Acknowledge what was saved up."""
        with self._gate.lock:
            lazy, self._lazy = self._lazy, []
        _acknowledge_all(lazy)

    def flush_closing(self, consumer: MessageConsumer | None) -> None:
        """Acknowledge what was saved up, of one consumer or all. What closes then tells the store itself."""
        with self._gate.lock:
            closing = [each for each in self._lazy if consumer in (None, each[0])]
            self._lazy = [each for each in self._lazy if consumer not in (None, each[0])]
        for each, last in dict(closing).items():
            self.begin_acknowledge(each, last, lambda: None, through=True)

    def begin_acknowledge(
        self, consumer: MessageConsumer, entry: Entry, ended: Callable[[], object], *, through: bool
    ) -> None:
        """Acknowledge a message, and perhaps all before it; `ended` is called when the store has answered."""

        def done(body: Body | None, error: BaseException | None) -> None:
            if isinstance(error, ShoalError):
                self.note_refused(entry, error)
            else:
                self.note_taken()
            ended()

        consumer._feed.begin_acknowledge(entry.core, done, through=through)

    def note_taken(self) -> None:
        """The store has an acknowledgement."""
        self._is_refused = False

    def note_refused(self, entry: Entry, error: ShoalError) -> None:
        """The store has no acknowledgement of a message; the log says so."""
        # One line for all that were under way when a store went: the exception listener hears of that.
        if self._is_refused:
            log.debug("%s not acknowledged: %s", entry.core.message_id, error)
            return
        self._is_refused = True
        notices.NOT_ACKNOWLEDGED(message=entry.core.message_id, why=error).log(log)

    # What the program acknowledges.

    def acknowledge(self) -> None:
        """Acknowledge everything that was delivered; if a lease of some is over, all of it comes again."""
        entries = self._take()
        try:
            with translating():
                for consumer, its in _by_consumer(entries).items():
                    consumer._feed.check_held([entry.core for entry in its])
            _acknowledge_all(entries)
        except JMSError:
            # The program learns that this failed, and expects all of it again.
            with contextlib.suppress(JMSError):
                self._give_back(entries)
            raise
        self._made_room()

    def committed(self) -> list[BusMessage]:
        """What a commit has to acknowledge at the store."""
        return [entry.core for consumer, entry in self._entries if consumer._feed.is_kept]

    def forget(self) -> None:
        """A commit acknowledged everything."""
        self._take()
        self._made_room()

    def recover(self) -> None:
        """Deliver again everything that is not acknowledged, in its order, before anything new."""
        self._deliver_again(self._take())

    def _take(self) -> list[Delivered]:
        with self._gate.lock:
            entries, self._entries = self._entries, []
        return entries

    def _give_back(self, entries: list[Delivered]) -> None:
        """Deliver again what could not be acknowledged, but for what is delivered once at the most."""
        for consumer, entry in entries:
            if consumer._feed.is_kept and not entry.core.persistent:
                with contextlib.suppress(ValueError):
                    consumer._feed.begin_acknowledge(entry.core, lambda answer, error: None, through=False)
        self._deliver_again(entries)

    def _deliver_again(self, entries: list[Delivered]) -> None:
        with translating():
            for consumer, again in _by_consumer(entries).items():
                if consumer._feed.is_kept or not consumer._closed:
                    consumer._feed.recover(again)
        self._made_room()

    def _made_room(self) -> None:
        with self._gate.lock:
            self._warned = False
            retired = self.take_retired()
            self._tell_room()
        for feed in retired:
            feed.close()


def _by_consumer(entries: list[Delivered]) -> dict[MessageConsumer, list[Entry]]:
    found: dict[MessageConsumer, list[Entry]] = {}
    for consumer, entry in entries:
        found.setdefault(consumer, []).append(entry)
    return found


def _acknowledge_all(entries: list[Delivered]) -> None:
    """Acknowledge all that was delivered, with one word to the store for each consumer."""
    last = dict(entries)
    with translating():
        for consumer, entry in last.items():
            consumer._feed.acknowledge_through(entry.core)
