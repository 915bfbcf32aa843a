"""What every public call checks of its arguments. An error names the argument, its value and what would
do."""

import math
from collections.abc import Callable, Mapping
from typing import Any, get_args

from shoal.config.connection import COST_MAX
from shoal.errors import ConfigError, InvalidTopicError
from shoal.selector import CorrelationFilter, Selector
from shoal.types import is_text

#: MQTT's wildcards, and what stands for them here.
_MQTT = {"+": "*", "#": ">"}


def refuse(name: str, value: object, wanted: str) -> TypeError:
    """The error for an argument of a wrong type."""
    return TypeError(f"{name} is {value!r}, and must be {wanted}")


#: What other systems call arguments of `subscribe`.
_SUBSCRIBE = {
    **dict.fromkeys(("queue", "group", "group_id"), "shared"),
    **dict.fromkeys(("cb", "handler", "listener"), "callback"),
    **dict.fromkeys(("filter", "where"), "selector"),
    "retain": "retained",
}


def unexpected_of_subscribe(name: str) -> TypeError:
    """The error for an argument that `subscribe` has not."""
    meant = _SUBSCRIBE.get(name)
    hint = "" if meant is None else f". Did you mean {meant!r}?"
    return TypeError(f"subscribe() got an unexpected keyword argument {name!r}{hint}")


def dotted(topic: str) -> str | None:
    """What a topic with dots and no slash may mean; names of files and hosts have dots, too."""
    return topic.replace(".", "/") if "." in topic and "/" not in topic else None


def check_pattern(pattern: object) -> None:
    """Refuse what is no text, and explain wildcards to users of MQTT."""
    if not isinstance(pattern, str):
        raise refuse("pattern", pattern, "a str such as 'prices/*'")
    if not is_text(pattern):
        raise InvalidTopicError(f"{pattern!r} has a character that cannot be sent")
    levels = pattern.split("/")
    if any(level in _MQTT for level in levels):
        meant = "/".join(_MQTT.get(level, level) for level in levels if level)
        raise InvalidTopicError(
            f"{pattern!r} has a wildcard of MQTT: here '*' stands for one level and '>' for all that follow, "
            f"so {meant!r} is what you mean"
        )
    if "." in pattern and "/" not in pattern and any(wildcard in pattern for wildcard in "*>"):
        raise InvalidTopicError(
            f"{pattern!r} has a wildcard inside a level: '/' separates the levels of a topic, not '.', so "
            f"{pattern.replace('.', '/')!r} is what you mean"
        )


def check_callback(callback: object) -> None:
    """Refuse what cannot be called."""
    if callback is not None and not callable(callback):
        raise refuse("callback", callback, "a function of one message, or None")


def check_concurrency(concurrency: object, callback: object) -> None:
    """Refuse callbacks at the same time where there is none."""
    check_count("concurrency", concurrency, 1)
    if concurrency != 1 and callback is None:
        raise refuse("concurrency", concurrency, "1 where there is no callback")


def check_flag(name: str, value: object) -> None:
    """Refuse what is neither true nor false."""
    if not isinstance(value, bool):
        raise refuse(name, value, "True or False")


def check_queue(queue_bytes_max: object) -> None:
    """Refuse a bound that bounds nothing."""
    if not isinstance(queue_bytes_max, int) or isinstance(queue_bytes_max, bool):
        raise refuse("queue_bytes_max", queue_bytes_max, "a whole number of bytes")
    if not 1 <= queue_bytes_max < 1 << 63:
        raise ConfigError(f"queue_bytes_max is {queue_bytes_max}, and must be at least 1 and below 2**63")


def check_choice(name: str, value: object, choices: Any) -> None:
    """Refuse what is not one of the choices, a `Literal`."""
    *most, last = get_args(choices)
    if value not in (*most, last):
        raise ConfigError(f"{name} must be {', '.join(most)} or {last}, not {value!r}")


def check_seconds(name: str, value: object, *, none: str | None = None) -> None:
    """Refuse what is no time span; `none` is what None would mean, if it is allowed."""
    if value is None and none is not None:
        return
    wanted = "a number of seconds, at least 0" + (f", or None for {none}" if none else "")
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(name, value, wanted)
    if math.isnan(value) or value < 0:
        raise ConfigError(f"{name} is {value!r}, and must be {wanted}")


def check_count(name: str, value: object, least: int = 0) -> None:
    """Refuse what is no number of things."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(name, value, "a whole number")
    if value < least:
        raise ConfigError(f"{name} is {value}, and must be at least {least}")


def check_cost(cost: object) -> None:
    """Refuse what no step over a link can cost."""
    if cost is None:
        return
    check_count("cost", cost, 1)
    if isinstance(cost, int) and cost > COST_MAX:
        raise ConfigError(f"cost is {cost}, and must be at most {COST_MAX}")


def properties_of(properties: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Properties as the extension module takes them."""
    if properties is None:
        return None
    if not isinstance(properties, Mapping):
        raise refuse("properties", properties, "a mapping of names to values")
    return dict(properties)


def selector_of(selector: str | Selector | None) -> Selector | None:
    """A selector, from its text if need be."""
    if selector is None or isinstance(selector, Selector):
        return selector
    if isinstance(selector, str):
        return Selector(selector)
    raise refuse("selector", selector, "a str such as \"region = 'EU'\", a shoal.Selector, or None")


def correlation_of(correlation: str | CorrelationFilter | None) -> CorrelationFilter | None:
    """A correlation filter, from its text if need be."""
    if correlation is None or isinstance(correlation, CorrelationFilter):
        return correlation
    if isinstance(correlation, str):
        return CorrelationFilter(correlation)
    raise refuse("correlation", correlation, "a str such as '[#7;#13]', a shoal.CorrelationFilter, or None")


def name_of(callback: Callable[..., object]) -> str:
    """What to call a callback in a message."""
    return getattr(callback, "__qualname__", type(callback).__name__)
