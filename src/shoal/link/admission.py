"""Who is let in at a listener: what the owner's function, or a list of names and networks, says of a guest.

A guest is a program that connected, whose certificate was checked if it has one, and that said hello in our
version and domain. It waits until it is decided, five seconds at the most. No sockets here.
"""

import fnmatch
import inspect
import ipaddress
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from shoal.errors import ConfigError, LinkRefusedError
from shoal.messages import link as notices
from shoal.messages import named
from shoal.threads import start

#: Guests that wait to be decided about, at the most; beyond it they have to come again.
WAITING_MAX = 128
#: The extension refuses a guest that waited for this time.
PATIENCE_S = 5.0

log = logging.getLogger("shoal.link")


@dataclass(frozen=True, kw_only=True, slots=True)
class Guest:
    """A program that wants to be let in."""

    #: The listener that it came to: the URL that `listen` returned.
    link: str
    #: Where it comes from, such as `10.0.0.7:51234`.
    address: str
    #: The name that it proved by its certificate; empty where it was not asked for one.
    identity: str
    #: Its node id.
    node: int
    #: Who publishes there.
    publisher: int


#: Decides about a guest: whether it is let in. It may raise `LinkRefusedError` with a reason, which the guest
#: hears.
Admit = Callable[[Guest], bool]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a guest is not let in."""

    why: str
    #: `refused` for good; `busy` for now; `answered` as it wished; sent `elsewhere`.
    kind: Literal["refused", "busy", "answered", "elsewhere"] = "refused"

    @property
    def is_quiet(self) -> bool:
        """Whether it is not reported."""
        return self.kind in ("answered", "elsewhere")


#: What the parts of this package that decide may answer besides.
Decide = Callable[[Guest], bool | Verdict]


def check_admit(admit: object) -> None:
    """Refuse what cannot decide."""
    if not callable(admit):
        raise TypeError(f"admit is {admit!r}, and must be a function that takes a guest and returns a bool")
    if inspect.iscoroutinefunction(admit):
        raise TypeError(f"admit is {admit!r}, and must be a plain function: a thread of its own calls it")


def refusal(admit: Decide, guest: Guest) -> Verdict | None:
    """Why a guest is not let in; `None` if it is. A mistake of the deciding function lets no guest in."""
    try:
        answer = admit(guest)
    except LinkRefusedError as error:
        return Verdict(str(error) or "it is not let in")
    except BaseException as error:
        # On a thread of ours the log is the only place to say so.
        notices.ADMIT_FAILED(address=guest.address, link=guest.link, why=named(error)).log(
            log, exc_info=error
        )
        return Verdict("the function that decides who is let in failed")
    if isinstance(answer, Verdict):
        return answer
    if answer is True:
        return None
    if answer is False:
        return Verdict("it is not let in")
    notices.ADMIT_UNDECIDED(address=guest.address, link=guest.link, answer=repr(answer)).log(log)
    return Verdict("the function that decides who is let in did not say")


class Allowed:
    """Lets in whom a list names: certificates by name, where `*` stands for anything, and networks."""

    def __init__(self, entries: Iterable[str]) -> None:
        self.names: list[str] = []
        self.networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in entries:
            try:
                self.networks.append(ipaddress.ip_network(entry))
            except ValueError as error:
                if "/" in entry or ":" in entry:
                    raise ConfigError(
                        f"{entry!r} is no network ({error}), and no name of a certificate"
                    ) from None
                self.names.append(entry)

    def __call__(self, guest: Guest) -> bool:
        """Whether a guest is on the list."""
        if guest.identity and any(fnmatch.fnmatchcase(guest.identity, name) for name in self.names):
            return True
        address = _ip(guest.address)
        if address is not None and any(address in network for network in self.networks):
            return True
        who = f"{guest.identity!r} at {guest.address}" if guest.identity else guest.address
        raise LinkRefusedError(f"{who} is not on the list of programs that are let in (allow)")


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    host = address.rpartition(":")[0].strip("[]").partition("%")[0]
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


class Doorkeeper:
    """Asks about guests, one after the other, on a thread of its own: a decision may take a moment."""

    def __init__(self, decided: Callable[[int, Guest, Verdict | None], object]) -> None:
        """`decided` is called with why a guest is refused, or `None`; it must keep nothing alive."""
        self._waiting: queue.Queue[tuple[float, int, Decide, Guest] | None] = queue.Queue(WAITING_MAX)
        self._decided = decided
        self._stopped = False
        start(threading.Thread(target=self._run, name="shoal-admit", daemon=True))

    def ask(self, connection: int, admit: Decide, guest: Guest) -> bool:
        """Have it decided about a guest; false if too many wait."""
        try:
            self._waiting.put_nowait((time.monotonic(), connection, admit, guest))
        except queue.Full:
            return False
        return True

    def stop(self) -> None:
        """Ask no more; the thread ends by itself."""
        self._stopped = True
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            # It finds out with the next guest.
            return

    def _run(self) -> None:
        while (waiting := self._waiting.get()) is not None and not self._stopped:
            came_s, connection, admit, guest = waiting
            if time.monotonic() < came_s + PATIENCE_S:
                self._decided(connection, guest, refusal(admit, guest))
