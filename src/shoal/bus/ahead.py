"""Messages for a store, added in order, whose outcomes come later: for roles that serve many clients.

A *repeated* message is one that a client numbered itself. It goes under a publisher of the client's own, so
that the store knows a message that it has, whichever connection or gateway repeats it.
"""

import asyncio
import contextlib
import functools
import logging
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from shoal._core import RowsBuilder, pass_on, split_rows
from shoal.bus.outbox import BYTES_TOGETHER
from shoal.bus.retained import marked
from shoal.bus.store_chain import UNSTORED_BYTES_MAX, Chain
from shoal.bus.store_channel import StoreChannel
from shoal.bus.store_protocol import REQUEST_BYTES
from shoal.bus.store_session import Body
from shoal.bus.store_waits import ask_in_loop, begin_in_loop
from shoal.errors import ClosedError, FullError, ShoalError
from shoal.messages import bus as notices

if TYPE_CHECKING:
    from shoal.bus.aio import Bus

log = logging.getLogger("shoal.bus")

#: Chains of repeatable messages have this bit, and bits of their store's id: every gateway gives a client the
#: same chain for the same store, and another one for another store.
_CHAINS = 1 << 31

#: Its result comes when the store has a message, or it raises why not.
Outcome = asyncio.Future[Body]


async def publish_ahead(
    bus: "Bus", topic: str, body: Any, what: str, *, retain: bool = False, **headers: Any
) -> Outcome:
    """Give a message its place behind those before it, and return what becomes of it.

    Waits while there is no store, and while too much is not stored. With `retain` it becomes the topic's last
    value, which the connection and the store keep.
    """
    if retain:
        with _Retaining(bus, topic, body, headers) as retaining:
            outcome, identity = await _publish_ahead(bus, topic, body, what, headers)
            retaining.keep_once_stored(outcome, identity)
        return outcome
    return (await _publish_ahead(bus, topic, body, what, headers))[0]


async def _publish_ahead(
    bus: "Bus", topic: str, body: Any, what: str, headers: dict[str, Any]
) -> tuple[Outcome, str]:
    persistence = bus._connection.persistence(topic)
    memory = not headers.get("persistent", True)
    if not persistence.channel.is_ready(memory):
        await bus._ready_channel(what, None, memory=memory, destination=topic)
        persistence = bus._connection.persistence(topic)
    before = persistence.room(None)
    if before > persistence.chain.stored:
        await ask_in_loop(lambda done: persistence.wait(before, done, own=False), None, what)

    def add(waited_s: float, caller: object) -> int:
        return persistence.add(topic, body, dict(headers), 0.0, claimed=True)

    number = await bus._while_full(add, None)
    outcome = begin_in_loop(lambda done: persistence.wait(number, done))
    return outcome, persistence.receipt(number, stored=True).id


class _Retaining:
    """Keeps a persistent message as the last value of its topic, from when the store has it.

    A fetch of last values that begins before the outcome is known waits for it. For the tasks of one loop.
    """

    def __init__(self, bus: "Bus", topic: str, body: Any, headers: dict[str, Any]) -> None:
        """`headers` get the property by which the store knows a last value."""
        headers["properties"] = marked(headers.get("properties"))
        self._ends = contextlib.ExitStack()
        self._keep = self._ends.enter_context(bus._connection.retained().keeping(topic, body, headers))

    def keep_once_stored(self, outcome: Outcome, identity: str) -> None:
        """Keep the message if its outcome is that the store has it."""
        ends = self._ends.pop_all()

        def settle(outcome: Outcome) -> None:
            with ends:
                if not outcome.cancelled() and outcome.exception() is None:
                    self._keep(identity)

        outcome.add_done_callback(settle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.close()


class Repeatable:
    """Messages of one client that numbers them, and may repeat what it has no receipt for.

    Numbers ascend. One that is not above the last is a repetition, and its outcome that of the first.
    For the tasks of one event loop.
    """

    def __init__(self, bus: "Bus", publisher: int, key: str) -> None:
        self.publisher = publisher
        self._bus, self._key = bus, key
        self._paths: dict[StoreChannel, _Path] = {}
        #: A message was refused: what the client sends behind it goes another way.
        self.failed = False

    async def publish(
        self,
        number: int,
        topic: str,
        body: Any,
        what: str,
        *,
        repeated: bool,
        retain: bool = False,
        **headers: Any,
    ) -> Outcome:
        """As `publish_ahead`, with the client's number. `repeated` says that it may have been sent before."""
        if not retain:
            return (await self._publish(number, topic, body, what, repeated, headers))[0]
        with _Retaining(self._bus, topic, body, headers) as retaining:
            outcome, identity = await self._publish(number, topic, body, what, repeated, headers)
            # A repeated message may be older than the last value, which the store knows.
            if identity is not None and not repeated:
                retaining.keep_once_stored(outcome, identity)
        return outcome

    async def _publish(
        self, number: int, topic: str, body: Any, what: str, repeated: bool, headers: dict[str, Any]
    ) -> tuple[Outcome, str | None]:
        """The outcome of a message, and its identity if it is new here."""
        channel = self._bus._connection.owners().of(topic)
        if not channel.is_ready(memory=False):
            channel = await self._bus._ready_channel(what, None, destination=topic)
        path = self._paths.get(channel)
        if path is None:
            path = self._paths[channel] = _Path(self._bus, channel, self.publisher, self._key, number)
        while path.unstored_bytes > UNSTORED_BYTES_MAX:
            wait = functools.partial(channel.wait_stored, path.chain, path.last, own=False)
            await ask_in_loop(wait, None, what)
        is_new = number > path.last
        if is_new:
            path.add(number, topic, body, headers, repeated=repeated)
        outcome = begin_in_loop(lambda done: channel.wait_stored(path.chain, number, done))
        outcome.add_done_callback(self._note)
        return outcome, path.identity(number) if is_new else None

    def _note(self, outcome: Outcome) -> None:
        self.failed = self.failed or (not outcome.cancelled() and outcome.exception() is not None)

    async def settle(self) -> None:
        """Return when the store has everything that was added, or refused it."""
        for channel, path in self._paths.items():
            wait = functools.partial(channel.wait_stored, path.chain, path.last, own=False)
            with contextlib.suppress(ShoalError):
                await begin_in_loop(wait)

    async def close(self) -> None:
        """Forget it; what is not stored never will be."""
        for channel, path in self._paths.items():
            channel.remove_chain(path.chain)
        self._paths.clear()


class _Path:
    """The messages of one client to one store."""

    def __init__(self, bus: "Bus", channel: StoreChannel, publisher: int, key: str, first: int) -> None:
        self._node = bus._connection.node
        self._bytes_max = max(1, bus.config.message_bytes_max - REQUEST_BYTES)
        self._publisher = publisher
        self._chain = _CHAINS | int(channel.store_id or "0", 16) & (_CHAINS - 1)
        #: The last number that was added.
        self.last = first - 1
        #: One for each row of numbers without a gap.
        self._builders: deque[RowsBuilder] = deque()
        #: Numbers that the client may have sent before.
        self._repeated: set[int] = set()
        self.chain = Chain(
            publisher,
            self._chain,
            self._take,
            lambda: sum(builder.waiting_bytes for builder in self._builders),
            stored=self.last,
            strict=True,
            publish=self._publish_stored,
            key=key,
            clock=time.monotonic,
        )
        channel.add_chain(self.chain)

    @property
    def unstored_bytes(self) -> int:
        """Bytes that are not stored yet."""
        return self.chain.waiting_bytes + sum(builder.waiting_bytes for builder in self._builders)

    def identity(self, number: int) -> str:
        """The identity of a message."""
        return f"ID:{self._publisher:016x}-{self._chain}-{number}"

    def add(self, number: int, topic: str, body: Any, headers: dict[str, Any], *, repeated: bool) -> None:
        """Add a message."""
        if not self._builders or self._builders[-1].next != number:
            part_bytes = min(BYTES_TOGETHER, self._bytes_max)
            self._builders.append(RowsBuilder(self._publisher, self._chain, number, part_bytes=part_bytes))
        self._builders[-1].add(topic, body, bytes_max=self._bytes_max, **headers)
        self.last = number
        if repeated:
            self._repeated.add(number)

    def _take(self) -> tuple[bytes, int, int] | None:
        while self._builders:
            taken = self._builders[0].take()
            if taken is not None or len(self._builders) == 1:
                return taken
            self._builders.popleft()
        return None

    def _publish_stored(self, rows: bytes, at: float, redelivered: bool) -> None:
        """Publish a message that is stored for live subscribers; those that have it drop it."""
        ((number, _),) = split_rows(rows)
        try:
            is_again = redelivered or number in self._repeated
            pass_on(self._node, rows, 0.0, redelivered=is_again, age_s=max(time.monotonic() - at, 0.0))
        except FullError:
            raise
        except ClosedError:
            return
        except ShoalError as error:
            notices.STORED_NOT_PUBLISHED(why=error).log(log)
        self._repeated.discard(number)
