"""Last values that outlive their publishers: of each topic the last persistent message with `retain`.

The machine's part is `Values`. A value is a part of the log's state, so it becomes durable with its message,
and retention does not remove it. `Answers` is the store's part on the bus: it answers fetches as a publisher
does (`shoal.bus.retained`), once there is something to answer.
"""

import struct
from collections.abc import Callable, Iterator

from shoal._core import Message, match_topics, read_rows, split_rows
from shoal.bus.dispatch import OwnThread
from shoal.bus.retained import FETCH, MARK, answer, is_empty
from shoal.bus.sync import Bus
from shoal.errors import MessageFormatError
from shoal.store.core import Core
from shoal.store.requests import RequestError

#: Topics that a store keeps values of, and the bytes of those values; a quarter of the log's state at most.
TOPICS_MAX, BYTES_MAX = 10_000, 8 << 20

_PREFIX = "retained/"
_MARK = MARK.encode()
#: When it expires, in microseconds since 1970; 0 if it does not. The row follows.
_EXPIRES = struct.Struct("<Q")


class Values:
    """The last values of a store. For one thread at a time."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._values = {key.removeprefix(_PREFIX): value for key, value in core.log.items(_PREFIX)}
        self._bytes = sum(map(len, self._values.values()))
        self._bytes_max = min(BYTES_MAX, core.log.state_bytes[1] // 4)
        #: What was there before this turn, of the topics that it changes.
        self._before: dict[str, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._values)

    def check(self, rows: bytes, mark: int) -> None:
        """Refuse rows whose values there is no room for."""
        topics, size = set(self._values), self._bytes
        for topic, value in self._found(rows, mark):
            size += len(value) - len(self._values.get(topic, b""))
            topics.add(topic)
            if value and len(topics) > TOPICS_MAX:
                raise RequestError("FULL", f"the store retains {TOPICS_MAX} topics: delete some values first")
            if value and size > self._bytes_max:
                text = f"the store retains at most {self._bytes_max} bytes: delete some values first"
                raise RequestError("FULL", text)

    def take(self, rows: bytes, mark: int) -> None:
        """Rows of this turn; those above `mark` are new."""
        for topic, value in self._found(rows, mark):
            if not self._before:
                self._core.after_rows(self._appended)
            self._before.setdefault(topic, self._values.get(topic))
            self._set(topic, value or None)
            self._core.turn.put(_PREFIX + topic, value or None, with_rows=True)

    def _appended(self, refused: str | None) -> None:
        before, self._before = self._before, {}
        for topic, value in before.items() if refused is not None else ():
            self._set(topic, value)

    def _set(self, topic: str, value: bytes | None) -> None:
        self._bytes += len(value or b"") - len(self._values.pop(topic, b""))
        if value is not None:
            self._values[topic] = value

    def _found(self, rows: bytes, mark: int) -> Iterator[tuple[str, bytes]]:
        """Topics of new rows that are last values, and what to keep; nothing deletes it."""
        # Rows without the property are not parsed.
        if _MARK not in rows:
            return
        for number, row in split_rows(rows):
            (message,) = read_rows(row)
            if number > mark and message.properties.get(MARK) is True:
                yield message.topic, b"" if _deletes(message) else self._expires(message) + row

    def _expires(self, message: Message) -> bytes:
        ttl_s = message.ttl_s
        return _EXPIRES.pack(0 if ttl_s is None else self._core.now.wall_us + int(ttl_s * 1e6))

    def matching(self, pattern: str) -> list[bytes]:
        """The rows of a pattern's values; what has expired is removed with the next message of its topic."""
        now_us = self._core.now.wall_us
        found = [self._values[topic] for topic in match_topics([pattern], list(self._values))]
        live = [value for value in found if not 0 < _EXPIRES.unpack_from(value)[0] <= now_us]
        return [value[_EXPIRES.size :] for value in live]


def _deletes(message: Message) -> bool:
    try:
        return is_empty(message.body)
    except MessageFormatError:
        return False


class Answers:
    """Answers fetches with a store's values, on a thread of its own. For one thread at a time."""

    def __init__(self, bus: Bus, matching: Callable[[str], list[bytes]]) -> None:
        connection = bus._connection

        def answered(fetch: Message) -> None:
            answer(connection, fetch, matching, stored=True)

        fetches = connection.node.open_subscription(FETCH)
        self._thread = OwnThread(fetches, answered, lambda message, error: None)

    def close(self) -> None:
        """Answer no more."""
        self._thread.close()
