"""What a store tells of itself, for other processes: a file in its directory, written every second."""

import json
import time
from pathlib import Path
from typing import Any

from shoal.errors import StoreError

_NAME = "status.json"
#: Topics, queues, subscriptions and sessions that are listed one by one; the file is written every second.
TOPICS_MAX = 1000
#: A status that is older says that its store ended, or hangs.
STALE_S = 10.0


class Rate:
    """Messages and bytes per second, over the last turn."""

    def __init__(self) -> None:
        self.messages_s = 0.0
        self.bytes_s = 0.0
        self._last: tuple[float, int, int] | None = None

    def take(self, now_s: float, messages: int, size: int) -> None:
        """Take note of how many there are now."""
        if self._last is not None and now_s > self._last[0]:
            passed = now_s - self._last[0]
            self.messages_s = (messages - self._last[1]) / passed
            self.bytes_s = (size - self._last[2]) / passed
        self._last = (now_s, messages, size)


def write_status(directory: Path, status: dict[str, Any]) -> None:
    """Replace the file."""
    status = dict(status)
    for name in ("topics", "queues", "subscriptions", "sessions"):
        found = status[name]
        status[name], status[f"{name}_count"] = found[:TOPICS_MAX], len(found)
    unfinished = directory / f"{_NAME}.new"
    unfinished.write_text(json.dumps(status))
    unfinished.replace(directory / _NAME)


def read_status(directory: Path) -> dict[str, Any]:
    """What the store of a directory said last; `stale` says that it says nothing any more."""
    try:
        status: dict[str, Any] = json.loads((directory / _NAME).read_text())
    except FileNotFoundError:
        raise StoreError(f"{directory} has no status: no store was ever open there") from None
    except (OSError, ValueError) as error:
        raise StoreError(f"the status of {directory} cannot be read: {error}") from None
    status["stale"] = time.time() - status["at"] > STALE_S
    return status
