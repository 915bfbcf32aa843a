"""Which store to talk to: hears what stores say of themselves, and chooses. Waits for nothing."""

from dataclasses import dataclass
from typing import Any

from shoal.bus.store_protocol import keeps

#: A store that said nothing for so long is no candidate.
SILENT_S = 5.0
#: When to ask for stores again, after the first time; then every so often.
ASK_AGAIN_S = (0.1, 0.2, 0.5, 1.0)
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
    #: It said so on a bus that only it and its clients are on.
    private: bool = False

    @classmethod
    def of(cls, body: Any) -> "Here | None":
        """What a message on `_store/here` says; none if it makes no sense."""
        try:
            return cls(
                store=str(body["store"]),
                run=str(body["run"]),
                name=str(body["name"]),
                domain=str(body["domain"]),
                urls=tuple(str(url) for url in body["urls"]),
                term=int(body["term"]),
                state=str(body["state"]),
                patterns=tuple(str(pattern) for pattern in body["patterns"]),
                memory=bool(body.get("memory", False)),
                private=bool(body.get("private", False)),
            )
        except (KeyError, TypeError, ValueError):
            return None


class Finder:
    """Stores that were heard of. For one thread at a time."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[float, Here]] = {}
        self._asked = 0
        self._ask_at: float | None = None

    def look(self, now: float) -> None:
        """Begin to ask for stores."""
        if self._ask_at is None:
            self._asked, self._ask_at = 0, now

    def on_here(self, now: float, body: Any) -> None:
        """A store said where it is."""
        here = Here.of(body)
        if here is None:
            return
        if here.state in _USABLE:
            self._heard[here.store] = (now, here)
        else:
            self._heard.pop(here.store, None)

    def forget(self, store: str) -> None:
        """A store could not be reached: wait until it is heard of again."""
        self._heard.pop(store, None)

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
            if (memory or not here.memory) and (destination is None or keeps(here.patterns, destination))
        ]
        if not candidates:
            return None
        best = min(candidates, key=lambda here: (here.memory, here.store != current, -here.term, here.store))
        self._ask_at = None
        return best

    def others(self, now: float, destination: str) -> str:
        """Stores that were heard of, and what each keeps, if none keeps a destination: for people."""
        heard = [here for at, here in self._heard.values() if now - at < SILENT_S and not here.memory]
        if any(keeps(here.patterns, destination) for here in heard):
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
