"""A console without a network: what it shows is made up, and its acts are recorded."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from shoal.config.tokens import Token
from shoal.console.console import Console
from shoal.console.look import Look
from shoal.errors import InUseError, InvalidDestinationError

HOST = "127.0.0.1:7481"
ORIGIN = f"http://{HOST}"
COOKIE = "shoal-console-7481"


class Still:
    """A source of one look."""

    def hurry(self) -> None:
        pass

    def look(self) -> Look:
        queues = [{"queue": "orders", "name": "orders", "messages": 3, "consumers": 1}]
        return Look(at_s=time.monotonic(), wall_s=time.time(), stores={"main": {"queues": queues}})


@dataclass
class RecordedActs:
    """What would have been done."""

    done: list[tuple[Any, ...]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        def act(*args: Any, **options: Any) -> dict[str, Any]:
            if args and args[0] == "missing":
                raise InvalidDestinationError("there is no queue 'missing'")
            if args and args[0] == "busy":
                raise InUseError("the queue 'busy' has 2 consumers")
            self.done.append((name, *args))
            return {"messages": 3}

        return act

    def depth(self, queue: str) -> int:
        return 3


@dataclass
class Desk:
    """A console and clients of it."""

    console: Console
    app: Any
    acts: RecordedActs
    tokens: dict[str, Token]
    path: Path

    def audit(self) -> list[dict[str, Any]]:
        return list(reversed(self.console.parts.audit.recent()))

    def call(self, method: str, path: str, **options: Any) -> httpx.Response:
        """A request of a program, or of whoever these headers say."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
                return await client.request(method, path, **options)

        return asyncio.run(ask())

    def as_program(self, role: str, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens[role].text}", **options.pop("headers", {})}
        return self.call(method, path, headers=headers, **options)

    def browser(self, role: str) -> tuple[str, str]:
        """Log in as a browser does: the cookie and the CSRF value."""
        answer = self.call(
            "POST", "/api/v1/session", json={"token": self.tokens[role].text}, headers={"Origin": ORIGIN}
        )
        assert answer.status_code == 200, answer.text
        return answer.cookies[COOKIE], answer.json()["csrf"]
