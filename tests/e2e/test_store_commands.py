"""`shoal store status`, `backup`, `restore`, `seek` and `unsubscribe` on a store that runs."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from shoal.config import resolve as resolve_connection
from shoal.errors import StoreError
from shoal.store import Store, resolve
from shoal.store.asking import Asker
from shoal.testing import rows


def shoal(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "shoal.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_store_that_runs_is_looked_at_copied_and_asked(tmp_path: Path) -> None:
    data = tmp_path / "data"
    connection = resolve_connection("norm://?interface=lo", {"domain": "store-commands"})
    with Store(resolve(data, segment_bytes=1 << 20), connection) as store:
        assert store.wait_open(10)
        asker = Asker(store.urls[0], f"{store.log.store_id:016x}", "store-commands")
        asker.ask(
            "subscribe", consumer=1, patterns=["t"], name="s", durable=True, shared=True, messages=0, bytes=0
        )
        content = rows.encode(9, 5, [(n, 1, rows.record("_queue/q", bytes(1000))) for n in range(1, 301)])
        asker.ask("commit", id="x", publisher=9, key="k", chain=5, after=0, rows=content, acks=[])
        deadline = time.monotonic() + 10
        while json.loads((data / "status.json").read_text())["end"] < 300 and time.monotonic() < deadline:
            time.sleep(0.1)
        status = shoal("store", "status", "--data", str(data))
        assert "queue        q  300 messages" in status.stdout, status.stderr
        refused = shoal("store", "unsubscribe", "s", "--shared", "--data", str(data))
        assert refused.returncode == 1
        assert "in use" in refused.stderr
        asker.ask("cancel", consumer=1)
        sought = shoal("store", "seek", "s", "earliest", "--shared", "--data", str(data))
        assert sought.stdout == "the subscription s reads on from offset 0\n", sought.stderr
        assert shoal("store", "seek", "s", "soon", "--shared", "--data", str(data)).returncode != 0
        gone = shoal("store", "unsubscribe", "s", "--shared", "--data", str(data))
        assert gone.returncode == 0, gone.stderr
        copied = shoal("store", "backup", str(tmp_path / "copy"), "--data", str(data))
        assert copied.returncode == 0, copied.stderr
        assert "300 messages" in copied.stdout
        assert shoal("store", "backup", str(tmp_path / "copy"), "--data", str(data)).returncode == 1
        asker.close()
        # Another store of the same domain that keeps the same gives way, and names this one.
        with (
            Store(resolve(tmp_path / "other"), connection) as other,
            pytest.raises(StoreError, match="'store'"),
        ):
            other.wait_open(10)
    restored = shoal("store", "restore", str(tmp_path / "copy"), "--data", str(tmp_path / "restored"))
    assert restored.returncode == 0, restored.stderr
    with Store(resolve(tmp_path / "restored"), connection) as store:
        assert store.log.incarnation in restored.stdout
        assert store.status()["queues"][0]["messages"] == 300
    renewed = shoal("store", "renew", "--data", str(tmp_path / "copy"))
    assert renewed.returncode == 0, renewed.stderr
    with Store(resolve(tmp_path / "copy"), connection) as store:
        (queue,) = store.status()["queues"]
        assert queue["messages"] == 300
