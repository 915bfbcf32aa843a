"""What the HTTP interface works with: the directory, who may ask it, and requests that wait for a change."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from fastapi import HTTPException, Request

from shoal.config.tokens import Principal, Principals
from shoal.link.directory import Endpoint
from shoal.messages import registry as notices
from shoal.registry.directory import CANDIDATES, Candidate, Directory
from shoal.registry.limits import RateLimit
from shoal.registry.proof import Prover
from shoal.registry.reach import Reach
from shoal.web.audit import Audit

log = logging.getLogger("shoal.registry")

#: Requests in a second: of clients and refused programs by address, registrations by daemon and address.
LOCATES_PER_S, REFUSALS_PER_S, REGISTRATIONS_PER_S, REGISTRATIONS_PER_ADDRESS_S = 20, 10, 2, 200
#: Consoles that watch one registry.
VIEWERS_MAX = 64
#: Requests for lists that wait for a change.
WAITING_MAX = 1000

#: Asks the listener at an address for a proof: why there is none, or nothing.
Prove = Callable[[Endpoint, str, bytes], Awaitable[str | None]]


class Desk:
    """The directory, and the requests that wait for it to change. For one event loop."""

    def __init__(
        self,
        directory: Directory,
        principals: Principals | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        reach: Callable[[Endpoint], Awaitable[bool]] | None = None,
        prove: Prove | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.directory, self.principals, self.clock, self._wall = directory, principals, clock, wall
        tested = Reach(clock)
        self.reach, self.prove = reach or tested, prove or Prover()
        #: Whether an address was reached a moment ago; `None` if it has to be tried.
        self.known: Callable[[Endpoint], bool | None] = tested.known if reach is None else lambda _: None
        self.audit = audit or Audit(None, wall)
        self.locates = RateLimit(LOCATES_PER_S)
        self.registrations = RateLimit(REGISTRATIONS_PER_S)
        self.addresses = RateLimit(REGISTRATIONS_PER_ADDRESS_S)
        self.refusals = RateLimit(REFUSALS_PER_S)
        self.viewers = self.waiting = 0
        self.changed = asyncio.Event()
        self._audit_failed = False
        #: Daemons that are being asked for proofs.
        self._proving: dict[tuple[str, str], asyncio.Task[None]] = {}

    def change(self) -> None:
        """The list of some domain changed: let waiting requests look."""
        self.changed.set()
        self.changed = asyncio.Event()

    async def wait_for_change(self, domain: str, since: int, wait_s: float) -> bool:
        """Wait until the list has another stamp than `since`: whether it has."""
        until = self.clock() + wait_s
        while self.directory.stamp(domain) == since and self.clock() < until:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), until - self.clock())
        return self.directory.stamp(domain) != since

    def listing(self, domain: str) -> dict[str, Any]:
        """The list as an answer has it."""
        directory = self.directory
        return {
            "stamp": directory.stamp(domain),
            "settling": directory.is_settling(self.clock()),
            "daemons": [
                entry.shown.as_json() | {"unproved": [each.target.url for each in entry.unproved]}
                for entry in directory.entries(domain)
            ],
        }

    def loads(self, domain: str) -> dict[str, Any]:
        """How busy the daemons are, and their links, by publisher."""
        records = (entry.record.as_json() for entry in self.directory.entries(domain))
        return {each["publisher"]: {"load": each["load"], "links": each["links"]} for each in records}

    # --- who may ask ---

    def check(self, request: Request, domain: str | None, *roles: str) -> Principal | None:
        """The principal of a request; none where no tokens are asked for.

        Raises:
            HTTPException: it has no token of one of these roles in this domain.
        """
        if self.principals is None:
            return None
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        principal = self.principals.identify(text) if scheme.lower() == "bearer" else None
        if principal is None:
            self._refuse(
                request, domain, "", 401, "A token is missing or unknown: shoal token new makes one."
            )
        name = principal.name
        if principal.is_expired(self._wall()):
            day = principal.expires
            why = f"The token of {name!r} expired on {day}: shoal token new --replace makes another."
            self._refuse(request, domain, name, 401, why)
        if not principal.is_for(domain) or (domain is None and principal.domains):
            valid = ", ".join(principal.domains)
            why = f"The token of {name!r} is for the domains {valid}, not for {domain!r}."
            self._refuse(request, domain, name, 403, why)
        if principal.role not in roles and not principal.is_operator:
            wanted = " or ".join((*roles, "operator"))
            self._refuse(request, domain, name, 403, f"{name!r} is {principal.role!r}, and must be {wanted}.")
        return principal

    def _refuse(
        self, request: Request, domain: str | None, principal: str, status: int, why: str
    ) -> NoReturn:
        address = address_of(request)
        if not self.refusals.admit(self.clock(), address):
            raise HTTPException(429, f"More than {REFUSALS_PER_S} refused requests a second.")
        self.note("refused", domain=domain or "", principal=principal, address=address, detail=why)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        raise HTTPException(status, why, headers=headers)

    def note(self, action: str, **what: str) -> None:
        """Add to the audit log."""
        try:
            self.audit.add(action=action, **what)
            why = None
        except OSError as error:
            why = error.strerror
        if (why is not None) != self._audit_failed:
            self._audit_failed = why is not None
            if why is not None:
                notices.AUDIT_FAILED(why=why).log(log)

    # --- where clients are sent ---

    def ask_for_proofs(self, domain: str, publisher: str) -> None:
        """Have a daemon prove the addresses that it did not prove yet."""
        entry, key = self.directory.find(domain, publisher), (domain, publisher)
        if entry is None or not entry.unproved or not entry.secret or key in self._proving:
            return
        task = asyncio.create_task(self._prove(domain, publisher, entry.secret, entry.unproved))
        self._proving[key] = task
        task.add_done_callback(lambda _: self._proving.pop(key, None))

    async def _prove(
        self, domain: str, publisher: str, secret: bytes, endpoints: tuple[Endpoint, ...]
    ) -> None:
        async def one(endpoint: Endpoint) -> None:
            why = await self.prove(endpoint, domain, secret)
            if why is not None:
                self.directory.note_fault(domain, publisher, secret, endpoint, why)
            elif self.directory.prove(domain, publisher, secret, endpoint):
                self.change()

        await asyncio.gather(*(one(endpoint) for endpoint in endpoints))

    async def reached(self, candidates: list[Candidate]) -> list[Candidate]:
        """The first candidates that accept a connection now."""
        found: list[Candidate] = []
        for first in range(0, len(candidates), CANDIDATES):
            lot = candidates[first : first + CANDIDATES]
            known = [self.known(each.endpoint) for each in lot]
            if None in known:
                known = list(await asyncio.gather(*(self.reach(each.endpoint) for each in lot)))
            are_there = known
            found += [each for each, is_there in zip(lot, are_there, strict=True) if is_there]
            if len(found) >= CANDIDATES:
                break
        return found[:CANDIDATES]


def address_of(request: Request) -> str:
    """Where a request comes from."""
    return request.client.host if request.client is not None else ""
