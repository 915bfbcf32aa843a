"""Requests that wait for their answers.

A request names a reply topic and carries a number as its correlation id. An answer goes to that topic with
the same number. Its property `_reply` says that it is not the only one (`more`), or that the answerer failed
(`error`: the body then has the exception's name and text).

When no program will answer, because none subscribes or all that were asked have left, the connection tells
itself so by the same way (`nobody`, with the reason as its body): what they answered before is in the queue
already, and comes first.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from shoal import _core
from shoal._core import Message
from shoal.bus.arguments import dotted
from shoal.errors import (
    ClosedError,
    FullError,
    MessageFormatError,
    NoReplyError,
    NoRespondersError,
    RemoteError,
    ShoalError,
)

#: The property that tells what kind of answer it is.
KIND = "_reply"
MORE = "more"
ERROR = "error"
NOBODY = "nobody"

#: What a waiting request is given: an answer, or why there will be none.
Outcome = Message | BaseException


class Waiting:
    """One request. `put` is called from whatever thread an answer arrives on."""

    def __init__(self, topic: str, put: Callable[[Outcome], None], asked: set[int]) -> None:
        self.topic = topic
        self.put = put
        #: Who is known to have been asked.
        self.asked = asked
        #: No program will answer, and the caller knows.
        self.over = False


class Replies:
    """The requests of one connection. May be shared between threads."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self._numbers = itertools.count(1)
        self._waiting: dict[str, Waiting] = {}
        self._lock = threading.Lock()

    def begin(self, node: _core.Node, topic: str, put: Callable[[Outcome], None]) -> str:
        """A request is about to be published, whose outcomes go to `put`; returns its number."""
        # Before it is published: its receiver may be gone when that returns.
        waiting = Waiting(topic, put, set(node.subscribers(topic)))
        with self._lock:
            number = str(next(self._numbers))
            self._waiting[number] = waiting
        return number

    def end(self, number: str) -> None:
        """No caller waits for its answers any more."""
        with self._lock:
            self._waiting.pop(number, None)

    def arrived(self, message: Message) -> None:
        """An answer came; it goes to the caller that waits for it."""
        waiting = self._waiting.get(str(message.correlation_id))
        if waiting is None:
            return
        if kind_of(message) == NOBODY:
            waiting.put(NoRespondersError(_said_of(message)))
        else:
            waiting.asked.add(message.sender)
            waiting.put(message)

    def check(self, node: _core.Node) -> None:
        """Something changed: end requests that no program will answer."""
        # Not the dictionary itself, which other threads change.
        with self._lock:
            waiting_now = list(self._waiting.items())
        topics: dict[str, list[tuple[str, Waiting]]] = {}
        for number, waiting in waiting_now:
            if not waiting.over:
                topics.setdefault(waiting.topic, []).append((number, waiting))
        for topic, requests in topics.items():
            self._check_topic(node, topic, requests)

    def check_one(self, node: _core.Node, number: str) -> None:
        """The same for a request that was just published."""
        waiting = self._waiting.get(number)
        if waiting is not None:
            self._check_topic(node, waiting.topic, [(number, waiting)])

    def _check_topic(self, node: _core.Node, topic: str, requests: list[tuple[str, Waiting]]) -> None:
        subscribers = node.subscribers(topic)
        for _, waiting in requests:
            waiting.asked.update(subscribers)
        if subscribers or node.may_want(topic):
            return
        here = {node.node, *node.members}
        meant = dotted(topic)
        hint = "" if meant is None else f". '/' separates levels: did you mean {meant!r}?"
        for number, waiting in requests:
            if not waiting.asked:
                self._end(node, number, waiting, f"no program subscribes to {topic!r}{hint}")
            elif waiting.asked.isdisjoint(here):
                # A member that stays may still answer, though it subscribes no more.
                self._end(node, number, waiting, f"all programs that were asked on {topic!r} have left")

    def _end(self, node: _core.Node, number: str, waiting: Waiting, why: str) -> None:
        # If there is no room, the queue has answers, and the next change is soon.
        with contextlib.suppress(FullError):
            properties = {KIND: NOBODY}
            said = node.publish(self.topic, why, properties=properties, correlation_id=number, timeout_s=0.0)
            waiting.over = said != 0

    def fail(self, error: Callable[[], BaseException]) -> None:
        """End every request."""
        for waiting in list(self._waiting.values()):
            waiting.put(error())


def _said_of(message: Message) -> str:
    """The text of a message, whatever its body is."""
    try:
        return str(message.body)
    except MessageFormatError as error:
        return str(error)


def answerers(node: _core.Node, topic: str) -> int | None:
    """How many will answer on a topic; `None` if that is not known, because a router asks others, too."""
    subscribers = node.subscribers(topic)
    return max(len(subscribers), 1) if set(subscribers).isdisjoint(node.routers) else None


def answer_of(outcome: Outcome) -> Message:
    """An answer, or the error that takes its place."""
    if isinstance(outcome, BaseException):
        if isinstance(outcome, ClosedError) and _core.is_abandoned():
            # A thread left behind at exit is ended without a word; only it knows that it is one.
            raise SystemExit
        raise outcome
    if kind_of(outcome) == ERROR:
        body = outcome.body if isinstance(outcome.body, Mapping) else {}
        raise RemoteError(str(body.get("error", "Exception")), str(body.get("message", "")), outcome.sender)
    return outcome


def kind_of(message: Message) -> Any:
    """`more`, `error`, or `None` for an answer that is the last one."""
    return message.properties.get(KIND)


def reply_properties(properties: dict[str, Any] | None, more: bool) -> dict[str, Any] | None:
    """The properties of an answer, with what kind it is."""
    return {**(properties or {}), **({KIND: MORE} if more else {})} or None


def error_reply(request: Message, error: BaseException) -> dict[str, Any]:
    """The answer that says what went wrong, as arguments of `publish`."""
    return {
        "body": {"error": type(error).__name__, "message": _text_of(error)},
        "properties": {KIND: ERROR},
        "correlation_id": request.correlation_id,
        "priority": request.priority,
    }


def _text_of(error: BaseException) -> str:
    """What an exception says, as text that can be sent, whatever it does."""
    try:
        return str(error).encode(errors="backslashreplace").decode()
    except Exception as failure:
        return f"(its text cannot be had: {type(failure).__name__} in __str__)"


def no_reply(topic: str, timeout_s: float, answers: int = 0) -> ShoalError:
    """The error of a request that was not answered in time."""
    if answers:
        return NoReplyError(f"{answers} answers came on {topic!r}, and then none within {timeout_s} s")
    return NoReplyError(f"no program answered on {topic!r} within {timeout_s} s")


def reply_to(request: Message) -> str:
    """Where answers to a request go."""
    if not isinstance(request, Message):
        raise TypeError(f"request is {request!r}, and must be a received message")
    if request.reply_to is None:
        raise ValueError(f"{request!r} was not sent as a request: it names no topic to reply to")
    return request.reply_to
