"""The receiving half of a session: which message comes next, to whom, and what is not acknowledged yet.

One lock, that of the connection, guards all of it, so that `stop` and `close` know who is in the middle of
something. It is never held while a program's code runs, nor while somebody waits for a message.
"""

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING

from shoal import _core
from shoal._core import Message as BusMessage
from shoal.bus.store_session import Body
from shoal.bus.store_waits import Pause
from shoal.errors import (
    ClosedError,
    IllegalStateError,
    InvalidArgumentError,
    JMSError,
    LeaseError,
    ShoalError,
)
from shoal.jms.arguments import check_seconds, left_of, until_of
from shoal.jms.consumer import MessageConsumer, MessageListener, no_mix_error
from shoal.jms.failures import closed_error, translated, translating
from shoal.jms.feeds import Entry, StoreFeed
from shoal.jms.message import Message
from shoal.messages import jms as notices
from shoal.messages import named
from shoal.signals import SIGNAL_S
from shoal.system import Readable

if TYPE_CHECKING:
    from shoal.jms.gate import Gate

log = logging.getLogger("shoal.jms")

#: Messages of one consumer that its listener is given before another consumer of the session has its turn.
TURN_MAX = 100
#: Acknowledgements that DUPS_OK_ACKNOWLEDGE saves up.
LAZY_MAX = 100


class AcknowledgeMode(IntEnum):
    """Who says that a message was dealt with, and when."""

    #: `commit` does.
    SESSION_TRANSACTED = 0
    #: The session does, before `receive` returns, or when the listener has returned.
    AUTO_ACKNOWLEDGE = 1
    #: `message.acknowledge()` does, for all that the session has delivered.
    CLIENT_ACKNOWLEDGE = 2
    #: The session does, now and then: after a failure some messages may come twice.
    DUPS_OK_ACKNOWLEDGE = 3


def checked_mode(mode: int) -> AcknowledgeMode:
    """A mode, or its number."""
    try:
        return AcknowledgeMode(mode)
    except ValueError:
        names = ", ".join(each.name for each in AcknowledgeMode)
        raise InvalidArgumentError(f"acknowledge_mode is {mode!r}, and must be one of {names}") from None


class Delivering:
    """What a session delivers. Its public methods are the session's own."""

    def __init__(
        self, gate: "Gate", mode: AcknowledgeMode, unacknowledged_max: int, redeliveries_max: int
    ) -> None:
        self._gate = gate
        self._lock = gate.lock
        self.mode = mode
        self._unacknowledged_max = unacknowledged_max
        self._redeliveries_max = redeliveries_max
        self._keeps = mode in (AcknowledgeMode.SESSION_TRANSACTED, AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        self.consumers: list[MessageConsumer] = []
        #: What was delivered and not acknowledged, in the order of delivery.
        self.unacknowledged: list[tuple[MessageConsumer, Entry]] = []
        #: What is acknowledged now and then (DUPS_OK_ACKNOWLEDGE).
        self._lazy: list[tuple[MessageConsumer, Entry]] = []
        #: Feeds of closed consumers whose messages can still be acknowledged.
        self._retired: list[StoreFeed] = []
        #: Nothing more is delivered.
        self.ended = False
        self._warned = False
        #: The last acknowledgement for a listener failed.
        self._is_refused = False
        #: Held by the call of `receive` that is under way.
        self._turn = threading.Lock()
        self._receiving: MessageConsumer | None = None
        #: That call has a message which it returns, and has perhaps to acknowledge first.
        self._passing = False
        #: What that call waits for at the store.
        self._pause: Pause | None = None
        #: How many wait until nobody receives any more.
        self._awaited = 0
        #: There was a listener once.
        self._may_listen = False
        self._calling: MessageConsumer | None = None
        self._bell: _core.Bell | None = None
        self.thread: threading.Thread | None = None

    def add(self, consumer: MessageConsumer) -> None:
        """One more consumer; under the lock."""
        self.consumers.append(consumer)
        if not self._keeps and not self._may_listen:
            consumer._quick = consumer._feed.quick

    # One message at a time.

    def receive(self, consumer: MessageConsumer, timeout_s: float | None) -> Message | None:
        """The next message of a consumer; `None` if none came in time, or it was closed."""
        quick = consumer._quick
        # The way of most messages: nothing has to be remembered of them, and nothing waits before them.
        if (
            quick is not None
            and self._gate.started
            and not consumer._feed.first
            and self._turn.acquire(False)
        ):
            began = time.monotonic() if timeout_s is not None else 0.0
            self._receiving = consumer
            try:
                if timeout_s is not None:
                    check_seconds("timeout_s", timeout_s)
                core = quick(timeout_s)
                if core is None:
                    return None
                # First this and then a look at the gate: `stop` does it the other way round.
                self._passing = True
                if consumer._quick is not None and self._gate.started:
                    return consumer._made_first(core)
                # Stopped or closed meanwhile: it is the first when that is over, if ever.
                consumer._feed.first.appendleft(Entry.fresh(core))
            except ClosedError:
                # Why, is seen below.
                pass
            except ShoalError as error:
                raise translated(error) from error
            finally:
                self._receiving = None
                self._passing = False
                self._turn.release()
                if self._awaited:
                    self._tell_awaited()
            if consumer._closed or self.ended:
                return None
            if timeout_s is not None:
                timeout_s = max(timeout_s - (time.monotonic() - began), 0.0)
        self.begin_receive(consumer)
        try:
            until = until_of(timeout_s)
            while (entry := self.take(consumer, until)) is not None:
                if (message := self.delivered(consumer, entry, until)) is not None:
                    return message
            return None
        finally:
            self.end_receive()

    def begin_receive(self, consumer: MessageConsumer) -> None:
        """A call of `receive` is under way; `end_receive` ends it.

        Without the connection's lock, for it is called for every message: whoever closes something, or sets a
        listener, first says so and then looks who receives, and this does it the other way round.
        """
        if not self._turn.acquire(False):
            raise IllegalStateError("another thread receives in this session: a session is for one at a time")
        self._receiving = consumer
        if consumer._closed or consumer._session._shut or self._may_listen:
            try:
                consumer._check()
                if self.listening():
                    raise no_mix_error()
            except BaseException:
                self.end_receive()
                raise

    def end_receive(self) -> None:
        """Nobody is in `receive` any more."""
        self._receiving = None
        self._passing = False
        self._turn.release()
        if self._awaited:
            self._tell_awaited()

    def _tell_awaited(self) -> None:
        with self._lock:
            self._gate.changed.notify_all()

    def _wait_received(self, consumer: MessageConsumer | None) -> None:
        """Wait until no call of `receive` is under way, or none of this consumer; under the lock."""
        self._awaited += 1
        try:
            while self._receiving is not None and consumer in (None, self._receiving):
                self._gate.changed.wait()
        finally:
            self._awaited -= 1

    def take(self, consumer: MessageConsumer, until: float | None) -> Entry | None:
        """The next message, which counts as delivered from now on; `receive` is under way."""
        while self._wait_open(consumer, until):
            left_s = left_of(until)
            entry = self.take_from(consumer, left_s)
            if entry is not None or left_s == 0.0:
                return entry
        return None

    def take_from(self, consumer: MessageConsumer, timeout_s: float | None) -> Entry | None:
        """What a consumer's feed gives in time, unless the connection is stopped meanwhile."""
        try:
            # What is acknowledged before `receive` returns need not be reported.
            is_reported = self.mode is not AcknowledgeMode.AUTO_ACKNOWLEDGE
            entry = self._next_of(consumer, timeout_s, is_reported)
        except ClosedError as error:
            if consumer._closed or self.ended:
                return None
            raise closed_error("connection") from error
        except ShoalError as error:
            raise translated(error) from error
        if entry is None:
            return None
        with self._lock:
            if consumer._closed or self.ended:
                consumer._feed.decline(entry)
                return None
            if self._gate.started:
                if self._keeps:
                    self.unacknowledged.append((consumer, entry))
                self._passing = True
                return entry
            # Stopped meanwhile: it is the first when that is over.
            consumer._feed.put_back(entry)
            return None

    def _next_of(self, consumer: MessageConsumer, timeout_s: float | None, is_reported: bool) -> Entry | None:
        """What a consumer's feed gives in time.

        If a message was delivered before, the store has the report of this delivery before the program gets
        the message. So a message that ends its program again and again is counted each time.
        """
        until, feed = until_of(timeout_s), consumer._feed
        entry = feed.take(timeout_s)
        if entry is None or not (is_reported and entry.core.redelivered and isinstance(feed, StoreFeed)):
            return entry
        if entry.is_settled:
            return entry
        report = entry.report or feed.begin_report(entry.core, self.wake)
        if not self._wait(report, consumer, until):
            self.put_back(consumer, entry._replace(report=report))
            return None
        try:
            report.outcome()
        except LeaseError:
            # It was delivered before the connection to the store was lost, and comes again.
            feed.decline(entry)
            return None
        if entry.expired:
            feed.decline(entry)
            return None
        return entry

    def _wait(self, pause: Pause, consumer: MessageConsumer, until: float | None) -> bool:
        """Wait for an answer of the store, unless something closes; whether that is over in time."""
        self._pause = pause
        try:
            # What closes first says so, and then ends the wait: so this looks afterwards.
            return self.ended or consumer._closed or pause.wait(left_of(until))
        finally:
            self._pause = None

    def _hurry(self) -> None:
        """Have `receive` return without an answer of the store: something closes, and tells the store so."""
        if (pause := self._pause) is not None:
            pause(None, None)

    def is_open(self, consumer: MessageConsumer) -> bool | None:
        """Whether messages of a consumer may be delivered now; `None` if never again."""
        if consumer._closed or self.ended:
            return None
        return self._gate.started and not self._is_full()

    def _wait_open(self, consumer: MessageConsumer, until: float | None) -> bool:
        """Wait while the connection is stopped, or too much is unacknowledged; false if that is of no use."""
        with self._lock:
            while (is_open := self.is_open(consumer)) is not None:
                if is_open:
                    return True
                left_s = None if until is None else until - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return False
                self._gate.changed.wait(SIGNAL_S if left_s is None else min(left_s, SIGNAL_S))
            return False

    def _is_full(self) -> bool:
        full = len(self.unacknowledged) >= self._unacknowledged_max
        if full and not self._warned:
            self._warned = True
            notices.SESSION_FULL(messages=self._unacknowledged_max).log(log)
        return full

    def delivered(
        self, consumer: MessageConsumer, entry: Entry, until: float | None = None
    ) -> Message | None:
        """The message of an entry that `receive` returns, acknowledged as the mode asks.

        `None` if it became too old meanwhile: the store may have stood still.
        """
        if consumer._feed.is_kept:
            try:
                self.settle(consumer, entry, until)
            except BaseException:
                # Interrupted while the store was told: the next `receive` returns it.
                self.put_back(consumer, entry._replace(is_settled=True))
                raise
        if entry.expired and not self._keeps:
            self._passing = False
            if self._awaited:
                self._tell_awaited()
            return None
        return consumer._made(entry)

    def settle(self, consumer: MessageConsumer, entry: Entry, until: float | None) -> None:
        """Tell the store, as the mode asks, that `receive` returns a message, and wait for its answer.

        If the answer does not come in time, or never, the program gets the message now, and perhaps again.
        """
        if self._keeps or entry.is_settled:
            return
        if self.mode is AcknowledgeMode.AUTO_ACKNOWLEDGE:
            answer = Pause()
            self._begin_acknowledge(consumer, entry, lambda: answer(None, None), through=False)
            self._wait(answer, consumer, until)
            return
        for each, last in self._saved(consumer, entry):
            answer = Pause()
            self._begin_acknowledge(each, last, functools.partial(answer, None, None), through=True)
            self._wait(answer, consumer, until)

    def _begin_acknowledge(
        self, consumer: MessageConsumer, entry: Entry, ended: Callable[[], object], *, through: bool
    ) -> None:
        """Acknowledge a message, and perhaps all before it; `ended` is called when the store has answered."""

        def done(body: Body | None, error: BaseException | None) -> None:
            if isinstance(error, ShoalError):
                self._note_unacknowledged(entry, error)
            else:
                self._is_refused = False
            ended()

        consumer._feed.begin_acknowledge(entry.core, done, through=through)

    def put_back(self, consumer: MessageConsumer, entry: Entry) -> None:
        """As if it had not been taken."""
        with self._lock:
            consumer._feed.put_back(entry)

    # Acknowledging, section 6.2.10.

    def _saved(self, consumer: MessageConsumer, entry: Entry) -> list[tuple[MessageConsumer, Entry]]:
        """Save an acknowledgement up: the last of each consumer, if it is time to acknowledge."""
        with self._lock:
            self._lazy.append((consumer, entry))
            if len(self._lazy) < LAZY_MAX:
                return []
            lazy, self._lazy = self._lazy, []
        return list(dict(lazy).items())

    def flush(self) -> None:
        """Acknowledge what was saved up."""
        with self._lock:
            lazy, self._lazy = self._lazy, []
        _acknowledge_all(lazy)

    def _flush_closing(self, consumer: MessageConsumer | None) -> None:
        """Acknowledge what was saved up, of one consumer or all. What closes then tells the store itself."""
        with self._lock:
            closing = [each for each in self._lazy if consumer in (None, each[0])]
            self._lazy = [each for each in self._lazy if consumer not in (None, each[0])]
        for each, last in dict(closing).items():
            self._begin_acknowledge(each, last, lambda: None, through=True)

    def acknowledge(self) -> None:
        """Acknowledge everything that was delivered; if a lease of some is over, all of it comes again."""
        with self._lock:
            entries, self.unacknowledged = self.unacknowledged, []
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
        return [entry.core for consumer, entry in self.unacknowledged if consumer._feed.is_kept]

    def forget(self) -> None:
        """A commit acknowledged everything."""
        with self._lock:
            self.unacknowledged = []
        self._made_room()

    def recover(self) -> None:
        """Deliver again everything that is not acknowledged, in its order, before anything new."""
        with self._lock:
            entries, self.unacknowledged = self.unacknowledged, []
        self._deliver_again(entries)

    def _give_back(self, entries: list[tuple[MessageConsumer, Entry]]) -> None:
        """Deliver again what could not be acknowledged, but for what is delivered once at the most."""
        for consumer, entry in entries:
            if consumer._feed.is_kept and not entry.core.persistent:
                with contextlib.suppress(ValueError):
                    consumer._feed.begin_acknowledge(entry.core, lambda answer, error: None, through=False)
        self._deliver_again(entries)

    def _deliver_again(self, entries: list[tuple[MessageConsumer, Entry]]) -> None:
        with translating():
            for consumer, again in _by_consumer(entries).items():
                if consumer._feed.is_kept or not consumer._closed:
                    consumer._feed.recover(again)
        self._made_room()

    def _made_room(self) -> None:
        with self._lock:
            self._warned = False
            retired, self._retired = self._retired, []
            self._gate.changed.notify_all()
            self.wake()
        for feed in retired:
            feed.close()

    # Listeners, section 8.7.

    def set_listener(
        self,
        consumer: MessageConsumer,
        listener: MessageListener | None,
        call: Callable[[Message], object] | None,
    ) -> None:
        """Call back with a consumer's messages from now on; the session's thread does."""
        with self._lock:
            self._may_listen = True
            self._slow_down()
            if listener is not None and self._receiving is not None:
                raise IllegalStateError("a thread receives in this session: a listener needs one of its own")
            consumer._listener, consumer._call = listener, call
            if listener is None:
                return
            self._begin_calling(consumer)
            self.wake()

    def _slow_down(self) -> None:
        """Have every consumer look closely at what it may do."""
        for each in self.consumers:
            each._quick = None

    def _begin_calling(self, consumer: MessageConsumer) -> None:
        if self._bell is None:
            self._bell = _core.Bell()
        self.hear(consumer, self._bell)
        if self.thread is None:
            self.thread = threading.Thread(
                target=self._run, args=(self._bell,), name="shoal-jms-session", daemon=True
            )
            self.thread.start()

    def hear(self, consumer: MessageConsumer, bell: _core.Bell) -> None:
        """Ring when there is something to take from a consumer."""
        if not consumer._is_heard:
            consumer._is_heard = True
            consumer._feed.attach_bell(bell, 0)

    def wake(self) -> None:
        """Have whoever calls the listeners look again."""
        if self._bell is not None:
            self._bell.ring(0)

    def _run(self, bell: _core.Bell) -> None:
        bell_rings = Readable(bell.fileno())
        while True:
            # Before looking: what comes afterwards rings again.
            bell.take()
            if self.ended:
                return
            listening = self.listening()
            served = [self._serve(consumer) for consumer in listening]
            if not any(served):
                bell_rings.wait(next_due_s(listening))

    def listening(self) -> list[MessageConsumer]:
        """The consumers that have a listener."""
        with self._lock:
            return [each for each in self.consumers if each._call is not None and not each._closed]

    def _serve(self, consumer: MessageConsumer) -> bool:
        """Call back with some messages of a consumer; false if there was none."""
        consumer._feed.mark_callback_thread()
        for turn in range(TURN_MAX):
            due = self.begin_call(consumer)
            if due is None:
                return turn > 0
            try:
                self._call_back(consumer, *due)
            finally:
                self.end_call()
            if _core.is_abandoned():
                self.ended = True
        return True

    def begin_call(self, consumer: MessageConsumer) -> "tuple[Entry, Callable[[Message], object]] | None":
        """What a listener is to be called with now, if anything; `end_call` says that it has returned."""
        with self._lock:
            call = consumer._call
            if call is None or not self.is_open(consumer):
                return None
            try:
                entry = self._next_of(consumer, 0.0, True)
            except ShoalError as error:
                if not isinstance(error, ClosedError):
                    notices.CONSUMER_ENDED(consumer=repr(consumer), why=error).log(log)
                consumer._call = None
                return None
            if entry is None:
                return None
            self._calling = consumer
            self.unacknowledged.append((consumer, entry))
            return entry, call

    def end_call(self) -> None:
        """The listener has returned."""
        with self._lock:
            self._calling = None
            self._gate.changed.notify_all()

    def _call_back(self, consumer: MessageConsumer, entry: Entry, call: Callable[[Message], object]) -> None:
        failed = False
        try:
            call(consumer._made(entry))
        except BaseException as error:
            if _core.is_abandoned():
                return
            failed = True
            log_failure(entry, error)
        if self.is_to_settle(consumer, entry):
            self.settle_call(consumer, entry, failed)

    def is_to_settle(self, consumer: MessageConsumer, entry: Entry) -> bool:
        """Whether the session has to acknowledge what a listener was given, or deliver it again."""
        if self._keeps:
            return False
        with self._lock:
            # Not if the listener recovered the session: then it comes again anyway.
            if not self.unacknowledged or self.unacknowledged[-1] != (consumer, entry):
                return False
            self.unacknowledged.pop()
            return True

    def settle_call(self, consumer: MessageConsumer, entry: Entry, failed: bool) -> None:
        """Acknowledge what a listener was given; deliver it again if the listener failed."""
        try:
            if failed and entry.delivery <= self._redeliveries_max:
                # What listeners handled before does not come again with it.
                self.flush()
                consumer._feed.recover([entry])
                return
            if failed:
                notices.GIVEN_UP(message=entry.core.message_id, deliveries=entry.delivery).log(log)
                consumer._feed.give_up(entry.core)
            elif consumer._feed.is_kept:
                if self.mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:
                    _acknowledge_all(self._saved(consumer, entry))
                else:
                    consumer._feed.acknowledge(entry.core)
            self._is_refused = False
        except ShoalError as error:
            self._note_unacknowledged(entry, error)

    def _note_unacknowledged(self, entry: Entry, error: ShoalError) -> None:
        # Once for all that were ahead when a store went; the exception listener is told of that.
        if self._is_refused:
            log.debug("%s not acknowledged: %s", entry.core.message_id, error)
            return
        self._is_refused = True
        notices.NOT_ACKNOWLEDGED(message=entry.core.message_id, why=error).log(log)

    # Ends.

    @property
    def is_here(self) -> bool:
        """Whether a listener of this session is the caller."""
        return threading.current_thread() is self.thread

    def wait_quiet(self) -> None:
        """Wait until no listener runs, and no `receive` has a message that it did not return yet.

        A listener that is the caller is not waited for.
        """
        with self._lock:
            self._awaited += 1
            try:
                while (self._calling is not None and not self.is_here) or self._passing:
                    self._gate.changed.wait()
            finally:
                self._awaited -= 1

    def close_consumer(self, consumer: MessageConsumer) -> None:
        """End a consumer, and wait until nobody is in the middle of something with it."""
        with self._lock:
            first, consumer._closed, consumer._quick = not consumer._closed, True, None
            if consumer in self.consumers:
                self.consumers.remove(consumer)
            self._gate.changed.notify_all()
            self.wake()
            if self._receiving is consumer:
                self._hurry()
        if first:
            self._flush_closing(consumer)
            self._end_feed(consumer)
        with self._lock:
            self._wait_received(consumer)
            while self._calling is consumer and not self.is_here:
                self._gate.changed.wait()

    def _end_feed(self, consumer: MessageConsumer) -> None:
        feed = consumer._feed
        if isinstance(feed, StoreFeed):
            with self._lock:
                saved = any(each is consumer for each, _ in self.unacknowledged)
                if saved and not self.ended:
                    self._retired.append(feed)
            if saved and not self.ended:
                feed.retire()
                return
        feed.close()

    def shut(self) -> None:
        """Begin nothing more; under the lock."""
        self.ended = True
        self._slow_down()
        self._hurry()
        self.wake()

    def forked(self) -> None:
        """This process is a forked child, without the threads that receive: nothing is delivered here."""
        self.ended, self._lock, self._turn = True, self._gate.lock, threading.Lock()
        self._receiving, self._passing, self._calling, self.thread = None, False, None, None
        for consumer in self.consumers:
            consumer._closed, consumer._quick = True, None
        self.consumers.clear()

    def end(self) -> None:
        """Deliver nothing more: who waits in `receive` returns, and no listener is called any more."""
        with self._lock:
            self.shut()
            consumers = list(self.consumers)
            self._gate.changed.notify_all()
        with self._lock:
            while self._calling is not None and not self.is_here:
                self._gate.changed.wait()
        self._flush_closing(None)
        for consumer in consumers:
            consumer._closed = True
            consumer._feed.close()
        with self._lock:
            self.consumers.clear()
            retired, self._retired = self._retired, []
            self._wait_received(None)
        for feed in retired:
            feed.close()
        if self.thread is not None and not self.is_here:
            self.thread.join()


def next_due_s(consumers: Iterable[MessageConsumer]) -> float | None:
    """Seconds until a message of one of these consumers is due; `None` if none is held back."""
    dues = [due_s for each in consumers if (due_s := each._feed.next_due_s) is not None]
    return min(dues, default=None)


def log_failure(entry: Entry, error: BaseException) -> None:
    """A listener raised."""
    notices.LISTENER_FAILED(message=entry.core.message_id, delivery=entry.delivery, why=named(error)).log(
        log, exc_info=error
    )


def _by_consumer(entries: list[tuple[MessageConsumer, Entry]]) -> dict[MessageConsumer, list[Entry]]:
    found: dict[MessageConsumer, list[Entry]] = {}
    for consumer, entry in entries:
        found.setdefault(consumer, []).append(entry)
    return found


def _acknowledge_all(entries: list[tuple[MessageConsumer, Entry]]) -> None:
    """Acknowledge all that was delivered, with one word to the store for each consumer."""
    last = dict(entries)
    with translating():
        for consumer, entry in last.items():
            consumer._feed.acknowledge_through(entry.core)
