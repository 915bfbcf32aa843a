"""Shoal: messaging for Python programs, with no broker.

Names are imported when they are first used, so that a program pays for what it uses.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal import aio, codecs, config, errors, norm
    from shoal._core import Message, __version__
    from shoal.bus.events import (
        Event,
        EventsDropped,
        LinkDown,
        LinkFailed,
        LinkReconnecting,
        LinkRefused,
        LinkUp,
        MemberJoined,
        MemberLeft,
        MemberSlow,
        MessagesLost,
        NodeIdChanged,
        SubscriptionsChanged,
        Unreadable,
    )
    from shoal.bus.subscription import Subscription
    from shoal.bus.sync import Bus, connect, listen
    from shoal.errors import (
        ClosedError,
        ConfigError,
        DataLossError,
        FlushError,
        FullError,
        HistoryError,
        InvalidSelectorError,
        InvalidTopicError,
        LinkError,
        MessageFormatError,
        MessageTooLongError,
        NoReplyError,
        NoRespondersError,
        RemoteError,
        ShoalError,
        StoreCorruptError,
        StoreError,
        StoreFailedError,
        StoreFullError,
        StoreLockedError,
        StoreRefusedError,
        StoreUnavailableError,
        TrimmedError,
        UndeliveredWarning,
    )
    from shoal.link.state import LinkState
    from shoal.selector import Byte, CorrelationFilter, Double, Float, Int, Long, Selector, Short

#: Where each name is.
_HOMES = {
    "_core": ("Message", "__version__"),
    "bus.events": (
        "Event",
        "EventsDropped",
        "LinkDown",
        "LinkFailed",
        "LinkReconnecting",
        "LinkRefused",
        "LinkUp",
        "MemberJoined",
        "MemberLeft",
        "MemberSlow",
        "MessagesLost",
        "NodeIdChanged",
        "SubscriptionsChanged",
        "Unreadable",
    ),
    "bus.subscription": ("Subscription",),
    "bus.sync": ("Bus", "connect", "listen"),
    "link.state": ("LinkState",),
    "errors": (
        "ClosedError",
        "ConfigError",
        "DataLossError",
        "FlushError",
        "FullError",
        "HistoryError",
        "InvalidSelectorError",
        "InvalidTopicError",
        "LinkError",
        "MessageFormatError",
        "MessageTooLongError",
        "NoReplyError",
        "NoRespondersError",
        "RemoteError",
        "ShoalError",
        "StoreCorruptError",
        "StoreError",
        "StoreFailedError",
        "StoreFullError",
        "StoreLockedError",
        "StoreRefusedError",
        "StoreUnavailableError",
        "TrimmedError",
        "UndeliveredWarning",
    ),
    "selector": ("Byte", "CorrelationFilter", "Double", "Float", "Int", "Long", "Selector", "Short"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("aio", "codecs", "config", "errors", "history", "norm", "spark", "store", "types")

__all__ = [
    "Bus",
    "Byte",
    "ClosedError",
    "ConfigError",
    "CorrelationFilter",
    "DataLossError",
    "Double",
    "Event",
    "EventsDropped",
    "Float",
    "FlushError",
    "FullError",
    "HistoryError",
    "Int",
    "InvalidSelectorError",
    "InvalidTopicError",
    "LinkDown",
    "LinkError",
    "LinkFailed",
    "LinkReconnecting",
    "LinkRefused",
    "LinkState",
    "LinkUp",
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
    "NodeIdChanged",
    "RemoteError",
    "Selector",
    "ShoalError",
    "Short",
    "StoreCorruptError",
    "StoreError",
    "StoreFailedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreRefusedError",
    "StoreUnavailableError",
    "Subscription",
    "SubscriptionsChanged",
    "TrimmedError",
    "UndeliveredWarning",
    "Unreadable",
    "__version__",
    "aio",
    "codecs",
    "config",
    "connect",
    "errors",
    "listen",
    "norm",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"shoal.{name}")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'shoal' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"shoal.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})
