"""Sends that are completed later: one thread of a session sends what waits and calls back, in order."""

import contextvars
import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

from shoal.errors import InvalidArgumentError, ShoalError
from shoal.jms.failures import translated
from shoal.jms.message import Message
from shoal.messages import jms as notices
from shoal.messages import named

log = logging.getLogger("shoal.jms")

#: Sends of one session that are not completed yet; sending one more waits.
COMPLETIONS_MAX = 1000


class CompletionListener(Protocol):
    """Learns how an asynchronous send ended, on a thread of the session's own, one call at a time."""

    def on_completion(self, message: Message) -> object:
        """The message was sent, as surely as if `send` had returned."""

    def on_exception(self, message: Message, error: Exception) -> object:
        """The message could not be sent, or that is not known."""


def check_listener(listener: object) -> None:
    """Refuse what cannot be told how a send ended."""
    methods = [getattr(listener, name, None) for name in ("on_completion", "on_exception")]
    if listener is not None and not all(map(callable, methods)):
        raise InvalidArgumentError(
            f"completion_listener is {listener!r}, and must have on_completion(message) and "
            "on_exception(message, error)"
        )


class Turn:
    """A completion listener that runs elsewhere than on its session's thread; `None` once it has returned."""

    __slots__ = ("completions",)

    def __init__(self, completions: "Completions") -> None:
        self.completions: Completions | None = completions


#: The completion listener that runs here, in an event loop.
calling: "contextvars.ContextVar[Turn | None]" = contextvars.ContextVar("shoal-jms-completion", default=None)


class Completions:
    """The sends of one session that are under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Message, Callable[[], None] | None, CompletionListener, int]] = deque()
        self._busy = False
        self._unsent = 0
        self._thread: threading.Thread | None = None

    def add(
        self,
        message: Message,
        send: Callable[[], None] | None,
        listener: CompletionListener,
        *,
        is_ahead: bool = False,
    ) -> None:
        """Call the listener when the message is sent; `send` does that, unless it is sent already.

        With `is_ahead` the message is on its way, before whatever follows, and `send` waits until it is
        there.
        """
        unsent = 0 if send is None or is_ahead else 1
        with self._changed:
            while len(self._waiting) >= COMPLETIONS_MAX and not self.is_here:
                self._changed.wait()
            self._waiting.append((message, send, listener, unsent))
            self._unsent += unsent
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="shoal-jms-completions", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    @property
    def is_here(self) -> bool:
        """Whether a completion listener is the caller."""
        turn = calling.get()
        return threading.current_thread() is self._thread or (turn is not None and turn.completions is self)

    @property
    def has_unsent(self) -> bool:
        """Whether something waits to be sent, so that what follows has to wait, too."""
        return self._unsent > 0

    def wait_sent(self) -> None:
        """Wait until all that waits was sent, so that what follows stays behind it."""
        if self._unsent and not self.is_here:
            with self._changed:
                while self._unsent:
                    self._changed.wait()

    def wait_done(self) -> None:
        """Wait until every listener was called and has returned."""
        if self._thread is None or self.is_here:
            return
        with self._changed:
            while self._waiting or self._busy:
                self._changed.wait()

    def close(self) -> None:
        """Wait until all is done, and end the thread."""
        self.wait_done()
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _run(self) -> None:
        here = threading.current_thread()
        while True:
            with self._changed:
                self._busy = False
                self._changed.notify_all()
                while not self._waiting:
                    if self._thread is not here:
                        return
                    self._changed.wait()
                message, send, listener, unsent = self._waiting.popleft()
                self._busy = True
            self._complete(message, send, listener, unsent)

    def _complete(
        self, message: Message, send: Callable[[], None] | None, listener: CompletionListener, unsent: int
    ) -> None:
        failure: Exception | None = None
        if send is not None:
            try:
                send()
            except ShoalError as error:
                failure = translated(error)
            except Exception as error:
                failure = error
            with self._changed:
                self._unsent -= unsent
                self._changed.notify_all()
        try:
            if failure is None:
                listener.on_completion(message)
            else:
                listener.on_exception(message, failure)
        except Exception as error:
            notices.COMPLETION_LISTENER_FAILED(message=message, why=named(error)).log(log, exc_info=error)
