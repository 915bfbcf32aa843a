"""A NORM session on real sockets. Thin: the protocol and its thread are the extension module's."""

import atexit
import dataclasses
import logging
import os
import secrets
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, Unpack

from shoal import _core
from shoal.config import NormConfig, NormOptions
from shoal.config.keys import keys_of
from shoal.config.norm import link_options
from shoal.errors import ClosedError, ConfigError, FlushError, FullError
from shoal.messages import norm as notices
from shoal.norm.events import Event, WatermarkDone
from shoal.norm.inbox import Inbox
from shoal.norm.ledger import Ledger

#: How often to try again while there is no room for an object.
_ROOM_INTERVAL_S = 0.002

log = logging.getLogger("shoal.norm")

_open: "weakref.WeakSet[SessionBase]" = weakref.WeakSet()


@dataclass(frozen=True, slots=True)
class Acknowledgements:
    """Which receivers have everything, and which did not answer. True if all have."""

    acked: tuple[int, ...]
    silent: tuple[int, ...]

    def __bool__(self) -> bool:
        return not self.silent


class SessionBase:
    """What the threaded and the asyncio session have in common. Waits for nothing."""

    def __init__(self, config: NormConfig | None = None, **options: Unpack[NormOptions]) -> None:
        #: What it was told, and what was chosen where it was told nothing.
        self.config: NormConfig = _resolved((config or NormConfig()).with_options(**options))
        keys = keys_of(self.config.key, self.config.key_file)
        self._link = _core.NormLink(**link_options(self.config), keys=keys)
        self._ledger = Ledger()
        self._ackers = self.config.ackers
        self._lanes_used: set[int] = set()
        self._closed = False
        _open.add(self)

    @property
    def node(self) -> int:
        """Our node id, by which senders list us as an acker."""
        assert self.config.node is not None
        return self.config.node

    @property
    def closed(self) -> bool:
        """Whether it was closed; what has arrived can still be received."""
        return self._closed

    @property
    def rate_bytes_per_s(self) -> float | None:
        """The rate to send at, as rate control has it now; `None` is without limit."""
        return self._link.rate_bytes_per_s

    @property
    def grtt_s(self) -> float:
        """The group's round-trip time, as measured so far."""
        return self._link.grtt_s

    def _say_unheard(self) -> None:
        """Nothing came in time: perhaps because a member has another key."""
        if (why := self._link.take_socket_error()) is not None:
            notices.NOTHING_HEARD(session=self, why=why).log(log)

    def stats(self) -> dict[str, int]:
        """What was sent, received, repaired and refused so far; counters only grow."""
        return self._link.stats()

    def reload_keys(self) -> None:
        """Read the key file again, and go on with the keys in it: the first encrypts, all of them decrypt."""
        keys = keys_of(self.config.key, self.config.key_file)
        if keys is None or not self._link.set_keys(keys):
            raise ConfigError("this session has no key: make it with key_file, or set SHOAL_KEY_FILE")

    def cancel(self, object: int) -> bool:
        """Stop sending an object; receivers that miss parts of it give it up. False if it is not kept."""
        self._ledger.forget(object_number(object))
        return self._link.cancel_object(object)

    def send_command(self, content: bytes, *, times: int = 1) -> bool:
        """Send something short to all receivers, some times because it is not repaired.

        False if the last command is still being repeated.
        """
        if not 1 <= times <= 0xFFFF_FFFF:
            raise ConfigError(f"times is {times}, and must be at least 1")
        return self._link.send_command(content, times)

    def request_acks(self, nodes: Sequence[int], *, ack_type: int = 16, ack_id: int = 0) -> bool:
        """Ask nodes for an acknowledgement of the application's own; `AcksDone` tells who gave it.

        False if the last question is still open.
        """
        for name, value, least in (("ack_type", ack_type, 16), ("ack_id", ack_id, 0)):
            if not least <= value <= 255:
                raise ConfigError(f"{name} is {value}, and must be from {least} to 255")
        return self._link.request_acks(ack_type, ack_id, list(nodes))

    def set_ackers(self, nodes: Sequence[int]) -> None:
        """Say whose acknowledgements count from now on."""
        ackers = dataclasses.replace(self.config, ackers=tuple(nodes)).ackers
        self._link.set_ackers(ackers)
        self._ackers = ackers

    def _newest(self) -> set[int]:
        newest = self._ledger.newest
        return self._lanes_used | (set() if newest is None else {newest})

    def _check_lane(self, lane: int) -> None:
        if not 0 <= lane < self.config.lanes:
            raise ConfigError(f"lane is {lane}, and must be below lanes, which are {self.config.lanes}")

    def _check_ackers(self) -> None:
        if not self._ackers:
            raise ConfigError("ackers is empty: name the nodes to wait for, as an option or with set_ackers")

    def _acknowledged(self, outcomes: list[WatermarkDone]) -> "Acknowledgements":
        silent = {node for outcome in outcomes for node in outcome.silent}
        return Acknowledgements(
            tuple(node for node in self._ackers if node not in silent), tuple(sorted(silent))
        )

    def _describe(self, name: str) -> str:
        state = " closed" if self._closed else ""
        return f"<{name} node {self.node} on {self.config.group} port {self.config.port}{state}>"


class Session(SessionBase):
    """Sends to a group, and receives from all its senders. May be shared between threads.

    ```python
    import shoal.norm

    with shoal.norm.Session(interface="lo", lanes=0) as session:
        number = session.send_file("report.pdf", info=b"report.pdf")
        for event in session.events(timeout_s=5):
            print(event)
    ```

    One without a reference is closed without lingering.
    """

    def __init__(self, config: NormConfig | None = None, **options: Unpack[NormOptions]) -> None:
        """Join the group. Options are fields of `NormConfig`; they replace those of `config`, if given."""
        super().__init__(config, **options)
        self._inbox = Inbox(self._link.receive, self._ledger)
        self._flushing = threading.Lock()

    def send(self, body: bytes, lane: int = 0, *, timeout_s: float | None = None) -> None:
        """Send a message on a stream; `FullError` if there is no room for it in time."""
        self._check_lane(lane)
        self._link.send(body, lane, timeout_s)
        self._lanes_used.add(lane)

    def send_data(self, content: bytes, *, info: bytes = b"", timeout_s: float | None = None) -> int:
        """Send bytes as one object, with NORM_INFO, and return its number.

        They are kept for repair until newer objects need their place. `FullError` if there is no room in
        time.
        """
        return self._send_object(lambda: self._link.send_data(content, info), timeout_s)

    def send_file(
        self, path: str | os.PathLike[str], *, info: bytes = b"", timeout_s: float | None = None
    ) -> int:
        """Send a file and return its number; `FullError` if there is no room for another one in time.

        It is read while it is sent and repaired: leave it as it is until it is acknowledged, or the session
        is closed. By custom `info` is its name.
        """
        return self._send_object(lambda: self._link.send_file(Path(path), info), timeout_s)

    def _send_object(self, attempt: Callable[[], int | None], timeout_s: float | None) -> int:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while (number := self._ledger.keep(attempt)) is None:
            if deadline is not None and time.monotonic() >= deadline:
                raise no_room(timeout_s)
            time.sleep(_ROOM_INTERVAL_S)
        return number

    def request_watermark(self, object: int = 0) -> None:
        """Ask the ackers whether they have an object, or everything sent on a stream; `WatermarkDone` tells.

        Streams are numbered as their lanes are. `flush` asks and waits.
        """
        object_number(object)
        self._link.wait_written()
        self._link.request_watermark(object)

    def flush(self, object: int | None = None, *, timeout_s: float | None = 10.0) -> Acknowledgements:
        """Wait until every acker has everything that was sent, or one object and all before it.

        Returns who has, and who did not answer for `acker_patience_s`. `FlushError` if that is not known in
        time. Events that come meanwhile are kept for `receive`, 64 MB of them.
        """
        self._check_ackers()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        with self._flushing:
            if not self._link.wait_written(timeout_s):
                raise FlushError(f"the streams took not everything within {timeout_s} s", self._ackers)
            # What is on its way here belongs to earlier requests.
            self._inbox.wait_until(lambda: False, 0.0)
            objects = self._newest() if object is None else {object_number(object)}
            self._ledger.expect(objects)
            for number in sorted(objects):
                self._link.request_watermark(number)
            left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            self._inbox.wait_until(lambda: self._ledger.outcomes() is not None, left_s)
            outcomes = self._ledger.outcomes()
        if outcomes is None:
            raise FlushError(f"not every acker answered within {timeout_s} s", self._ackers)
        return self._acknowledged(outcomes)

    def receive(self, timeout_s: float | None = None) -> Event | None:
        """The next message or event; `None` if none came in time. `ClosedError` once closed and empty."""
        event = self._inbox.take(timeout_s)
        if event is None:
            self._say_unheard()
        return event

    def events(self, timeout_s: float | None = None) -> Iterator[Event]:
        """Messages and events as they come; ends after `timeout_s` of quiet, or with the session."""
        try:
            while (event := self.receive(timeout_s)) is not None:
                yield event
        except ClosedError:
            return

    def close(self, linger_s: float = 1.0) -> bool:
        """Send what waits, within `linger_s`, and leave the group.

        True if every acker has everything; without ackers, if it was announced as often as `robust_factor`
        says. What arrived can still be received.
        """
        self._closed = True
        return self._link.close(linger_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return self._describe("shoal.norm.Session")


def no_room(timeout_s: float | None) -> FullError:
    """The error where no room came for an object."""
    return FullError(
        f"no room for another object within {timeout_s} s: those that are kept wait to be sent "
        "or acknowledged; send_objects_max and send_cache_bytes_max bound them"
    )


def object_number(object: int) -> int:
    """The number of an object or stream, which has 16 bits."""
    if not 0 <= object <= 0xFFFF:
        raise ConfigError(f"object is {object}, and must be from 0 to 65535")
    return object


def _resolved(config: NormConfig) -> NormConfig:
    """A configuration in which nothing is left to chance."""
    return dataclasses.replace(
        config,
        node=secrets.choice(range(1, 0xFFFF_FFFF)) if config.node is None else config.node,
        instance=secrets.randbits(16) if config.instance is None else config.instance,
        seed=secrets.randbits(63) if config.seed is None else config.seed,
    )


@atexit.register
def _close_all() -> None:
    for session in list(_open):
        session._link.close(0.2)
