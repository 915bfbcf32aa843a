"""Shoal: messaging for Python programs, with no broker."""

from shoal._core import __version__
from shoal.errors import InvalidSelectorError, ShoalError
from shoal.selector import Byte, CorrelationFilter, Double, Float, Int, Long, Selector, Short

__all__ = [
    "Byte",
    "CorrelationFilter",
    "Double",
    "Float",
    "Int",
    "InvalidSelectorError",
    "Long",
    "Selector",
    "ShoalError",
    "Short",
    "__version__",
]
