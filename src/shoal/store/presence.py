"""That a store is here, said on the domain's bus; and which others are, so that two never keep the same."""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from shoal._core import Log, match_topics
from shoal.bus.log_limit import LogLimit
from shoal.bus.store_protocol import HERE, VERSION, WHO, body_of
from shoal.bus.sync import Bus
from shoal.errors import ClosedError, FullError, InvalidTopicError, ShoalError, StoreError
from shoal.messages import named
from shoal.messages import store as notices
from shoal.store.machine import Identity

log = logging.getLogger("shoal.store")

#: How often a store says that it is here.
HERE_EVERY_S = 1.0
#: How long a store listens for others before it says that it is here.
LISTEN_S = 0.5
#: Others that keep the same, of which a store knows at once.
RIVALS_MAX = 100
#: Patterns that another store may have; what says that it has more is no store.
PATTERNS_MAX = 100
#: How often it looks whether somebody asked.
TURN_S = 0.05


def overlap(one: list[str], other: list[str]) -> bool:
    """Whether two sets of patterns can match the same destination, as far as patterns alone tell."""
    plain = [pattern for pattern in (*one, *other) if "*" not in pattern and ">" not in pattern]
    if any(match_topics(one, [topic]) and match_topics(other, [topic]) for topic in plain):
        return True
    return any(_meet(left.split("/"), right.split("/")) for left in one for right in other)


def _overlaps(mine: list[str], theirs: list[Any]) -> bool:
    """The same for what another says its patterns are; what are none match nothing."""
    try:
        patterns = [str(each) for each in theirs]
        match_topics(patterns, [])
        return overlap(mine, patterns)
    except (InvalidTopicError, UnicodeEncodeError):
        return False


def _meet(left: list[str], right: list[str]) -> bool:
    for mine, theirs in zip(left, right, strict=False):
        if ">" in (mine, theirs):
            return True
        if mine != theirs and "*" not in (mine, theirs):
            return False
    return len(left) == len(right)


def description(
    log_: Log,
    identity: Identity,
    since: float,
    urls: list[str],
    state: str,
    domain: str,
    *,
    memory: bool = False,
) -> dict[str, Any]:
    """What a store says of itself."""
    return {
        "version": VERSION,
        "store": f"{log_.store_id:016x}",
        "name": identity.name,
        "domain": domain,
        "incarnation": log_.incarnation,
        "term": identity.term,
        "run": identity.run,
        "patterns": list(identity.patterns),
        "forwards": list(identity.forwards),
        "urls": urls,
        "state": state,
        "end": log_.durable_end,
        "since": since,
        "memory": memory,
    }


class Presence:
    """Says that a store is here, and hears of others. `failed` is called if another one keeps the same."""

    def __init__(
        self,
        bus: Bus,
        describe: Callable[[], dict[str, Any]],
        failed: Callable[[BaseException], None],
        *,
        doors: list[Bus],
        listen_s: float = LISTEN_S,
        gives_way: bool = True,
        is_grouped: bool = False,
    ) -> None:
        """With `gives_way` the store ends for one that was here earlier, though that proves nothing.

        Of a group's stores, elections decide which one serves.
        """
        self._gives_way = gives_way
        self._is_grouped = is_grouped
        self._bus = bus
        self._describe = describe
        self._failed = failed
        #: Where else somebody may ask who is here.
        self._doors = doors
        self._since_s = time.monotonic()
        self._open_at_s = self._since_s + listen_s
        self._stopping = threading.Event()
        #: Set once the store has said that it is here: nobody else keeps the same.
        self.open = threading.Event()
        self._said_at_s = 0.0
        #: Runs of others that were here earlier and keep the same, and when they were first heard of.
        self._rivals: dict[str, float] = {}
        self._log_limit = LogLimit()
        self._asked = [each.subscribe(WHO, queue_full="drop_old") for each in (bus, *doors)]
        self._others = bus.subscribe(HERE, no_local=True, queue_full="drop_old")
        self._thread = threading.Thread(target=self._run, name="shoal-here", daemon=True)

    def start(self) -> None:
        """Ask who is there, and begin to say that we are."""
        self._thread.start()

    def _run(self) -> None:
        try:
            self._publish(self._bus, WHO, {})
            while not self._stopping.is_set():
                self._look()
                now_s = time.monotonic()
                if now_s >= self._open_at_s:
                    asked = [each.receive_nowait() for each in self._asked]
                    if any(asked) or now_s - self._said_at_s >= HERE_EVERY_S:
                        self._said_at_s = now_s
                        self._say()
                self._stopping.wait(TURN_S)
        except ClosedError:
            return
        except ShoalError as error:
            if not self._stopping.is_set():
                self._failed(error)
        except Exception as error:
            # A mistake of ours. A store that nobody finds any more is none.
            notices.PRESENCE_FAILED(why=named(error)).log(log, exc_info=error)
            self._failed(StoreError(f"the store can no longer say that it is here: {error!r}"))

    def _look(self) -> None:
        for message in self._others.receive_nowait():
            body = body_of(message)
            if body is not None:
                self._meet(body)

    def _meet(self, other: dict[str, Any]) -> None:
        """Another store is here: whoever came later gives way."""
        mine = self._describe()
        if other.get("memory") or mine["memory"] or other.get("run") == mine["run"]:
            return
        if self._is_grouped and other.get("store") == mine["store"]:
            return
        patterns, since, run = other.get("patterns"), other.get("since"), other.get("run")
        if not isinstance(patterns, list) or not isinstance(since, int | float) or not isinstance(run, str):
            return
        if len(patterns) > PATTERNS_MAX:
            log.debug("what says that it is a store has %d patterns, and is ignored", len(patterns))
            return
        if not _overlaps(mine["patterns"], patterns):
            return
        if self.open.is_set() and (
            (mine["since"], mine["run"]) < (since, run) or not self._is_confirmed(run)
        ):
            return
        if self.open.is_set() and not self._gives_way:
            name = f"{other.get('name')!r:.100}"
            if (line := self._log_limit.admit("rival", notices.RIVAL_UNPROVEN(name=name))) is not None:
                line.log(log)
            return
        raise StoreError(
            f"the store {other.get('name')!r} (id {other.get('store')}, at {other.get('urls')}) keeps"
            f" {', '.join(map(str, patterns))} in this domain already: give this one other patterns, or stop"
            " that one"
        )

    def _is_confirmed(self, run: str) -> bool:
        """Whether another store has said so before: a single message does not stop one that serves."""
        now_s = time.monotonic()
        if len(self._rivals) >= RIVALS_MAX:
            self._rivals.clear()
        return now_s - self._rivals.setdefault(run, now_s) >= HERE_EVERY_S / 2

    def _say(self) -> None:
        body = self._describe()
        self._publish(self._bus, HERE, body)
        for door in self._doors:
            self._publish(door, HERE, {**body, "private": True})
        self.open.set()

    def _publish(self, bus: Bus, topic: str, body: dict[str, Any]) -> None:
        try:
            bus.publish(topic, body, timeout_s=0.5)
        except FullError:
            log.debug("no member takes %s now", topic)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        for subscription in (*self._asked, self._others):
            subscription.close()
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join()
