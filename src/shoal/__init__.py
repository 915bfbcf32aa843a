"""Shoal: messaging for Python programs, with no broker.

Names are imported when they are first used, so that a program pays for what it uses.
"""

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal import aio, codecs, config, errors, norm

    # `import *` leaves these out: some need a library of their own.
    from shoal import history as history
    from shoal import jms as jms
    from shoal import link as link
    from shoal import spark as spark
    from shoal import store as store
    from shoal import types as types
    from shoal._core import Message, __version__
    from shoal.bus.consumer import Consumer, StoredSubscription
    from shoal.bus.events import (
        BacklogDropped,
        CapacityLow,
        CapacityRegained,
        Event,
        EventsDropped,
        LinkFailed,
        MemberJoined,
        MemberLeft,
        MemberSlow,
        MessagesLost,
        NodeIdChanged,
        QueueNearlyFull,
        StoreDown,
        StoreUp,
        SubscriptionsChanged,
        Unreadable,
    )
    from shoal.bus.queues import Queue
    from shoal.bus.receipt import Receipt
    from shoal.bus.statistics import Statistics
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
        ForkedError,
        FullError,
        HistoryError,
        IllegalStateError,
        InUseError,
        InvalidArgumentError,
        InvalidClientIDError,
        InvalidDestinationError,
        InvalidSelectorError,
        InvalidTopicError,
        JMSError,
        JMSSecurityError,
        LeaseError,
        LinkError,
        LinkRefusedError,
        MessageEOFError,
        MessageFormatError,
        MessageNotReadableError,
        MessageNotWriteableError,
        MessageTooLongError,
        NoReplyError,
        NoRespondersError,
        NoStoreError,
        NumberFormatError,
        RemoteError,
        ResourceAllocationError,
        ShoalError,
        StoreCorruptError,
        StoreDeniedError,
        StoreError,
        StoreFailedError,
        StoreFullError,
        StoreLockedError,
        StoreRefusedError,
        StoreUnavailableError,
        TransactionInProgressError,
        TransactionRolledBackError,
        TrimmedError,
    )
    from shoal.link.events import LinkDenied, LinkDown, LinkReconnecting, LinkRefused, LinkUp, Roamed
    from shoal.link.state import LinkState, NetworkLink, NetworkNode
    from shoal.selector import CorrelationFilter, Selector
    from shoal.types import Byte, Double, Float, Int, Long, Short

#: Where each name is.
_HOMES = {
    "_core": ("Message", "__version__"),
    "bus.consumer": ("Consumer", "StoredSubscription"),
    "bus.events": (
        "BacklogDropped",
        "CapacityLow",
        "CapacityRegained",
        "Event",
        "EventsDropped",
        "LinkFailed",
        "MemberJoined",
        "MemberLeft",
        "MemberSlow",
        "MessagesLost",
        "NodeIdChanged",
        "QueueNearlyFull",
        "StoreDown",
        "StoreUp",
        "SubscriptionsChanged",
        "Unreadable",
    ),
    "bus.queues": ("Queue",),
    "bus.receipt": ("Receipt",),
    "bus.statistics": ("Statistics",),
    "bus.subscription": ("Subscription",),
    "bus.sync": ("Bus", "connect", "listen"),
    "bus.transactions": ("Transaction",),
    "link.events": ("LinkDenied", "LinkDown", "LinkReconnecting", "LinkRefused", "LinkUp", "Roamed"),
    "link.state": ("LinkState", "NetworkLink", "NetworkNode"),
    "errors": (
        "BacklogError",
        "ClosedError",
        "ConfigError",
        "DataLossError",
        "DiffersError",
        "FlushError",
        "ForkedError",
        "FullError",
        "HistoryError",
        "IllegalStateError",
        "InUseError",
        "InvalidArgumentError",
        "InvalidClientIDError",
        "InvalidDestinationError",
        "InvalidSelectorError",
        "InvalidTopicError",
        "JMSError",
        "JMSSecurityError",
        "LeaseError",
        "LinkError",
        "LinkRefusedError",
        "MessageEOFError",
        "MessageFormatError",
        "MessageNotReadableError",
        "MessageNotWriteableError",
        "MessageTooLongError",
        "NoReplyError",
        "NoRespondersError",
        "NoStoreError",
        "NumberFormatError",
        "RemoteError",
        "ResourceAllocationError",
        "ShoalError",
        "StoreCorruptError",
        "StoreDeniedError",
        "StoreError",
        "StoreFailedError",
        "StoreFullError",
        "StoreLockedError",
        "StoreRefusedError",
        "StoreUnavailableError",
        "TransactionInProgressError",
        "TransactionRolledBackError",
        "TrimmedError",
    ),
    "selector": ("CorrelationFilter", "Selector"),
    "types": ("Byte", "Double", "Float", "Int", "Long", "Short"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("aio", "codecs", "config", "errors", "history", "jms", "link", "norm", "spark", "store", "types")

__all__ = [
    "BacklogDropped",
    "BacklogError",
    "Bus",
    "Byte",
    "CapacityLow",
    "CapacityRegained",
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
    "ForkedError",
    "FullError",
    "HistoryError",
    "IllegalStateError",
    "InUseError",
    "Int",
    "InvalidArgumentError",
    "InvalidClientIDError",
    "InvalidDestinationError",
    "InvalidSelectorError",
    "InvalidTopicError",
    "JMSError",
    "JMSSecurityError",
    "LeaseError",
    "LinkDenied",
    "LinkDown",
    "LinkError",
    "LinkFailed",
    "LinkReconnecting",
    "LinkRefused",
    "LinkRefusedError",
    "LinkState",
    "LinkUp",
    "Long",
    "MemberJoined",
    "MemberLeft",
    "MemberSlow",
    "Message",
    "MessageEOFError",
    "MessageFormatError",
    "MessageNotReadableError",
    "MessageNotWriteableError",
    "MessageTooLongError",
    "MessagesLost",
    "NetworkLink",
    "NetworkNode",
    "NoReplyError",
    "NoRespondersError",
    "NoStoreError",
    "NodeIdChanged",
    "NumberFormatError",
    "Queue",
    "QueueNearlyFull",
    "Receipt",
    "RemoteError",
    "ResourceAllocationError",
    "Roamed",
    "Selector",
    "ShoalError",
    "Short",
    "Statistics",
    "StoreCorruptError",
    "StoreDeniedError",
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
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "TrimmedError",
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

# A type checker sees the names above, and refuses others.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"shoal.{name}")
        home = _HOME_OF.get(name)
        if home is None:
            raise AttributeError(
                f"module 'shoal' has no attribute {name!r}", name=name, obj=sys.modules[__name__]
            )
        value = globals()[name] = getattr(importlib.import_module(f"shoal.{home}"), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF, *_MODULES})
