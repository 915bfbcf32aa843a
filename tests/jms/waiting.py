"""Waiting for something to become true, with an end."""

import time
from collections.abc import Callable

PATIENCE_S = 10.0


def until(is_true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look until it is true, or fail."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.001)
