"""Last values that outlive their publishers: of each topic the last persistent message with `retain`.

The machine's part is `Values`. A value is a part of the log's state, so it becomes durable with its message,
and retention does not remove it. `Answers` is the store's part on the bus: it answers fetches as a publisher
does (`shoal.bus.retained`), once there is something to answer.
"""

import struct
from collections.abc import Callable, Iterator

from shoal._core import Message, match_topics, read_rows, split_rows
from shoal.bus.dispatch import OwnThread
from shoal.bus.retained import FETCH, answer, is_empty
from shoal.bus.store_protocol import RETAIN
from shoal.bus.sync import Bus
from shoal.errors import MessageFormatError
from shoal.store.core import Core
from shoal.store.requests import RequestError
from shoal.types import QueueName

#: Topics that a store keeps values of, and the bytes of those values; a quarter of the log's state at most.
TOPICS_MAX, BYTES_MAX = 10_000, 8 << 20

_PREFIX = "retained/"
_MARK = RETAIN.encode()
#: When it expires, in microseconds since 1970; 0 if it does not. The row follows.
_EXPIRES = struct.Struct("<Q")


class Values:
    """The last values of a store. For one thread at a time."""

    def __init__(self, core: Core, *, is_secured: bool = False) -> None:
        """A store that `is_secured` by tokens gives values to nobody, and so keeps none."""
        self._core, self._is_secured = core, is_secured
        self._values = {key.removeprefix(_PREFIX): value for key, value in core.log.items(_PREFIX)}
        self._bytes = sum(map(len, self._values.values()))
        self._bytes_max = min(BYTES_MAX, core.log.state_bytes[1] // 4)
        #: What was there before this turn, of the topics that it changes.
        self._before: dict[str, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._values)

    def check(self, rows: bytes, mark: int) -> None:
        """Refuse rows whose values there is no room for, also without those that have expired."""
        added: dict[str, bytes] = {}
        for topic, value in self._found(rows, mark):
            added[topic] = value
            full = value and self._full(added)
            if full and self._expire():
                full = self._full(added)
            if full:
                raise RequestError("FULL", f"the store retains at most {full}: delete some values first")

    def _full(self, added: dict[str, bytes]) -> str:
        """The bound that there would be too many values for; empty if there would not."""
        size = self._bytes + sum(len(value) - len(self._values.get(key, b"")) for key, value in added.items())
        if len(self._values) + sum(key not in self._values for key in added) > TOPICS_MAX:
            return f"{TOPICS_MAX} topics"
        return f"{self._bytes_max} bytes" if size > self._bytes_max else ""

    def _expire(self) -> bool:
        """Remove values that have expired: whether there were some."""
        late = [topic for topic, value in self._values.items() if self._is_late(value)]
        for topic in late:
            self._set(topic, None)
            self._core.turn.put(_PREFIX + topic, None)
        return bool(late)

    def _is_late(self, value: bytes) -> bool:
        return 0 < int(_EXPIRES.unpack_from(value)[0]) <= self._core.now.wall_us

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
        if self._is_secured or _MARK not in rows:
            return
        for number, row in split_rows(rows):
            (message,) = read_rows(row)
            # Queues have no last value, and reserved topics are Shoal's own.
            is_topic = not isinstance(message.topic, QueueName) and not message.topic.startswith("_")
            if number > mark and is_topic and message.properties.get(RETAIN) is True:
                yield message.topic, b"" if _deletes(message) else self._expires(message) + row

    def _expires(self, message: Message) -> bytes:
        ttl_s = message.ttl_s
        return _EXPIRES.pack(0 if ttl_s is None else self._core.now.wall_us + int(ttl_s * 1e6))

    def matching(self, pattern: str) -> list[bytes]:
        """The rows of a pattern's values. Those that have expired are removed when their room is needed."""
        found = [self._values[topic] for topic in match_topics([pattern], list(self._values))]
        return [value[_EXPIRES.size :] for value in found if not self._is_late(value)]


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
