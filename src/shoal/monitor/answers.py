"""What a daemon or a program answers when `shoal nodes`, `shoal links` and `shoal top` ask who is there."""

import contextlib
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shoal._core import Message
from shoal.bus.dispatch import OwnThread
from shoal.errors import ShoalError

if TYPE_CHECKING:
    from shoal.bus.connection import Connection

#: Where the question is asked.
TOPIC = "_shoal/nodes"


#: How long an answer may wait for room.
_ANSWER_S = 1.0
#: Links that an answer lists; HTTP shows all of them.
LINKS_MAX = 256


class Answers:
    """Answers with a status, on a thread of its own, until it is closed."""

    def __init__(self, connection: "Connection", status: Callable[[], Mapping[str, Any]]) -> None:
        questions = connection.node.open_subscription(TOPIC)
        target = weakref.ref(connection)

        def answer(question: Message) -> None:
            _answer(target(), question, status)

        self._thread = OwnThread(questions, answer, lambda message, error: None)
        self._end = weakref.finalize(connection, self._thread.close)
        self._end.atexit = False

    def close(self) -> None:
        """Answer no more."""
        self._end()


def _answer(
    connection: "Connection | None", question: Message, status: Callable[[], Mapping[str, Any]]
) -> None:
    if connection is None or connection.closed or question.reply_to is None:
        return
    # A connection that closes meanwhile answers nothing; nor does one without room.
    with contextlib.suppress(ShoalError):
        told = dict(status())
        told["links"] = told["links"][:LINKS_MAX]
        connection.node.publish(
            question.reply_to,
            told,
            correlation_id=question.correlation_id,
            priority=question.priority,
            timeout_s=_ANSWER_S,
        )
