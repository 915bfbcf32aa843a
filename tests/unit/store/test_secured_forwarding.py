"""A rule that leads to a store which asks for tokens."""

import secrets
import time
from pathlib import Path
from typing import Any

import pytest
from secured_site import Site

import shoal
from shoal.cli.token import new
from shoal.config import ConnectionConfig
from shoal.store import Store, resolve

PATIENCE_S = 30.0


def rule_of(store: Store) -> dict[str, Any]:
    (found,) = store.status()["forwards"]
    return found


@pytest.mark.parametrize("role", ["store", "client"])
def test_a_rule_needs_a_token_with_the_role_of_a_store(tmp_path: Path, role: str) -> None:
    new("branch", tmp_path / "tokens", tmp_path / "branch.token", role)
    site = Site(tmp_path, secrets.token_hex(6), segment_bytes=1 << 20)
    given = {"name": "hq", "patterns": ["orders/>"], "to": site.store.urls[0], "domain": site.domain}
    config = resolve(
        tmp_path / "branch",
        segment_bytes=1 << 20,
        forward=[{**given, "token_file": str(tmp_path / "branch.token")}],
    )
    domain = secrets.token_hex(6)
    try:
        with Store(config, ConnectionConfig(scheme="inproc", domain=domain)) as branch:
            assert branch.wait_open(PATIENCE_S)
            with shoal.connect(f"inproc://{domain}") as bus:
                bus.publish("orders/1", "a", persistent=True)
            deadline = time.monotonic() + PATIENCE_S
            while (found := rule_of(branch))["messages"] and found["state"] != "refused":
                assert time.monotonic() < deadline, found
                time.sleep(0.01)
            if role == "store":
                assert (found["messages"], site.store.log.durable_end) == (0, 1)
            else:
                assert "may not forward" in found["why"]
                assert site.store.log.durable_end == 0
    finally:
        site.store.close()
