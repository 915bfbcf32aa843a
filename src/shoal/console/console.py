"""A console at work.

It looks at the domain once a second, wakes viewers, and writes every act into the audit log.

Everything here runs on one event loop, but looks and acts, which wait for others: those run on threads.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException

import shoal
from shoal.bus.log_limit import LogLimit
from shoal.console.access import Access, Caller
from shoal.console.acts import Acts
from shoal.console.history import Histories
from shoal.console.hosts import Hosts
from shoal.console.picture import Picture
from shoal.console.source import Source
from shoal.errors import ShoalError
from shoal.messages import console as notices
from shoal.web.audit import Audit

log = logging.getLogger("shoal.console")

#: How often it looks.
EVERY_S = 1.0
#: The same while a node missed a question, and is not known to be silent.
UNSURE_S = 0.6
#: Streams of one kind at once: viewers of the state, and live watches of topics.
VIEWERS_MAX, WATCHES_MAX = 64, 16


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What a console is made of."""

    source: Source
    access: Access
    audit: Audit
    histories: Histories
    domain: str
    #: None in a console that only shows a simulated domain.
    bus: shoal.Bus | None = None
    acts: Acts | None = None
    hosts: Hosts | None = None


class Console:
    """The console, without HTTP."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.picture = Picture(secrets.token_hex(4), parts.domain)
        self.viewers = self.watches = 0
        self._changed = asyncio.Event()
        self._limit = LogLimit()

    # --- looking ---

    async def run(self) -> None:
        """Look again and again, until it is cancelled."""
        while True:
            began = time.monotonic()
            try:
                look = await asyncio.to_thread(self.parts.source.look)
                self.picture.update(look)
                self.wake()
            except ShoalError as error:
                self._say(notices.LOOK_FAILED(why=error))
            if (why := self.parts.access.tokens.refresh()) is not None:
                self._say(notices.CONSOLE_TOKENS_UNREADABLE(why=why))
            every_s = UNSURE_S if self.picture.is_unsure else EVERY_S
            await asyncio.sleep(max(0.05, began + every_s - time.monotonic()))

    def _say(self, line: Any) -> None:
        if (admitted := self._limit.admit(line.notice.id, line)) is not None:
            admitted.log(log)

    def wake(self) -> None:
        """Let viewers see what changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_change(self, timeout_s: float) -> bool:
        """Wait until something changed; false if the time was over first."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    @contextlib.contextmanager
    def viewing(self) -> Iterator[None]:
        """Count a viewer while this lasts."""
        self.viewers += 1
        try:
            yield
        finally:
            self.viewers -= 1

    # --- acting ---

    async def act(
        self,
        caller: Caller,
        what: str,
        target: str,
        do: Callable[[], dict[str, Any]],
        *,
        before: Callable[[], Any] | None = None,
    ) -> dict[str, Any]:
        """Do something on a thread. Who does it is noted before, and what came of it after."""

        def run() -> dict[str, Any]:
            was = None if before is None else before()
            # What cannot be noted is not done.
            begun = self.note(caller, what, target, before=was, result="begun")
            try:
                result = do()
            except Exception as error:
                why = error.detail if isinstance(error, HTTPException) else error
                self.note(caller, what, target, result=f"failed: {why}", of=begun)
                raise
            self.note(caller, what, target, result="done", of=begun, **result)
            self.parts.source.hurry()
            return result

        return await asyncio.to_thread(run)

    def note(
        self, caller: Caller, what: str, target: str, *, result: str, before: Any = None, **more: Any
    ) -> int:
        """Write an act into the audit log: the number of its line.

        Raises:
            HTTPException: it cannot be written.
        """
        fields = {
            "who": caller.name,
            "role": caller.role,
            "from": caller.address,
            "act": what,
            "target": target,
        }
        if before is not None:
            fields["before"] = before
        plain = {name: value for name, value in more.items() if isinstance(value, int | float | str)}
        try:
            return int(self.parts.audit.add(**fields, result=result, **plain)["n"])
        except OSError as error:
            why = error.strerror or str(error)
            notices.CONSOLE_AUDIT_FAILED(path=self.parts.audit.path, why=why).log(log)
            raise HTTPException(503, f"The audit log cannot be written: {why}.") from None
