"""Which store to talk to: hears what stores say of themselves, and chooses. Waits for nothing."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.bus.store_protocol import keeps
from shoal.types import is_text

#: A store that said nothing for this time is no candidate.
SILENT_S = 5.0
#: When to ask for stores again, after the first time; then every so often.
ASK_AGAIN_S = (0.1, 0.2, 0.5, 1.0)
#: Stores of which a client knows at once; more are ignored until some fall silent.
HEARD_MAX = 1000
#: Names, addresses and patterns that a store may say, and how long each may be.
NAMES_MAX, NAME_CHARACTERS_MAX = 100, 1000
#: What did not prove to be a store is tried again after this.
BAN_S = 30.0
#: A store's id, and its addresses.
Place = tuple[str, tuple[str, ...]]
#: A store's id is part of the topic that it hears requests on.
_STORE_ID = re.compile(r"[0-9a-f]{1,16}")
#: States in which a store can be talked to. One that is full still gives what it has.
_USABLE = ("open", "full")


@dataclass(frozen=True, slots=True)
class Here:
    """What a store said of itself."""

    store: str
    run: str
    name: str
    domain: str
    urls: tuple[str, ...]
    term: int
    state: str
    #: Destinations it keeps.
    patterns: tuple[str, ...]
    #: It keeps nothing: the one among the members that has queues where the domain has no store.
    memory: bool
    #: Destinations that it takes, and forwards to the store that keeps them.
    forwards: tuple[str, ...] = ()
    #: It said so on a bus that only it and its clients are on.
    private: bool = False

    @property
    def place(self) -> "Place":
        """Which store, and where: another one may say the same id."""
        return (self.store, self.urls)

    def takes(self, destination: str) -> bool:
        """Whether it keeps a destination, or forwards it."""
        return keeps([*self.patterns, *self.forwards], destination)

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> "Here | None":
        """What a message on `_store/here` says; none if it makes no sense."""
        texts = [body.get(name) for name in ("store", "run", "name", "domain", "state")]
        urls, patterns, term = body.get("urls"), body.get("patterns"), body.get("term")
        if not all(_is_name(text) for text in texts) or not _STORE_ID.fullmatch(str(texts[0])):
            return None
        if not _is_names(urls) or not _is_names(patterns):
            return None
        forwards = body.get("forwards", [])
        if not _is_names(forwards) or not isinstance(term, int) or not 0 <= term < 1 << 63:
            return None
        store, run, name, domain, state = map(str, texts)
        return cls(
            store=store,
            run=run,
            name=name,
            domain=domain,
            urls=tuple(urls or ()),
            term=term,
            state=state,
            patterns=tuple(patterns or ()),
            memory=body.get("memory") is True,
            forwards=tuple(forwards),
            private=body.get("private") is True,
        )


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= NAME_CHARACTERS_MAX and is_text(value)


def _is_names(value: object) -> bool:
    return isinstance(value, list) and len(value) <= NAMES_MAX and all(_is_name(each) for each in value)


class Finder:
    """Stores that were heard of. For one thread at a time."""

    def __init__(self) -> None:
        self._heard: dict[Place, tuple[float, Here]] = {}
        #: What did not prove to be the store that it says it is, and until when it is not tried again.
        self._banned: dict[Place, float] = {}
        self._asked = 0
        self._ask_at: float | None = None

    def look(self, now: float) -> None:
        """Begin to ask for stores."""
        if self._ask_at is None:
            self._asked, self._ask_at = 0, now

    def on_here(self, now: float, body: Mapping[str, Any]) -> None:
        """A store said where it is."""
        here = Here.of(body)
        if here is None:
            return
        if here.state in _USABLE:
            if here.place not in self._heard and len(self._heard) >= HEARD_MAX:
                return
            self._heard[here.place] = (now, here)
        else:
            self._heard.pop(here.place, None)

    def forget(self, here: Here) -> None:
        """A store could not be reached: wait until it is heard of again."""
        self._heard.pop(here.place, None)

    def ban(self, now: float, here: Here) -> None:
        """What says that it is a store did not prove it: do not try it again for a while."""
        if len(self._banned) >= HEARD_MAX:
            self._banned.clear()
        self._banned[here.place] = now + BAN_S

    def choose(
        self, now: float, current: str | None, *, memory: bool = True, destination: str | None = None
    ) -> Here | None:
        """The store to talk to: the one in use, if it is there, and one that keeps before others.

        Without `memory` only one that keeps will do; with a `destination` only one to which that belongs.
        """
        self._heard = {key: heard for key, heard in self._heard.items() if now - heard[0] < SILENT_S}
        candidates = [
            here
            for _, here in self._heard.values()
            if now >= self._banned.get(here.place, 0.0)
            and (memory or not here.memory)
            and (destination is None or here.takes(destination))
        ]
        if not candidates:
            return None

        def rank(here: Here) -> tuple[Any, ...]:
            # A store that forwards will do while the keeper of a destination is not heard.
            is_way = destination is not None and not keeps(here.patterns, destination)
            return (here.memory, is_way, here.store != current, -here.term, here.store)

        best = min(candidates, key=rank)
        self._ask_at = None
        return best

    def patterns(self, now: float) -> list[tuple[str, ...]]:
        """What each store keeps that was heard of."""
        return [here.patterns for at, here in self._heard.values() if now - at < SILENT_S and not here.memory]

    def others(self, now: float, destination: str) -> str:
        """Stores that were heard of, and what each keeps, if none keeps a destination: for people."""
        heard = [here for at, here in self._heard.values() if now - at < SILENT_S and not here.memory]
        if any(here.takes(destination) for here in heard):
            return ""
        return "; ".join(f"{here.name!r} keeps {', '.join(here.patterns)}" for here in heard)

    def should_ask(self, now: float) -> bool:
        """Whether to ask for stores now; asking less often each time."""
        if self._ask_at is None or now < self._ask_at:
            return False
        wait_s = ASK_AGAIN_S[min(self._asked, len(ASK_AGAIN_S) - 1)]
        self._asked, self._ask_at = self._asked + 1, now + wait_s
        return True

    def poll_timeout(self) -> float | None:
        """When to ask next."""
        return self._ask_at
