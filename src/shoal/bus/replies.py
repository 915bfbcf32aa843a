"""Requests that wait for their answers.

A request names a reply topic and carries a number as its correlation id. An answer goes to that topic with
the same number. Its property `_reply` says that it is not the only one (`more`), or that the answerer failed
(`error`: the body then has the exception's name and text).
"""

import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from shoal import _core
from shoal._core import Message
from shoal.errors import NoReplyError, NoRespondersError, RemoteError, ShoalError

#: The property that tells what kind of answer it is.
KIND = "_reply"
MORE = "more"
ERROR = "error"

#: What a waiting request is given: an answer, or why there will be none.
Outcome = Message | BaseException


class Waiting:
    """One request. `put` is called from whatever thread an answer arrives on."""

    def __init__(self, topic: str, put: Callable[[Outcome], None]) -> None:
        self.topic = topic
        self.put = put
        #: It is known that somebody subscribes to the topic, so silence is the answerer's.
        self.certain = False


class Replies:
    """The requests of one connection. May be shared between threads."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._numbers = itertools.count(1)
        self._waiting: dict[str, Waiting] = {}
        self._lock = threading.Lock()

    def begin(self, waiting: Waiting) -> str:
        """A request is about to be published; returns its number."""
        with self._lock:
            number = str(next(self._numbers))
            self._waiting[number] = waiting
        return number

    def end(self, number: str) -> None:
        """Nobody waits for its answers any more."""
        with self._lock:
            self._waiting.pop(number, None)

    def arrived(self, message: Message) -> None:
        """An answer came; it goes to whoever waits for it."""
        waiting = self._waiting.get(str(message.correlation_id))
        if waiting is not None:
            waiting.certain = True
            waiting.put(message)

    def check(self, node: _core.Node) -> None:
        """End requests of which it turns out that nobody subscribes to their topic."""
        for waiting in list(self._waiting.values()):
            if waiting.certain:
                continue
            if node.subscribers(waiting.topic):
                waiting.certain = True
            elif not node.may_want(waiting.topic):
                waiting.certain = True
                waiting.put(NoRespondersError(f"nobody subscribes to {waiting.topic!r}"))

    def fail(self, error: Callable[[], BaseException]) -> None:
        """End every request."""
        for waiting in list(self._waiting.values()):
            waiting.put(error())


def answer_of(outcome: Outcome) -> Message:
    """An answer, or the error that takes its place."""
    if isinstance(outcome, BaseException):
        raise outcome
    if kind_of(outcome) == ERROR:
        body = outcome.body if isinstance(outcome.body, Mapping) else {}
        raise RemoteError(str(body.get("error", "Exception")), str(body.get("message", "")), outcome.sender)
    return outcome


def kind_of(message: Message) -> Any:
    """`more`, `error`, or `None` for an answer that is the last one."""
    return message.properties.get(KIND)


def error_body(error: BaseException) -> dict[str, str]:
    """The body of an answer that says what went wrong."""
    return {"error": type(error).__name__, "message": str(error)}


def no_reply(topic: str, timeout_s: float, answers: int = 0) -> ShoalError:
    """The error of a request that was not answered in time."""
    if answers:
        return NoReplyError(f"{answers} answers came on {topic!r}, and then none within {timeout_s} s")
    return NoReplyError(f"nobody answered on {topic!r} within {timeout_s} s")


def reply_to(request: Message) -> str:
    """Where answers to a request go."""
    if not isinstance(request, Message):
        raise TypeError(f"request is {request!r}, and must be a received message")
    if request.reply_to is None:
        raise ValueError(f"{request!r} was not sent as a request: it names no topic to reply to")
    return request.reply_to
