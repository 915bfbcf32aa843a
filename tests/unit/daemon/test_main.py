"""What a daemon is as a process: what it loads, and how it ends."""

import subprocess
import sys

HEAVY = ("asyncio", "http.server", "pydantic", "sqlite3", "ssl", "typer", "shoal.cli", "shoal.store.role")


def test_a_daemon_loads_only_what_its_file_asks_for() -> None:
    """A small gateway has 64 MB; TLS, HTTP, a store and the command line would take a third of it."""
    script = f"import shoal.daemon.__main__, sys; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == []
