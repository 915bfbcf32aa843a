"""Shoal: messaging for Python programs, with no broker."""

from shoal._core import Message, Subscription, __version__
from shoal.bus.sync import Bus, connect
from shoal.errors import InvalidSelectorError, ShoalError
from shoal.selector import Byte, CorrelationFilter, Double, Float, Int, Long, Selector, Short

__all__ = [
    "Bus",
    "Byte",
    "CorrelationFilter",
    "Double",
    "Float",
    "Int",
    "InvalidSelectorError",
    "Long",
    "Message",
    "Selector",
    "ShoalError",
    "Short",
    "Subscription",
    "__version__",
    "connect",
]
