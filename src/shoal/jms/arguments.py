"""What calls of `shoal.jms` check of their arguments, as those of the bus do, with an error of JMS."""

import time
from typing import Never

from shoal.bus import arguments
from shoal.errors import InvalidArgumentError


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false."""
    try:
        arguments.check_flag(name, value)
    except TypeError as error:
        raise InvalidArgumentError(str(error)) from None


def check_seconds(name: str, value: object, *, none: str | None = None) -> None:
    """Refuse what is no time span; `none` is what None would mean, if it is allowed."""
    try:
        arguments.check_seconds(name, value, none=none)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from None


def refuse_milliseconds(call: str, given: tuple[object, ...]) -> Never:
    """Refuse a time as Java gives it: by its position, and in milliseconds."""
    time_ms = given[0]
    seconds = f"{time_ms / 1000:g}" if isinstance(time_ms, int | float) else "SECONDS"
    raise InvalidArgumentError(
        f"{call} takes its time by name, in seconds: Java's {time_ms!r} is timeout_s={seconds} here"
    )


def refuse_positions() -> Never:
    """Refuse arguments of `send` that Java tells by their position."""
    raise InvalidArgumentError(
        "send takes the message by its position, and the rest by name: destination, delivery_mode, priority, "
        "time_to_live_s (Java's milliseconds are seconds here), completion_listener"
    )


def until_of(timeout_s: float | None) -> float | None:
    """When a `timeout_s` is over, by `time.monotonic`; `None` is never."""
    check_seconds("timeout_s", timeout_s, none="no end")
    return None if timeout_s is None else time.monotonic() + timeout_s


def left_of(until: float | None) -> float | None:
    """The seconds until then; `None` if that is never."""
    return None if until is None else max(until - time.monotonic(), 0.0)


def check_count(name: str, value: object, least: int = 0) -> None:
    """Refuse what is no number of things."""
    try:
        arguments.check_count(name, value, least)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from None


def check_queue(queue_bytes_max: object) -> None:
    """Refuse a bound that bounds nothing."""
    try:
        arguments.check_queue(queue_bytes_max)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(str(error)) from None
