"""Shoal: messaging for Python programs, with no broker.

Names are imported when they are first used, so that a program pays for what it uses.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from shoal import aio, codecs, config, errors, norm
    from shoal._core import Message, __version__
    from shoal.bus.consumer import Consumer, StoredSubscription
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
        StoreDown,
        StoreUp,
        SubscriptionsChanged,
        Unreadable,
    )
    from shoal.bus.queues import Queue
    from shoal.bus.subscription import Subscription
    from shoal.bus.sync import Bus, connect, listen
    from shoal.bus.transactions import Transaction
    from shoal.errors import (
        BacklogError,
        ClosedError,
        ConfigError,
        DataLossError,
        DiffersError,
        FlushError,
        FullError,
        HistoryError,
        InUseError,
        InvalidDestinationError,
        InvalidSelectorError,
        InvalidTopicError,
        LeaseError,
        LinkError,
        MessageFormatError,
        MessageTooLongError,
        NoReplyError,
        NoRespondersError,
        NoStoreError,
        RemoteError,
        ShoalError,
        StoreAwayError,
        StoreCorruptError,
        StoreError,
        StoreFailedError,
        StoreFullError,
        StoreLockedError,
        StoreRefusedError,
        StoreUnavailableError,
        TransactionRolledBackError,
        TrimmedError,
        UndeliveredWarning,
    )
    from shoal.link.state import LinkState
    from shoal.selector import Byte, CorrelationFilter, Double, Float, Int, Long, Selector, Short

#: Where each name is.
_HOMES = {
    "_core": ("Message", "__version__"),
    "bus.consumer": ("Consumer", "StoredSubscription"),
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
        "StoreDown",
        "StoreUp",
        "SubscriptionsChanged",
        "Unreadable",
    ),
    "bus.queues": ("Queue",),
    "bus.subscription": ("Subscription",),
    "bus.sync": ("Bus", "connect", "listen"),
    "bus.transactions": ("Transaction",),
    "link.state": ("LinkState",),
    "errors": (
        "BacklogError",
        "ClosedError",
        "ConfigError",
        "DataLossError",
        "DiffersError",
        "FlushError",
        "FullError",
        "HistoryError",
        "InUseError",
        "InvalidDestinationError",
        "InvalidSelectorError",
        "InvalidTopicError",
        "LeaseError",
        "LinkError",
        "MessageFormatError",
        "MessageTooLongError",
        "NoReplyError",
        "NoRespondersError",
        "NoStoreError",
        "RemoteError",
        "ShoalError",
        "StoreAwayError",
        "StoreCorruptError",
        "StoreError",
        "StoreFailedError",
        "StoreFullError",
        "StoreLockedError",
        "StoreRefusedError",
        "StoreUnavailableError",
        "TransactionRolledBackError",
        "TrimmedError",
        "UndeliveredWarning",
    ),
    "selector": ("Byte", "CorrelationFilter", "Double", "Float", "Int", "Long", "Selector", "Short"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("aio", "codecs", "config", "errors", "history", "norm", "spark", "store", "types")

__all__ = [
    "BacklogError",
    "Bus",
    "Byte",
    "ClosedError",
    "ConfigError",
    "Consumer",
    "CorrelationFilter",
    "DataLossError",
    "DiffersError",
    "Double",
    "Event",
    "EventsDropped",
    "Float",
    "FlushError",
    "FullError",
    "HistoryError",
    "InUseError",
    "Int",
    "InvalidDestinationError",
    "InvalidSelectorError",
    "InvalidTopicError",
    "LeaseError",
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
    "NoStoreError",
    "NodeIdChanged",
    "Queue",
    "RemoteError",
    "Selector",
    "ShoalError",
    "Short",
    "StoreAwayError",
    "StoreCorruptError",
    "StoreDown",
    "StoreError",
    "StoreFailedError",
    "StoreFullError",
    "StoreLockedError",
    "StoreRefusedError",
    "StoreUnavailableError",
    "StoreUp",
    "StoredSubscription",
    "Subscription",
    "SubscriptionsChanged",
    "Transaction",
    "TransactionRolledBackError",
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
