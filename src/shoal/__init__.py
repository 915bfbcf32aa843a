"""Shoal: messaging for Python programs, with no broker."""

import importlib
from typing import TYPE_CHECKING, Any

from shoal._core import Message, __version__
from shoal.bus.events import (
    Event,
    MemberJoined,
    MemberLeft,
    MemberSlow,
    MessagesLost,
    SubscriptionsChanged,
    Unreadable,
)
from shoal.bus.sync import Bus, Subscription, connect
from shoal.errors import (
    ClosedError,
    ConfigError,
    FlushError,
    FullError,
    InvalidSelectorError,
    InvalidTopicError,
    LinkError,
    MessageFormatError,
    MessageTooLongError,
    NoReplyError,
    NoRespondersError,
    RemoteError,
    ShoalError,
    UndeliveredWarning,
)
from shoal.selector import Byte, CorrelationFilter, Double, Float, Int, Long, Selector, Short

if TYPE_CHECKING:
    from shoal import aio, norm

#: Modules that are imported when they are first used.
_LAZY = ("aio", "norm")

__all__ = [
    "Bus",
    "Byte",
    "ClosedError",
    "ConfigError",
    "CorrelationFilter",
    "Double",
    "Event",
    "Float",
    "FlushError",
    "FullError",
    "Int",
    "InvalidSelectorError",
    "InvalidTopicError",
    "LinkError",
    "Long",
    "MemberJoined",
    "MemberLeft",
    "MemberSlow",
    "Message",
    "MessageFormatError",
    "MessageTooLongError",
    "MessagesLost",
    "NoReplyError",
    "NoRespondersError",
    "RemoteError",
    "Selector",
    "ShoalError",
    "Short",
    "Subscription",
    "SubscriptionsChanged",
    "UndeliveredWarning",
    "Unreadable",
    "__version__",
    "aio",
    "connect",
    "norm",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return importlib.import_module(f"shoal.{name}")
    raise AttributeError(f"module 'shoal' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
