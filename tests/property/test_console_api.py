"""Whatever a request to a console has, the answer is one that the description has, and never a failure."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    ignored_auth,
    missing_required_header,
    positive_data_acceptance,
    unsupported_method,
)

from shoal.config.tokens import Principal, Principals, Token, write_principals
from shoal.console.access import Access
from shoal.console.app import make_app
from shoal.console.console import Console, Parts
from shoal.console.history import Histories
from shoal.console.look import Look
from shoal.web.audit import Audit

_DIRECTORY = tempfile.TemporaryDirectory(prefix="shoal-console")
TOKEN = Token.new("admin")


class Nothing:
    """An empty domain."""

    def look(self) -> Look:
        return Look(at_s=time.monotonic(), wall_s=time.time())

    def hurry(self) -> None:
        pass


class Acts:
    """Does nothing, well."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **options: {"messages": 0, "rows": []}


class Clock:
    """Moves so far with each look that no failed login has to wait."""

    now = 0.0

    def __call__(self) -> float:
        self.now += 100.0
        return self.now


async def made() -> Console:
    path = Path(_DIRECTORY.name)
    write_principals(path / "tokens", [Principal("admin", "admin", TOKEN.verifier)])
    acts: Any = Acts()
    parts = Parts(
        source=Nothing(),
        access=Access(Principals(path / "tokens"), "cookie", is_tls=False, clock=Clock()),
        audit=Audit(path / "audit.jsonl", time.time),
        histories=Histories(),
        domain="d",
        acts=acts,
    )
    return Console(parts)


HOST = "127.0.0.1:7481"
schema = schemathesis.openapi.from_asgi(
    "/api/v1/openapi.json",
    make_app(asyncio.run(made()), lambda: frozenset({HOST})),
    headers={"Host": HOST},
)
#: 503 is an answer: no store, no host. FastAPI names one method of a path in `Allow`. The description does
#: not have all rules of names and selectors. Each request shows the token on purpose.
EXCLUDED = [
    not_a_server_error,
    allow_header_conformance,
    positive_data_acceptance,
    ignored_auth,
    missing_required_header,
    unsupported_method,
]


# Streams have no end; tests/unit/console reads their beginning.
@schema.exclude(path_regex="(events|watch)$").parametrize()
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_answer_is_one_that_is_described(case: schemathesis.Case) -> None:
    headers = {"Host": HOST, "Authorization": f"Bearer {TOKEN.text}"}
    response = case.call(headers=headers)
    assert response.status_code != 500
    case.validate_response(response, headers=headers, excluded_checks=EXCLUDED)
