"""Finds the daemon that a `locate://` connection leads to, by asking registries. Has no thread of its own.

A daemon that failed a moment ago is asked for last. If no registry answers, the daemons of the last answer
are tried, for a day. Registries hold no connection: one that is away affects only programs that look for a
daemon.
"""

import contextlib
import hashlib
import ipaddress
import json
import os
import random
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from shoal.config.connection import REGISTRY_PORT
from shoal.config.target import Target
from shoal.config.tokens import TokenSource
from shoal.errors import LinkError, LinkRefusedError, ShoalError
from shoal.link.directory import endpoint_of
from shoal.link.registry_client import Candidate, Located, RegistryClient

#: A locator avoids a daemon that failed for this time.
AVOID_S = 30.0
#: A locator uses the last answer for this time while no registry answers.
KEEP_S = 24 * 3600.0
#: Daemons whose addresses are remembered.
KNOWN_MAX = 64


def registry_urls(places: str, *, has_authority: bool = False) -> list[str]:
    """The URLs of registries named as `host:port,host:port`.

    They are https, except on this machine without an authority of their certificates.
    """
    found = []
    for place in places.split(","):
        parts = urlsplit(f"//{place.strip()}")
        host = parts.hostname or ""
        scheme = "http" if _is_loopback(host) and not has_authority else "https"
        found.append(f"{scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or REGISTRY_PORT}")
    return found


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


class Locator:
    """The registries of one connection. May be shared between threads."""

    def __init__(
        self,
        places: str,
        domain: str,
        *,
        transport: str | None = None,
        token_file: str | None = None,
        ca: str | None = None,
        cache: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        urls = registry_urls(places, has_authority=ca is not None)
        self._clients = [RegistryClient(url, domain, token=TokenSource(token_file), ca=ca) for url in urls]
        self._transport, self._clock = transport, clock
        self._lock = threading.Lock()
        #: Daemons that failed, by publisher, and until when they are avoided.
        self._avoided: dict[str, float] = {}
        self._last: dict[Target, str] = {}
        name = hashlib.sha256(f"{places} {domain} {transport}".encode()).hexdigest()[:16]
        self._cache = (cache or _cache_folder()) / f"{name}.json"

    def find(self) -> Target:
        """The daemon to connect to now. Asks one registry after the other.

        Raises:
            LinkError: no registry answers and none is remembered, or no daemon has room.
            LinkRefusedError: a registry refuses this client's token.
        """
        with self._lock:
            now = self._clock()
            self._avoided = {each: until for each, until in self._avoided.items() if until > now}
            avoided = tuple(self._avoided)
            found = self._ask(avoided) or (self._ask(()) if avoided else [])
            if not found:
                raise LinkError("No daemon of the domain has a free connection that can be reached.")
            self._know(found[:1])
            return found[0].endpoint.target

    def better(self, publisher: int | None) -> Located:
        """Daemons that may be better than the one with this publisher; none if no registry answers."""
        current = None if publisher is None else f"{publisher:016x}"
        with self._lock:
            now = self._clock()
            avoided = tuple(each for each, until in self._avoided.items() if until > now)
            for client in random.sample(self._clients, len(self._clients)):
                with contextlib.suppress(LinkError):
                    found = client.locate(transport=self._transport, exclude=avoided, current=current)
                    self._know(found.candidates)
                    return found
        return Located(())

    def _know(self, found: Iterable[Candidate]) -> None:
        """Which daemon is at which address, for the last of them."""
        self._last.update({each.endpoint.target: each.publisher for each in found})
        while len(self._last) > KNOWN_MAX:
            del self._last[next(iter(self._last))]

    def avoid(self, target: Target) -> None:
        """A daemon failed: try others first for a while."""
        with self._lock:
            publisher = self._last.pop(target, None)
            if publisher is not None:
                self._avoided[publisher] = self._clock() + AVOID_S

    def _ask(self, avoided: tuple[str, ...]) -> list[Candidate]:
        why: ShoalError | None = None
        for client in random.sample(self._clients, len(self._clients)):
            try:
                found = list(client.locate(transport=self._transport, exclude=avoided).candidates)
            except LinkRefusedError:
                raise
            except LinkError as error:
                why = error
                continue
            self._remember(found)
            return found
        remembered = [each for each in self._remembered() if each.publisher not in avoided]
        if not remembered and why is not None and not avoided:
            raise why
        return remembered

    def _remember(self, found: list[Candidate]) -> None:
        """Keep the answer for times without a registry. What cannot be written is not missed."""
        daemons = [each.endpoint.as_json() | {"publisher": each.publisher} for each in found]
        with contextlib.suppress(OSError):
            self._cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            unfinished = self._cache.with_suffix(f".{os.getpid()}")
            unfinished.write_text(json.dumps({"at": self._clock(), "daemons": daemons}), encoding="utf-8")
            unfinished.replace(self._cache)

    def _remembered(self) -> list[Candidate]:
        try:
            kept = json.loads(self._cache.read_text(encoding="utf-8"))
            if not 0 <= self._clock() - float(kept["at"]) <= KEEP_S:
                return []
            return [
                Candidate(endpoint_of(each), str(each["publisher"]), "remembered") for each in kept["daemons"]
            ]
        except (OSError, ValueError, KeyError, TypeError):
            return []


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "shoal" / "locate"
