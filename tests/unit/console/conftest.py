"""A console without a network."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from console_desk import COOKIE, HOST, Desk, RecordedActs, Still

from shoal.config.tokens import Principal, Principals, Token, write_principals
from shoal.console.access import Access
from shoal.console.app import make_app
from shoal.console.console import Console, Parts
from shoal.console.history import Histories
from shoal.web.audit import Audit


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    tokens = {role: Token.new(f"one-{role}") for role in ("viewer", "operator", "admin", "client", "daemon")}
    path = tmp_path / "tokens"
    write_principals(
        path, [Principal(token.principal, role, token.verifier) for role, token in tokens.items()]
    )
    acts: Any = RecordedActs()
    audit = Audit(tmp_path / "audit.jsonl", time.time)

    async def make() -> Console:
        parts = Parts(
            source=Still(),
            access=Access(Principals(path), COOKIE, is_tls=False),
            audit=audit,
            histories=Histories(),
            domain="d",
            acts=acts,
        )
        return Console(parts)

    console = asyncio.run(make())
    console.picture.update(Still().look())
    yield Desk(console, make_app(console, lambda: frozenset({HOST})), acts, tokens, tmp_path)
    audit.close()
