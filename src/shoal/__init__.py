"""Shoal: messaging for Python programs, with no broker."""

from shoal._core import Message, Subscription, __version__
from shoal.bus.sync import Bus, connect
from shoal.errors import ShoalError

__all__ = ["Bus", "Message", "ShoalError", "Subscription", "__version__", "connect"]
