"""Where the servers of peers are: on the path, or where `scripts/peers` put them."""

import os
import shutil
from pathlib import Path


def folder() -> Path:
    """Where `scripts/peers` puts what it fetches."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SHOAL_PEERS") or cache / "shoal" / "peers")


def nats_server() -> str | None:
    """The program nats-server, if there is one."""
    fetched = folder() / "nats-server"
    return str(fetched) if fetched.exists() else shutil.which("nats-server")


def artemis() -> Path | None:
    """Where ActiveMQ Artemis is unpacked, if it is and there is a Java to run it."""
    home = folder() / "artemis"
    found = (home / "bin" / "artemis").exists() and shutil.which("java") is not None
    return home if found else None
