"""The receiving half of a session: which message comes next, to whom, and what is not acknowledged yet.

One lock, that of the connection, guards all of it, so that `stop` and `close` know who is in the middle of
something. It is never held while a program's code runs, nor while a thread waits for a message.
"""

import functools
import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from shoal import _core
from shoal.bus.store_waits import Pause
from shoal.errors import (
    ClosedError,
    IllegalStateError,
    LeaseError,
    ShoalError,
)
from shoal.jms.acknowledge_mode import AcknowledgeMode
from shoal.jms.arguments import check_seconds, left_of, until_of
from shoal.jms.consumer import MessageConsumer, MessageListener, no_mix_error
from shoal.jms.failures import closed_error, translated
from shoal.jms.feeds import Entry, StoreFeed
from shoal.jms.listener_thread import ListenerThread
from shoal.jms.message import Message
from shoal.jms.unacknowledged import Unacknowledged
from shoal.messages import jms as notices
from shoal.signals import SIGNAL_S

if TYPE_CHECKING:
    from shoal.jms.gate import Gate

log = logging.getLogger("shoal.jms")


class Delivering:
    """What a session delivers. Its public methods are the session's own."""

    def __init__(
        self, gate: "Gate", mode: AcknowledgeMode, unacknowledged_max: int, redeliveries_max: int
    ) -> None:
        self._gate = gate
        self._lock = gate.lock
        self.mode = mode
        self._redeliveries_max = redeliveries_max
        self._keeps = mode in (AcknowledgeMode.SESSION_TRANSACTED, AcknowledgeMode.CLIENT_ACKNOWLEDGE)
        self.consumers: list[MessageConsumer] = []
        self.unacknowledged = Unacknowledged(gate, unacknowledged_max, self._made_room)
        #: Nothing more is delivered.
        self.ended = False
        #: Held by the call of `receive` that is under way.
        self._turn = threading.Lock()
        self._receiving: MessageConsumer | None = None
        #: That call has a message which it returns, and has perhaps to acknowledge first.
        self._passing = False
        #: What that call waits for at the store.
        self._pause: Pause | None = None
        #: Threads that wait until no call of `receive` is under way.
        self._awaited = 0
        #: There was a listener once.
        self._may_listen = False
        self._calling: MessageConsumer | None = None
        self._bell: _core.Bell | None = None
        self._thread: ListenerThread | None = None

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

        Without the connection's lock, for it is called for every message: a thread that closes something, or
        sets a listener, first says so and then looks for a receiver; this does it the other way round.
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
        """No call of `receive` is under way any more."""
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
                    self.unacknowledged.add(consumer, entry)
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
        return self._gate.started and not self.unacknowledged.is_full()

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
            self.unacknowledged.begin_acknowledge(consumer, entry, lambda: answer(None, None), through=False)
            self._wait(answer, consumer, until)
            return
        for each, last in self.unacknowledged.save(consumer, entry):
            answer = Pause()
            ended = functools.partial(answer, None, None)
            self.unacknowledged.begin_acknowledge(each, last, ended, through=True)
            self._wait(answer, consumer, until)

    def put_back(self, consumer: MessageConsumer, entry: Entry) -> None:
        """As if it had not been taken."""
        with self._lock:
            consumer._feed.put_back(entry)

    def _made_room(self) -> None:
        """Fewer messages are unacknowledged; under the lock."""
        self._gate.changed.notify_all()
        self.wake()

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
        if self._thread is None:
            self._thread = ListenerThread(self, self._bell)

    def hear(self, consumer: MessageConsumer, bell: _core.Bell) -> None:
        """Ring when there is something to take from a consumer."""
        if not consumer._is_heard:
            consumer._is_heard = True
            consumer._feed.attach_bell(bell, 0)

    def wake(self) -> None:
        """Have the thread or task that calls listeners look again."""
        if self._bell is not None:
            self._bell.ring(0)

    def listening(self) -> list[MessageConsumer]:
        """The consumers that have a listener."""
        with self._lock:
            return [each for each in self.consumers if each._call is not None and not each._closed]

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
            self.unacknowledged.add(consumer, entry)
            return entry, call

    def end_call(self) -> None:
        """The listener has returned."""
        with self._lock:
            self._calling = None
            self._gate.changed.notify_all()

    def is_to_settle(self, consumer: MessageConsumer, entry: Entry) -> bool:
        """Whether the session has to acknowledge what a listener was given, or deliver it again."""
        if self._keeps:
            return False
        # Not if the listener recovered the session: then it comes again anyway.
        return self.unacknowledged.take_last(consumer, entry)

    def settle_call(self, consumer: MessageConsumer, entry: Entry, failed: bool) -> None:
        """Acknowledge what a listener was given; deliver it again if the listener failed."""
        try:
            if failed and entry.delivery <= self._redeliveries_max:
                # What listeners handled before does not come again with it.
                self.unacknowledged.flush()
                consumer._feed.recover([entry])
                return
            if failed:
                notices.GIVEN_UP(message=entry.core.message_id, deliveries=entry.delivery).log(log)
                consumer._feed.give_up(entry.core)
            elif consumer._feed.is_kept:
                if self.mode is AcknowledgeMode.DUPS_OK_ACKNOWLEDGE:
                    self.unacknowledged.save_and_acknowledge(consumer, entry)
                else:
                    consumer._feed.acknowledge(entry.core)
            self.unacknowledged.note_taken()
        except ShoalError as error:
            self.unacknowledged.note_refused(entry, error)

    # Ends.

    @property
    def is_here(self) -> bool:
        """Whether a listener of this session is the caller."""
        return self._thread is not None and self._thread.is_caller

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
        """End a consumer, and wait until no thread is in the middle of something with it."""
        with self._lock:
            first, consumer._closed, consumer._quick = not consumer._closed, True, None
            if consumer in self.consumers:
                self.consumers.remove(consumer)
            self._gate.changed.notify_all()
            self.wake()
            if self._receiving is consumer:
                self._hurry()
        if first:
            self.unacknowledged.flush_closing(consumer)
            with self._lock:
                kept = None if self.ended else self.unacknowledged.keep_feed(consumer)
            if kept is None:
                consumer._feed.close()
            else:
                kept.retire()
        with self._lock:
            self._wait_received(consumer)
            while self._calling is consumer and not self.is_here:
                self._gate.changed.wait()

    def shut(self) -> None:
        """Begin nothing more; under the lock."""
        self.ended = True
        self._slow_down()
        self._hurry()
        self.wake()

    def forked(self) -> None:
        """This process is a forked child, without the threads that receive: nothing is delivered here."""
        self.ended, self._lock, self._turn = True, self._gate.lock, threading.Lock()
        self._receiving, self._passing, self._calling, self._thread = None, False, None, None
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
        self.unacknowledged.flush_closing(None)
        for consumer in consumers:
            consumer._closed = True
            consumer._feed.close()
        with self._lock:
            self.consumers.clear()
            retired = self.unacknowledged.take_retired()
            self._wait_received(None)
        for feed in retired:
            feed.close()
        if self._thread is not None and not self.is_here:
            self._thread.join()
