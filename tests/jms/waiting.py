"""Waiting for something to become true, with an end."""

import time
from collections.abc import Callable, Sequence

from shoal import jms

PATIENCE_S = 30.0


def until(is_true: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Look until it is true, or fail."""
    deadline = time.monotonic() + patience_s
    while not is_true():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.001)


def gathered(consumers: Sequence[jms.JMSConsumer], count: int) -> list[list[jms.Message]]:
    """So many messages, and which of the consumers got each."""
    found: list[list[jms.Message]] = [[] for _ in consumers]

    def is_enough() -> bool:
        for mine, consumer in zip(found, consumers, strict=True):
            while (message := consumer.receive_no_wait()) is not None:
                mine.append(message)
        return sum(map(len, found)) >= count

    until(is_enough)
    return found
