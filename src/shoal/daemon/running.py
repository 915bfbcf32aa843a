"""Where a running daemon is found by its name: a file with its process id."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Self

from shoal.daemon.config import DaemonConfig
from shoal.errors import ConfigError


def _file(config: DaemonConfig) -> Path:
    """For daemons of one user and machine."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    own = getattr(os, "getuid", lambda: 0)()
    folder = Path(base) / "shoal" if base else Path(tempfile.gettempdir()) / f"shoal-{own}"
    name = hashlib.sha256(f"{config.domain} {config.name}".encode()).hexdigest()[:16]
    return folder / f"daemon-{name}.pid"


class Running:
    """The file of this daemon, while it runs. A folder that cannot be written is done without."""

    def __init__(self, config: DaemonConfig) -> None:
        self._path = _file(config)

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self._path.parent.stat().st_uid == getattr(os, "getuid", lambda: 0)():
                self._path.write_text(f"{os.getpid()}\n", encoding="ascii")
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            if int(self._path.read_text(encoding="ascii")) == os.getpid():
                self._path.unlink()


def process_of(config: DaemonConfig) -> int:
    """The process id of the daemon that a file describes.

    Raises:
        ConfigError: it does not run here, or under another user.
    """
    path = _file(config)
    try:
        number = int(path.read_text(encoding="ascii"))
        os.kill(number, 0)
    except (OSError, ValueError):
        raise ConfigError(
            f"no daemon {config.name!r} of domain {config.domain!r} runs here as this user ({path}): "
            "name its process with --pid"
        ) from None
    return number
