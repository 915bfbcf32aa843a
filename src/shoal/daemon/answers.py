"""What a daemon says when the domain is asked who is there: `shoal nodes` and `shoal links` ask."""

from collections.abc import Callable, Mapping
from typing import Any

from shoal._core import Message
from shoal.bus.sync import Bus

#: Where the question is asked.
TOPIC = "_shoal/nodes"


class Answers:
    """Answers with a status, until it is closed."""

    def __init__(self, bus: Bus, status: Callable[[], Mapping[str, Any]]) -> None:
        self._bus, self._status = bus, status
        self._subscription = bus.subscribe(TOPIC, self._answer)

    def _answer(self, question: Message) -> None:
        if question.reply_to is not None:
            self._bus.reply(question, dict(self._status()))

    def close(self) -> None:
        """Answer no more."""
        self._subscription.close()
