"""Shoal: messaging for Python programs, with no broker."""

from shoal._core import __version__

__all__ = ["__version__"]
